"""What a call costs by the declared prices: nothing is invented."""

from __future__ import annotations

import pytest

from traceforge.canon import JSONObject
from traceforge.config import ModelRule
from traceforge.snapshots.formats.model_prices import ModelPrices, find_changed_prices, list_prices, price_usage

MODELS = {
    "gpt-*": ModelRule(input_price_per_million=2.0, output_price_per_million=8.0),
    "half": ModelRule(input_price_per_million=2.0),
}
USAGE: JSONObject = {"prompt_tokens": 1000, "completion_tokens": 500}


def test_both_kinds_of_tokens_have_their_price() -> None:
    assert 0.006 == price_usage("gpt-4.1", USAGE, MODELS)


@pytest.mark.parametrize(
    ("model", "usage"),
    [
        ("other", USAGE),
        ("half", USAGE),
        ("gpt-4.1", {"prompt_tokens": 1000}),
        ("gpt-4.1", {"prompt_tokens": 1000, "completion_tokens": "500"}),
        ("gpt-4.1", {"prompt_tokens": True, "completion_tokens": 500}),
    ],
)
def test_without_a_price_or_a_count_there_is_no_cost(model: str, usage: JSONObject) -> None:
    assert price_usage(model, usage, MODELS) is None


def prices(*rows: tuple[str, float | None]) -> ModelPrices:
    """The prices of patterns whose input and output cost the same."""
    return list_prices(
        {
            pattern: ModelRule()
            if price is None
            else ModelRule(input_price_per_million=price, output_price_per_million=price)
            for pattern, price in rows
        }
    )


BEFORE = (("gpt-5", 3.0), ("gpt-*", 2.0))


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        (BEFORE, []),
        ((*BEFORE, ("claude-*", 1.0)), []),
        ((("claude-*", 1.0), *BEFORE), []),
        ((("gpt-4", 2.0), *BEFORE), []),
        ((("gpt-5", 3.0), ("gpt-*", 1.0)), ["gpt-*: 2 and 2 → 1 and 1"]),
        ((("gpt-5", 3.0), ("gpt-*", 4.0)), ["gpt-*: 2 and 2 → 4 and 4"]),
        ((("gpt-*", 2.0),), ["gpt-5: 3 and 3 → not set"]),
        ((("gpt-5", None), ("gpt-*", 2.0)), ["gpt-5: 3 and 3 → no price and no price"]),
        ((("gpt-4", 1.0), *BEFORE), ["gpt-*: 2 and 2 → 1 and 1, by gpt-4, which is declared before it"]),
        (
            (("gpt-4", None), *BEFORE),
            ["gpt-*: 2 and 2 → no price and no price, by gpt-4, which is declared before it"],
        ),
        (
            (("gpt-*", 2.0), ("gpt-5", 3.0)),
            ["gpt-5: 3 and 3 → 2 and 2, by gpt-*, which is declared before it"],
        ),
    ],
)
def test_a_price_that_a_model_has_no_more_is_a_change(
    after: tuple[tuple[str, float | None], ...], changes: list[str]
) -> None:
    """The first pattern that names a model counts, so their order belongs to the prices."""
    assert changes == list(find_changed_prices(prices(*BEFORE), prices(*after)))


def test_the_first_price_of_a_model_is_no_change() -> None:
    assert [] == list(find_changed_prices(prices(("gpt-*", None)), prices(("gpt-*", 1.0))))
