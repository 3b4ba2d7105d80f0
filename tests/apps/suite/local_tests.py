"""28 tests of ollama."""

from __future__ import annotations

import asyncio

import provider_calls
import pytest


@pytest.mark.parametrize("number", range(12))
def test_plain(number: int) -> None:
    assert provider_calls.local(f"Name {number} soups.")


@pytest.mark.parametrize("number", range(8))
def test_stream(number: int) -> None:
    assert provider_calls.local_stream(f"Name {number} laws.")


@pytest.mark.parametrize("number", range(8))
def test_async(number: int) -> None:
    assert asyncio.run(provider_calls.local_async(f"Name {number} rivers."))
