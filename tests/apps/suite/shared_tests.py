"""12 tests that share what their fixtures ask."""

from __future__ import annotations

import asking
import pytest


@pytest.mark.parametrize("number", range(4))
def test_menu(menu: str, number: int) -> None:
    assert menu
    assert asking.chat(f"Price of course {number}?")


@pytest.mark.parametrize("number", range(3))
def test_guests(menu: str, guests: str, number: int) -> None:
    assert menu
    assert guests
    assert asking.gemini(f"Seat guest {number}.")


@pytest.mark.parametrize("number", range(4))
def test_wine(wine: str, number: int) -> None:
    assert wine
    assert asking.local(f"Glass {number}?")


def test_fixtures_alone(menu: str, guests: str, wine: str) -> None:
    assert menu
    assert guests
    assert wine
