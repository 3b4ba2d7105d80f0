"""The URL and the credentials of a live request."""

from __future__ import annotations

import pytest

from traceforge.config import DEFAULT_UPSTREAMS
from traceforge.snapshots.live.live_address import (
    ProviderAddresses,
    find_key,
    find_key_header,
    join_url,
    make_key_headers,
    needs_key,
    replace_model,
)
from traceforge.wire.endpoints import Dialect, find_endpoint

CHAT = "/v1/chat/completions"
AZURE = "/openai/deployments/gpt-4o/chat/completions"


def test_an_address_has_no_slash_at_its_end_and_an_unknown_provider_has_none() -> None:
    """`find_upstreams` decides which address counts."""
    addresses = ProviderAddresses({**DEFAULT_UPSTREAMS, "openai": "http://target/"})

    assert "http://target" == addresses.find("openai", CHAT)
    assert "https://api.anthropic.com" == addresses.find("anthropic", "/v1/messages")
    assert "" == addresses.find("groq", CHAT)


def test_a_deployment_of_azure_is_not_sent_to_openai() -> None:
    """It is where Azure's variable says, or nowhere; a target for it is heeded."""
    endpoint = {**DEFAULT_UPSTREAMS, "azure": "https://me.openai.azure.com"}

    assert "" == ProviderAddresses(DEFAULT_UPSTREAMS).find("openai", AZURE)
    assert "https://me.openai.azure.com" == ProviderAddresses(endpoint).find("openai", AZURE)
    assert "http://there" == ProviderAddresses({**endpoint, "openai": "http://there"}).find("openai", AZURE)


def test_a_model_of_vertex_is_not_sent_to_its_publisher() -> None:
    """It is where `--target vertex=URL` says, or nowhere, and gets no key of the publisher."""
    path = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-opus-5:rawPredict"
    vertex = {**DEFAULT_UPSTREAMS, "vertex": "https://us-east5-aiplatform.googleapis.com"}

    assert "" == ProviderAddresses(DEFAULT_UPSTREAMS).find("anthropic", path)
    assert vertex["vertex"] == ProviderAddresses(vertex).find("anthropic", path)
    assert ("VERTEX_API_KEY",) == find_key_header("anthropic", find_endpoint("POST", path), path).variables


@pytest.mark.parametrize("provider", ["openai", "gemini", "anthropic", "mistral", "corp"])
def test_an_address_gets_no_key_of_another_provider(provider: str) -> None:
    """A snapshot names its provider and its path, and so could send the key of one provider to another one."""
    addresses = ProviderAddresses({**DEFAULT_UPSTREAMS, "azure": "https://a.example", "vertex": "https://v.example"})
    vertex = "/v1/projects/p/locations/us/publishers/google/models/gemini-3:generateContent"
    for path, owner, variable in [(AZURE, "azure", "AZURE_OPENAI_API_KEY"), (vertex, "vertex", "VERTEX_API_KEY")]:
        resolved = addresses.resolve_provider(provider, path)
        key_header = find_key_header(resolved, find_endpoint("POST", path), path)

        assert (owner, (variable,)) == (resolved, key_header.variables)


@pytest.mark.parametrize(
    ("base", "path", "query", "dialect", "url"),
    [
        ("http://h", CHAT, "", Dialect.OPENAI, f"http://h{CHAT}"),
        ("http://h/v1", CHAT, "a=b", Dialect.OPENAI, f"http://h{CHAT}?a=b"),
        ("http://h/v1", "/openai/v1/chat/completions", "", Dialect.OPENAI, f"http://h{CHAT}"),
        ("http://h/x/v1", CHAT, "", Dialect.OPENAI, f"http://h/x{CHAT}"),
        ("http://h/x", "/v1/messages", "", Dialect.ANTHROPIC, "http://h/x/v1/messages"),
        ("http://h/x", "/y/v1beta/models/m:generateContent", "", Dialect.GEMINI,
         "http://h/x/v1beta/models/m:generateContent"),
        ("http://h/x", "/api/chat", "", Dialect.OLLAMA, "http://h/x/api/chat"),
    ],
)  # fmt: skip
def test_a_path_is_joined_to_a_base_url_like_in_sdks(
    base: str, path: str, query: str, dialect: Dialect, url: str
) -> None:
    """A common part is not repeated; a recorded prefix before the endpoint is dropped."""
    assert url == join_url(base, path, query, dialect)


def test_a_model_in_the_path_is_replaced() -> None:
    """Gemini and Azure name it there; a name that needs quoting is quoted."""
    assert "/v1/models/a%2Fb:generateContent" == replace_model("/v1/models/old:generateContent", "a/b")
    assert "/openai/deployments/new/chat/completions" == replace_model(AZURE, "new")
    assert CHAT == replace_model(CHAT, "new")


def _secret(provider: str, path: str) -> tuple[tuple[str, ...], str]:
    key_header = find_key_header(provider, find_endpoint("POST", path), path)
    return key_header.variables, key_header.header


def test_each_provider_has_its_variable_and_its_header() -> None:
    """A provider with a name of its own has a variable of that name."""
    assert (("OPENAI_API_KEY",), "authorization") == _secret("openai", CHAT)
    assert (("GROQ_CLOUD_API_KEY",), "authorization") == _secret("groq-cloud", CHAT)
    assert (("ANTHROPIC_API_KEY",), "x-api-key") == _secret("anthropic", "/v1/messages")
    assert (("GOOGLE_API_KEY", "GEMINI_API_KEY"), "x-goog-api-key") == _secret(
        "gemini", "/v1/models/m:generateContent"
    )
    assert (("AZURE_OPENAI_API_KEY",), "api-key") == _secret("openai", AZURE)
    assert (("CORP_API_KEY",), "api-key") == _secret("corp", AZURE)


def test_a_key_never_crosses_a_network_in_the_clear() -> None:
    """It is sent over TLS and to this machine only."""
    secret, environ = find_key_header("openai", find_endpoint("POST", CHAT), CHAT), {"OPENAI_API_KEY": "k"}
    sent = {"authorization": "Bearer k"}

    assert sent == make_key_headers(secret, "https://api.openai.com/v1", environ)
    assert sent == make_key_headers(secret, "http://127.0.0.1:8000/v1", environ)
    assert {} == make_key_headers(secret, "http://gpu.example.com/v1", environ)


def test_a_key_that_a_header_cannot_hold_is_ignored() -> None:
    """A line feed inside could add headers; one at the end comes from a file, and goes."""
    secret = find_key_header("openai", find_endpoint("POST", CHAT), CHAT)

    assert "k" == find_key(secret, {"OPENAI_API_KEY": "k\n"})
    assert "" == find_key(secret, {"OPENAI_API_KEY": "k\nx: y"})


def test_only_a_real_provider_needs_a_key() -> None:
    """A server of your own may want none."""
    assert needs_key("openai", "https://api.openai.com/v1/chat/completions")
    assert not needs_key("openai", "http://127.0.0.1:8000/v1/chat/completions")
    assert not needs_key("ollama", "http://127.0.0.1:11434/api/chat")
