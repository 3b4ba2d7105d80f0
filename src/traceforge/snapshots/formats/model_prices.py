"""What a call costs by the prices that the configuration declares for its model, and which prices differ between two
configurations. Pure; it invents no price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from traceforge.canon import JSON, JSONObject
from traceforge.config import ModelRule
from traceforge.snapshots.formats.approved_policy import may_overlap
from traceforge.snapshots.formats.determinism_policy import find_model_rule
from traceforge.wire.unified import is_number

MILLION = 1_000_000


class ModelPrice(NamedTuple):
    """The price of a million tokens, by the models that a pattern names. None: not declared."""

    input: float | None
    output: float | None

    def __str__(self) -> str:
        return " and ".join("no price" if price is None else f"{price:g}" for price in self)


ModelPrices = Mapping[str, ModelPrice]  # by pattern, in the order of the configuration: the first that matches counts


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


def list_prices(models: Mapping[str, ModelRule]) -> ModelPrices:
    """The prices of every pattern, also of those without one: they hide the prices of later patterns."""
    return {
        pattern: ModelPrice(_find_price(rule.input_price_per_million), _find_price(rule.output_price_per_million))
        for pattern, rule in models.items()
    }


def find_changed_prices(before: ModelPrices, after: ModelPrices) -> Iterator[str]:
    """Each declared price that a model no longer has. A model that had no price before does not count."""
    earlier: set[str] = set()
    for pattern, price in before.items():
        if price.input is not None and price.output is not None:
            current = after.get(pattern)
            if current != price:
                yield f"{pattern}: {price} → {'not set' if current is None else current}"
            for winner in _list_winners(pattern, after) if current is not None else ():
                if winner not in earlier and after[winner] != price:
                    yield f"{pattern}: {price} → {after[winner]}, by {winner}, which is declared before it"
        earlier.add(pattern)


def _list_winners(pattern: str, prices: ModelPrices) -> Iterator[str]:
    """The patterns that a configuration declares before this one, and that may name a model of it."""
    for other in prices:
        if other == pattern:
            return
        if may_overlap(other, pattern):
            yield other


def _find_price(price: float | UnsetType) -> float | None:
    return None if price is UNSET else float(price)


def _find_number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and is_number(value) else None
