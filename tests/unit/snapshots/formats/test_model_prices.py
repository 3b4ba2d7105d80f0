"""What a call costs by the declared prices: nothing is invented."""

from __future__ import annotations

import pytest

from traceforge.canon import JSONObject
from traceforge.config import ModelRule
from traceforge.snapshots.formats.model_prices import price_usage

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
