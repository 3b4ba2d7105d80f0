"""What a call costs by the prices that the configuration declares for its model. Pure; it invents no price."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from traceforge.canon import JSON, JSONObject
from traceforge.config import ModelRule
from traceforge.snapshots.formats.determinism_policy import find_model_rule
from traceforge.wire.unified import is_number

MILLION = 1_000_000


def price_usage(model: str, usage: JSONObject, models: Mapping[str, ModelRule]) -> float | None:
    """The price of a token usage of the unified view; None without a declared price, or without both counts."""
    rule = find_model_rule(model, models)
    input_tokens, output_tokens = (_find_number(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if (
        rule.input_price_per_million is UNSET
        or rule.output_price_per_million is UNSET
        or input_tokens is None
        or output_tokens is None
    ):
        return None
    return (input_tokens * rule.input_price_per_million + output_tokens * rule.output_price_per_million) / MILLION


def _find_number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and is_number(value) else None
