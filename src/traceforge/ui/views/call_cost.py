"""What a call cost: as its provider states it, or else by the prices of the configuration. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from traceforge.canon import JSONObject
from traceforge.clock import find_instant
from traceforge.config import ModelRule
from traceforge.snapshots.formats.model_prices import price_usage
from traceforge.traces.trace_summary import TraceSummary
from traceforge.wire.unified import as_object, as_text, is_number


class PricedCall(NamedTuple):
    """A call of which the cost is known, and when it began, in milliseconds since 1970."""

    start_ms: int
    model: str
    source: str
    amount: float


class CostSum(NamedTuple):
    """The cost of some calls."""

    amount: float
    priced: int  # Calls of which the cost is known.
    read: int  # Calls that were looked at.
    by_model: Mapping[str, float]
    by_site: Mapping[str, float]
    calls: tuple[PricedCall, ...] = ()


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
    priced_calls: list[PricedCall] = []
    read = 0
    for summary, cost in calls:
        read += 1
        if cost is not None:
            instant = find_instant(summary.timestamp)
            start_ms = int(instant[0].timestamp() * 1000) if instant else 0
            priced_calls.append(PricedCall(start_ms, summary.model, summary.source, cost.amount))
            by_model[summary.model] += cost.amount
            by_site[summary.source] += cost.amount
    return CostSum(sum(by_model.values()), len(priced_calls), read, by_model, by_site, tuple(priced_calls))
