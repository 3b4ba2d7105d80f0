"""38 tests of google-genai."""

from __future__ import annotations

import asyncio

import provider_calls
import pytest


@pytest.mark.parametrize("number", range(12))
def test_plain(number: int) -> None:
    assert provider_calls.gemini(f"Name {number} soups.")


@pytest.mark.parametrize("number", range(8))
def test_stream(number: int) -> None:
    assert provider_calls.gemini_stream(f"Name {number} laws.")


@pytest.mark.parametrize("number", range(8))
def test_async(number: int) -> None:
    assert asyncio.run(provider_calls.gemini_async(f"Name {number} rivers."))


@pytest.mark.parametrize("number", range(6))
def test_stream_async(number: int) -> None:
    assert asyncio.run(provider_calls.gemini_stream_async(f"Name {number} seas."))


@pytest.mark.parametrize("dish", ["soup", "bread", "fish", "rice"])
def test_tools(dish: str) -> None:
    assert provider_calls.gemini_tools(f"What is the price of {dish}?")
