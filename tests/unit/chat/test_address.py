"""`chat/address.py`: where a request goes, and which key goes with it."""

from __future__ import annotations

import pytest

from traceforge.chat.address import PROVIDERS, BadAddress, find_address
from traceforge.wire.registry import Dialect

KEYS = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a", "GEMINI_API_KEY": "g-k", "MY_KEY": "mine"}


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("http://127.0.0.1:8000", "/v1/chat/completions"),
        ("http://127.0.0.1:8000/", "/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1", "/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1/", "/v1/chat/completions"),
        ("http://127.0.0.1:8787/openai/v1", "/openai/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1/chat/completions", "/v1/chat/completions"),
        ("http://127.0.0.1:11434/api/chat", "/api/chat"),
    ],
)
def test_a_base_url_is_completed_and_an_endpoint_is_taken_as_it_is(named: str, path: str) -> None:
    """As the SDKs do."""
    assert path == find_address(named, {}).path


@pytest.mark.parametrize(
    ("named", "host", "key"),
    [
        ("openai", "api.openai.com", "Bearer sk-o"),
        ("anthropic", "api.anthropic.com", "Bearer sk-a"),
        ("gemini", "generativelanguage.googleapis.com", "Bearer g-k"),
        ("ollama", "127.0.0.1", ""),
        ("https://api.openai.com/v1", "api.openai.com", "Bearer sk-o"),
        ("https://llm.example.com/v1", "llm.example.com", ""),
        ("http://127.0.0.1:9/v1", "127.0.0.1", ""),
    ],
)
def test_a_key_goes_only_where_it_belongs(named: str, host: str, key: str) -> None:
    """A provider's key to the provider; to an address of your own, the one you name."""
    found = find_address(named, KEYS)

    assert (host, key) == (found.host, found.key)
    assert "Bearer mine" == find_address("https://llm.example.com/v1", KEYS, "MY_KEY").key


def test_every_provider_takes_the_request_as_it_is() -> None:
    """Model and messages, nothing else; Ollama's models know no developer."""
    roles = {name: find_address(name, KEYS) for name in PROVIDERS}

    assert {"openai", "anthropic", "gemini"} == {n for n, a in roles.items() if a.endpoint.dialect is Dialect.OPENAI}
    assert "system" == roles["ollama"].developer_role
    assert {"developer"} == {roles[name].developer_role for name in ("openai", "anthropic", "gemini")}


@pytest.mark.parametrize(
    ("named", "key_from", "told"),
    [
        ("nobody", "", "one of openai, anthropic, gemini, ollama"),
        ("ftp://127.0.0.1/v1", "", "must begin with http"),
        ("http://user:pw@127.0.0.1/v1", "", "user or a password"),
        ("http://127.0.0.1/v1?key=1", "", "must end with its path"),
        ("http://[::1/v1", "", "no URL"),
        ("https://api.anthropic.com/v1/messages", "", "takes another request"),
        ("http://127.0.0.1/v1/responses", "", "takes another request"),
        ("http://127.0.0.1/v1/completions", "", "takes another request"),
        ("https://llm.example.com/v1", "NOT_SET", "set NOT_SET"),
        ("http://llm.example.com/v1", "MY_KEY", "in the clear"),
    ],
)
def test_an_address_that_cannot_work_is_refused_at_the_start(named: str, key_from: str, told: str) -> None:
    """And no key is repeated."""
    with pytest.raises(BadAddress, match=told) as caught:
        find_address(named, KEYS, key_from)
    assert not any(key in str(caught.value) for key in (*KEYS.values(), "pw"))


def test_a_provider_without_its_key_is_refused_at_the_start() -> None:
    """The variable is named."""
    with pytest.raises(BadAddress, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        find_address("gemini", {})
