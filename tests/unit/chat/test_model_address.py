"""`chat/model_address.py`: where a request goes, and which key goes with it."""

from __future__ import annotations

import pytest

from traceforge.chat.model_address import PROVIDERS, InvalidModelAddress, find_address
from traceforge.modelio.provider_adapters import ADAPTERS, adapter_for

KEYS = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a", "GEMINI_API_KEY": "g-k", "MY_KEY": "mine"}


@pytest.mark.parametrize(
    ("upstream", "path"),
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
def test_a_base_url_is_completed_and_an_endpoint_is_used_unchanged(upstream: str, path: str) -> None:
    """As the SDKs do."""
    assert path == find_address(upstream, {}).path


@pytest.mark.parametrize(
    ("upstream", "provider", "spoken", "path"),
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
def test_the_api_is_known_by_path_then_option_then_host(upstream: str, provider: str, spoken: str, path: str) -> None:
    """Any other server has OpenAI's API."""
    address = find_address(upstream, KEYS, provider=provider)

    assert (spoken, path) == (address.provider, address.path)


@pytest.mark.parametrize(
    ("upstream", "host", "header"),
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
def test_a_key_is_sent_only_to_its_owner(
    monkeypatch: pytest.MonkeyPatch, upstream: str, host: str, header: tuple[str, str] | None
) -> None:
    """A provider's key to the provider; to your own address, only the key you name."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    address = find_address(upstream, KEYS)
    sent = adapter_for(address.provider, "m", url=address.url, api_key=address.key).headers()

    assert host == address.host
    assert {*([header] if header else [])} == set(sent.items()) - {("anthropic-version", "2023-06-01")}
    assert "mine" == find_address("https://llm.example.com/v1", KEYS, "MY_KEY").key


def test_only_openai_has_a_developer_role() -> None:
    """For other providers, the developer prompt has the role system."""
    addresses = {name: find_address(name, KEYS) for name in PROVIDERS}

    assert list(PROVIDERS) == [address.provider for address in addresses.values()] == list(ADAPTERS)
    assert "developer" == addresses["openai"].developer_role
    assert {"system"} == {addresses[name].developer_role for name in ("anthropic", "gemini", "ollama")}


@pytest.mark.parametrize(
    ("upstream", "key_from", "message"),
    [
        ("nobody", "", "one of openai, anthropic, gemini, ollama"),
        ("ftp://127.0.0.1/v1", "", "must begin with http"),
        ("http://user:pw@127.0.0.1/v1", "", "user or a password"),
        ("http://127.0.0.1/v1?key=1", "", "must end with its path"),
        ("http://[::1/v1", "", "is not a URL"),
        ("https://api.anthropic.com/v1/complete", "", "cannot use this endpoint"),
        ("http://127.0.0.1/v1beta/models/m:generateContent", "", "cannot use this endpoint"),
        ("http://127.0.0.1/api/generate", "", "cannot use this endpoint"),
        ("http://127.0.0.1/v1/responses", "", "cannot use this endpoint"),
        ("http://127.0.0.1/v1/completions", "", "cannot use this endpoint"),
        ("https://llm.example.com/v1", "NOT_SET", "set NOT_SET"),
        ("http://llm.example.com/v1", "MY_KEY", "unencrypted"),
    ],
)
def test_an_unusable_address_is_refused_at_the_start(upstream: str, key_from: str, message: str) -> None:
    """And no key is repeated."""
    with pytest.raises(InvalidModelAddress, match=message) as caught:
        find_address(upstream, KEYS, key_from)
    assert not any(key in str(caught.value) for key in (*KEYS.values(), "pw"))


def test_a_provider_without_its_key_is_refused_at_the_start() -> None:
    """The error names the environment variable."""
    with pytest.raises(InvalidModelAddress, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        find_address("gemini", {})


@pytest.mark.parametrize(
    ("upstream", "provider", "message"),
    [
        ("openai", "gemini", "names another provider"),
        ("http://127.0.0.1/v1/messages", "openai", "this endpoint is anthropic's"),
        ("http://127.0.0.1/v1/chat/completions", "anthropic", "this endpoint is openai's"),
    ],
)
def test_an_option_that_contradicts_the_address_is_refused(upstream: str, provider: str, message: str) -> None:
    """The chat does not guess which of them is right."""
    with pytest.raises(InvalidModelAddress, match=message):
        find_address(upstream, KEYS, provider=provider)
