"""The text of an address is put together once for each, and never kept where it could hold a key."""

from __future__ import annotations

from types import ModuleType

import httpx
import httpx2
import pytest

from traceforge.capture.hook import client_httpx


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> dict[object, str]:
    """What is remembered: nothing yet."""
    known: dict[object, str] = {}
    monkeypatch.setattr(client_httpx, "_addresses", known)
    return known


@pytest.mark.parametrize("module", [httpx, httpx2])
@pytest.mark.parametrize("text", ["https://a.example/v1/messages", "http://u:p@[::1]:8080/v1/x%20y#z"])
def test_an_address_is_found_by_its_parts(module: ModuleType, text: str, addresses: dict[object, str]) -> None:
    """As the client itself would write it, also for another object of the same address."""
    read = client_httpx._read_address(module.URL(text))

    assert str(module.URL(text)) == read == addresses[module.URL(text)._uri_reference]


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_one_with_a_query_is_not_remembered(module: ModuleType, addresses: dict[object, str]) -> None:
    """A key may stand in it."""
    url = module.URL("https://a.example/v1/models/m:generateContent?key=none")

    assert str(url) == client_httpx._read_address(url)
    assert {} == addresses


def test_what_is_no_address_of_a_known_client_is_only_read(addresses: dict[object, str]) -> None:
    """Nothing is assumed about its parts."""
    assert "https://a.example/" == client_httpx._read_address("https://a.example/")
    assert {} == addresses
