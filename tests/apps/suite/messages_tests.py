"""50 tests of anthropic, whose answers are not gated."""

from __future__ import annotations

import asyncio

import provider_calls
import pytest


@pytest.mark.parametrize("number", range(15))
def test_plain(number: int) -> None:
    assert provider_calls.message(f"Name {number} soups.")


def test_twice() -> None:
    assert provider_calls.message("Roll a die.")
    assert provider_calls.message("Roll a die.")


@pytest.mark.parametrize("number", range(12))
def test_stream(number: int) -> None:
    assert provider_calls.message_stream(f"Name {number} laws.")


@pytest.mark.parametrize("number", range(12))
def test_async(number: int) -> None:
    assert asyncio.run(provider_calls.message_async(f"Name {number} rivers."))


@pytest.mark.parametrize("dish", ["soup", "bread", "fish", "rice", "cake", "tea"])
def test_tools(dish: str) -> None:
    assert provider_calls.message_tools(f"What is the price of {dish}?")


class TestWithSetup:
    def setup_method(self) -> None:
        self.plan = provider_calls.message("Plan the day.")

    @pytest.mark.parametrize("hour", [8, 12, 16, 20])
    def test_hour(self, hour: int) -> None:
        assert self.plan
        assert provider_calls.message(f"What happens at {hour}?")
