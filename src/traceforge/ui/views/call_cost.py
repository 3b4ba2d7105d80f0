"""What a call cost: as its provider states it, or else by the prices of the configuration. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from traceforge.canon import JSONObject
from traceforge.config import ModelRule
from traceforge.snapshots.formats.model_prices import price_usage
from traceforge.traces.trace_summary import TraceSummary
from traceforge.wire.unified import as_object, as_text, is_number


class CostSum(NamedTuple):
    """The cost of some calls."""

    amount: float
    priced: int  # Calls of which the cost is known.
    read: int  # Calls that were looked at.
    by_model: Mapping[str, float]
    by_site: Mapping[str, float]


class CallCost(NamedTuple):
    """A cost, and whether the provider states it."""

    amount: float
    is_stated: bool


def find_call_cost(body: JSONObject, models: Mapping[str, ModelRule]) -> CallCost | None:
    """The cost of the call of a trace; None if neither its answer nor the configuration says enough."""
    usage = as_object(as_object(body.get("response")).get("usage"))
    stated = usage.get("cost")
    if isinstance(stated, int | float) and is_number(stated):
        return CallCost(float(stated), is_stated=True)
    model = as_text(as_object(body.get("metadata")).get("model")) or as_text(
        as_object(body.get("request")).get("model")
    )
    amount = price_usage(model, usage, models)
    return None if amount is None else CallCost(amount, is_stated=False)


def sum_costs(calls: Iterable[tuple[TraceSummary, CallCost | None]]) -> CostSum:
    """The cost of calls, as a whole and by model and call site."""
    by_model: defaultdict[str, float] = defaultdict(float)
    by_site: defaultdict[str, float] = defaultdict(float)
    priced = read = 0
    for summary, cost in calls:
        read += 1
        if cost is not None:
            priced += 1
            by_model[summary.model] += cost.amount
            by_site[summary.source] += cost.amount
    return CostSum(sum(by_model.values()), priced, read, by_model, by_site)
