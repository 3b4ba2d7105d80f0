"""`chat/address.py`: where a request goes, and which key goes with it."""

from __future__ import annotations

import pytest

from traceforge.chat.model_address import PROVIDERS, InvalidModelAddress, find_address
from traceforge.modelio.provider_adapters import ADAPTERS, adapter_for

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
    ("named", "provider", "spoken", "path"),
    [
        ("http://127.0.0.1:8000/v1/messages", "", "anthropic", "/v1/messages"),
        ("http://127.0.0.1:8000/own/messages/", "", "anthropic", "/own/messages"),
        ("http://127.0.0.1:8000/v1/messages", "anthropic", "anthropic", "/v1/messages"),
        ("http://127.0.0.1:8000", "anthropic", "anthropic", "/v1/messages"),
        ("http://127.0.0.1:8787/anthropic", "anthropic", "anthropic", "/anthropic/v1/messages"),
        ("http://127.0.0.1:8787/anthropic/v1", "anthropic", "anthropic", "/anthropic/v1/messages"),
        ("http://127.0.0.1:8787/gemini", "gemini", "gemini", "/gemini"),
        ("http://127.0.0.1:8787/gemini/v1beta/", "gemini", "gemini", "/gemini/v1beta"),
        ("http://127.0.0.1:11434", "ollama", "ollama", "/api/chat"),
        ("http://127.0.0.1:11434/api", "ollama", "ollama", "/api/chat"),
        ("http://127.0.0.1:11434/api/chat", "", "ollama", "/api/chat"),
        ("http://127.0.0.1:11434", "", "openai", "/v1/chat/completions"),
        ("https://api.anthropic.com", "", "anthropic", "/v1/messages"),
        ("https://api.anthropic.com/v1", "", "anthropic", "/v1/messages"),
        ("https://api.anthropic.com/v1/chat/completions", "", "openai", "/v1/chat/completions"),
        ("https://generativelanguage.googleapis.com", "", "gemini", ""),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "", "openai", "/v1beta/openai/chat/completions"),
        ("http://127.0.0.1:1/openai/deployments/d/chat/completions", "", "openai",
         "/openai/deployments/d/chat/completions"),
    ],
)  # fmt: skip
def test_what_is_spoken_is_said_by_the_path_the_operator_or_the_host(
    named: str, provider: str, spoken: str, path: str
) -> None:
    """In this order; who is none of them speaks as OpenAI does."""
    found = find_address(named, KEYS, provider=provider)

    assert (spoken, path) == (found.provider, found.path)


@pytest.mark.parametrize(
    ("named", "host", "header"),
    [
        ("openai", "api.openai.com", ("authorization", "Bearer sk-o")),
        ("anthropic", "api.anthropic.com", ("x-api-key", "sk-a")),
        ("gemini", "generativelanguage.googleapis.com", ("x-goog-api-key", "g-k")),
        ("ollama", "127.0.0.1", None),
        ("https://api.openai.com/v1", "api.openai.com", ("authorization", "Bearer sk-o")),
        ("https://api.anthropic.com/v1/chat/completions", "api.anthropic.com", ("authorization", "Bearer sk-a")),
        ("https://llm.example.com/v1", "llm.example.com", None),
        ("http://127.0.0.1:9/v1", "127.0.0.1", None),
        ("http://127.0.0.1:9/v1/messages", "127.0.0.1", None),
    ],
)
def test_a_key_goes_only_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, named: str, host: str, header: tuple[str, str] | None
) -> None:
    """A provider's key to the provider; to an address of your own, the one you name, and none of the environment."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    found = find_address(named, KEYS)
    sent = adapter_for(found.provider, "m", url=found.url, api_key=found.key).headers()

    assert host == found.host
    assert {*([header] if header else [])} == set(sent.items()) - {("anthropic-version", "2023-06-01")}
    assert "mine" == find_address("https://llm.example.com/v1", KEYS, "MY_KEY").key


def test_every_provider_is_spoken_to_in_its_own_words() -> None:
    """OpenAI has a role for developers; elsewhere they speak as the system."""
    found = {name: find_address(name, KEYS) for name in PROVIDERS}

    assert list(PROVIDERS) == [one.provider for one in found.values()] == list(ADAPTERS)
    assert "developer" == found["openai"].developer_role
    assert {"system"} == {found[name].developer_role for name in ("anthropic", "gemini", "ollama")}


@pytest.mark.parametrize(
    ("named", "key_from", "told"),
    [
        ("nobody", "", "one of openai, anthropic, gemini, ollama"),
        ("ftp://127.0.0.1/v1", "", "must begin with http"),
        ("http://user:pw@127.0.0.1/v1", "", "user or a password"),
        ("http://127.0.0.1/v1?key=1", "", "must end with its path"),
        ("http://[::1/v1", "", "no URL"),
        ("https://api.anthropic.com/v1/complete", "", "cannot use this endpoint"),
        ("http://127.0.0.1/v1beta/models/m:generateContent", "", "cannot use this endpoint"),
        ("http://127.0.0.1/api/generate", "", "cannot use this endpoint"),
        ("http://127.0.0.1/v1/responses", "", "cannot use this endpoint"),
        ("http://127.0.0.1/v1/completions", "", "cannot use this endpoint"),
        ("https://llm.example.com/v1", "NOT_SET", "set NOT_SET"),
        ("http://llm.example.com/v1", "MY_KEY", "unencrypted"),
    ],
)
def test_an_address_that_cannot_work_is_refused_at_the_start(named: str, key_from: str, told: str) -> None:
    """And no key is repeated."""
    with pytest.raises(InvalidModelAddress, match=told) as caught:
        find_address(named, KEYS, key_from)
    assert not any(key in str(caught.value) for key in (*KEYS.values(), "pw"))


def test_a_provider_without_its_key_is_refused_at_the_start() -> None:
    """The variable is named."""
    with pytest.raises(InvalidModelAddress, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        find_address("gemini", {})


@pytest.mark.parametrize(
    ("named", "provider", "told"),
    [
        ("openai", "gemini", "names another provider"),
        ("http://127.0.0.1/v1/messages", "openai", "this endpoint is anthropic's"),
        ("http://127.0.0.1/v1/chat/completions", "anthropic", "this endpoint is openai's"),
    ],
)
def test_two_that_do_not_fit_are_refused(named: str, provider: str, told: str) -> None:
    """Nobody guesses which of them was meant."""
    with pytest.raises(InvalidModelAddress, match=told):
        find_address(named, KEYS, provider=provider)
