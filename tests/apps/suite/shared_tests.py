"""12 tests that share the calls of their fixtures."""

from __future__ import annotations

import provider_calls
import pytest


@pytest.mark.parametrize("number", range(4))
def test_menu(menu: str, number: int) -> None:
    assert menu
    assert provider_calls.chat(f"Price of course {number}?")


@pytest.mark.parametrize("number", range(3))
def test_guests(menu: str, guests: str, number: int) -> None:
    assert menu
    assert guests
    assert provider_calls.gemini(f"Seat guest {number}.")


@pytest.mark.parametrize("number", range(4))
def test_wine(wine: str, number: int) -> None:
    assert wine
    assert provider_calls.local(f"Glass {number}?")


def test_fixtures_alone(menu: str, guests: str, wine: str) -> None:
    assert menu
    assert guests
    assert wine
