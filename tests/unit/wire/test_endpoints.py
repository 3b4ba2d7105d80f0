"""Addresses: their dialect, and the kind of call."""

from __future__ import annotations

import pytest

from traceforge.wire.endpoints import (
    Dialect,
    Endpoint,
    EndpointKind,
    find_endpoint,
    find_path_endpoint,
    find_prefix,
    split_url,
)

OTHER = Endpoint(None, EndpointKind.OTHER)
VERTEX = "https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-central1/publishers/google"
AZURE = "https://res.openai.azure.com/openai/deployments/my-gpt"

KNOWN_ADDRESSES = [
    ("https://api.openai.com/v1/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    ("https://api.openai.com/v1/completions", Dialect.OPENAI, EndpointKind.COMPLETIONS, ""),
    ("https://api.openai.com/v1/responses", Dialect.OPENAI, EndpointKind.RESPONSES, ""),
    ("https://api.openai.com/v1/embeddings", Dialect.OPENAI, EndpointKind.EMBEDDINGS, ""),
    ("https://chatgpt.com/backend-api/codex/responses", Dialect.OPENAI, EndpointKind.RESPONSES, ""),
    ("https://openrouter.ai/api/v1/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    ("https://api.groq.com/openai/v1/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    ("https://api.z.ai/api/paas/v4/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    (
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
        Dialect.OPENAI,
        EndpointKind.CHAT,
        "",
    ),
    ("http://localhost:11434/v1/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    ("http://localhost:8080/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    ("https://gateway.example.com/a/b/c/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
    ("https://gateway.example.com/llm/responses", Dialect.OPENAI, EndpointKind.RESPONSES, ""),
    ("https://gateway.ai.cloudflare.com/v1/acc/gw/openai/embeddings", Dialect.OPENAI, EndpointKind.EMBEDDINGS, ""),
    ("https://gateway.example.com/anthropic/messages", Dialect.ANTHROPIC, EndpointKind.MESSAGES, ""),
    ("https://models.example.com/ollama/api/chat", Dialect.OLLAMA, EndpointKind.CHAT, ""),
    (f"{AZURE}/chat/completions?api-version=2025-01-01-preview", Dialect.OPENAI, EndpointKind.CHAT, "my-gpt"),
    (f"{AZURE}/completions?api-version=2024-02-01", Dialect.OPENAI, EndpointKind.COMPLETIONS, "my-gpt"),
    (f"{AZURE}/embeddings?api-version=2024-02-01", Dialect.OPENAI, EndpointKind.EMBEDDINGS, "my-gpt"),
    (
        "https://res.openai.azure.com/openai/v1/responses?api-version=preview",
        Dialect.OPENAI,
        EndpointKind.RESPONSES,
        "",
    ),
    ("https://res.openai.azure.com/openai/responses?api-version=preview", Dialect.OPENAI, EndpointKind.RESPONSES, ""),
    ("https://api.anthropic.com/v1/messages", Dialect.ANTHROPIC, EndpointKind.MESSAGES, ""),
    ("https://api.anthropic.com/v1/messages?beta=true", Dialect.ANTHROPIC, EndpointKind.MESSAGES, ""),
    ("https://api.anthropic.com/messages", Dialect.ANTHROPIC, EndpointKind.MESSAGES, ""),  # @ai-sdk/anthropic
    ("http://localhost:3000/router/v2/anthropic/v1/messages", Dialect.ANTHROPIC, EndpointKind.MESSAGES, ""),
    ("https://api.anthropic.com/v1/complete", Dialect.ANTHROPIC, EndpointKind.COMPLETIONS, ""),
    (
        "https://x.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent",
        Dialect.GEMINI,
        EndpointKind.GENERATE,
        "gemini-2.5-pro",
    ),
    ("https://x.googleapis.com/v1/models/g:generateContent", Dialect.GEMINI, EndpointKind.GENERATE, "g"),
    (
        "https://x.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse&key=k",
        Dialect.GEMINI,
        EndpointKind.GENERATE,
        "g",
    ),
    ("https://x.googleapis.com/v1beta/models/g%3AgenerateContent", Dialect.GEMINI, EndpointKind.GENERATE, "g"),
    ("https://x.googleapis.com/v1beta/models/e:embedContent", Dialect.GEMINI, EndpointKind.EMBEDDINGS, "e"),
    ("https://x.googleapis.com/v1beta/models/e:batchEmbedContents", Dialect.GEMINI, EndpointKind.EMBEDDINGS, "e"),
    (f"{VERTEX}/models/g:generateContent", Dialect.GEMINI, EndpointKind.GENERATE, "g"),
    (
        f"{VERTEX}/models/g:streamGenerateContent?%24alt=json%3Benum-encoding%3Dint",
        Dialect.GEMINI,
        EndpointKind.GENERATE,
        "g",
    ),
    (
        "http://localhost:3000/router/v2/google/v1beta/models/g:generateContent",
        Dialect.GEMINI,
        EndpointKind.GENERATE,
        "g",
    ),
    ("http://127.0.0.1:11434/api/chat", Dialect.OLLAMA, EndpointKind.CHAT, ""),
    ("http://127.0.0.1:11434/api/generate", Dialect.OLLAMA, EndpointKind.GENERATE, ""),
    ("http://127.0.0.1:11434/api/embed", Dialect.OLLAMA, EndpointKind.EMBEDDINGS, ""),
    ("http://127.0.0.1:11434/api/embeddings", Dialect.OLLAMA, EndpointKind.EMBEDDINGS, ""),
]
UNKNOWN = [
    "https://api.openai.com/v1/threads/thread_1/messages",
    "https://api.openai.com/v1/threads/thread_1/messages/",
    "https://api.openai.com/v1/threads/thread_1/runs",
    "https://api.openai.com/v1/traces/ingest",
    "https://api.openai.com/v1/responses/resp_1",
    "https://api.openai.com/v1/responses/resp_1/cancel",
    "https://api.openai.com/v1/responses/compact",
    "https://api.openai.com/v1/chat/completions/chatcmpl-1",
    "https://api.openai.com/v1/audio/speech",
    "https://api.openai.com/v1/images/generations",
    "https://api.openai.com/v1/files",
    "https://api.openai.com/v1/models",
    "https://api.anthropic.com/v1/messages/count_tokens?beta=true",
    "https://api.anthropic.com/v1/messages/batches",
    "https://x.googleapis.com/v1beta/models/g:countTokens",
    "https://x.googleapis.com/v1beta/cachedContents",
    "https://x.googleapis.com/v1beta/interactions",
    "http://127.0.0.1:11434/api/show",
    "http://127.0.0.1:11434/api/tags",
    "https://llm.example.com/v2/chat",
    "http://127.0.0.1:8080/v1/chat",
    "https://api.cohere.com/v1/tokenize",
    # They merely end like a provider's.
    "https://discord.com/api/v10/channels/1/messages",
    "https://chat.example.com/channels/general/messages",
    "https://api.typeform.example/forms/Ab12/responses",
    "https://example.com/api/surveys/7/responses",
    "https://habits.example.com/tasks/42/completions",
    "https://example.com/v1/documents/9/embeddings",
    "https://example.com/tenants/1/api/chat",
    "https://example.com/",
    "https://example.com/v1/chat/completions.html",
    "https://example.com/search?q=/v1/chat/completions",
    "https://example.com/#/v1/messages",
    "",
    "not a url",
]


@pytest.mark.parametrize(("url", "dialect", "kind", "model"), KNOWN_ADDRESSES)
def test_a_known_address_has_its_dialect_kind_and_model(
    url: str, dialect: Dialect, kind: EndpointKind, model: str
) -> None:
    """The path decides, on any host."""
    assert Endpoint(dialect, kind, model) == find_endpoint("POST", url)


@pytest.mark.parametrize(("url", "dialect", "kind", "model"), KNOWN_ADDRESSES)
def test_a_path_is_enough(url: str, dialect: Dialect, kind: EndpointKind, model: str) -> None:
    """A proxy sees only a path and a query; methods come in any case."""
    path = "/" + url.partition("://")[2].partition("/")[2]

    assert Endpoint(dialect, kind, model) == find_endpoint("post", path)


@pytest.mark.parametrize("url", [url for url, dialect, *_ in KNOWN_ADDRESSES if dialect is not Dialect.GEMINI])
def test_a_trailing_slash_is_ignored(url: str) -> None:
    path, mark, query = url.partition("?")

    assert find_endpoint("POST", url) == find_endpoint("POST", f"{path}/{mark}{query}")


@pytest.mark.parametrize("url", UNKNOWN)
def test_an_unknown_address_is_of_kind_other(url: str) -> None:
    assert OTHER == find_endpoint("POST", url)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", ""])
@pytest.mark.parametrize("url", [url for url, *_ in KNOWN_ADDRESSES])
def test_only_a_post_is_a_model_call(method: str, url: str) -> None:
    """Listing stored completions is not generating one."""
    assert OTHER == find_endpoint(method, url)


def test_only_generation_endpoints_generate() -> None:
    """Not embeddings, and not unknown addresses."""
    for url, _, kind, _ in KNOWN_ADDRESSES:
        assert (kind is not EndpointKind.EMBEDDINGS) == find_endpoint("POST", url).is_generative
    assert not OTHER.is_generative


@pytest.mark.parametrize(
    ("url", "path", "query"),
    [
        ("https://api.example.com/v1/messages?a=b&c#d", "/v1/messages", "a=b&c"),
        ("https://[REDACTED]@api.example.com:8443/v1/messages", "/v1/messages", ""),
        ("http://[::1]:80/v1?x=http://y/z", "/v1", "x=http://y/z"),
        ("/v1/models/a:generateContent?alt=sse", "/v1/models/a:generateContent", "alt=sse"),
        ("https://api.example.com", "", ""),
        ("https://api.example.com?a=1", "", "a=1"),
        ("", "", ""),
    ],
)
def test_a_redacted_url_is_split(url: str, path: str, query: str) -> None:
    """The standard library refuses one whose user is `[REDACTED]`."""
    assert (path, query) == split_url(url)


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/v1/chat/completions", "/v1"),
        ("/chat/completions/", ""),
        ("/gateway/v1/messages", "/gateway/v1"),
        ("/openai/deployments/my-gpt/chat/completions", "/openai"),
        ("/v1beta/models/g:generateContent", "/v1beta"),
        ("/api/chat", ""),
        ("/v1/files", ""),
    ],
)
def test_the_part_of_a_path_before_its_endpoint(path: str, prefix: str) -> None:
    assert prefix == find_prefix(path)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v2/chat", EndpointKind.CHAT),
        ("/v1/chat", EndpointKind.GENERATE),
        ("/v1/embed", EndpointKind.EMBEDDINGS),
        ("/v2/rerank/", EndpointKind.RERANK),
    ],
)
def test_a_path_that_says_little_counts_at_the_hosts_of_its_dialect(path: str, kind: EndpointKind) -> None:
    """With a port and a user, in any case; not where another server only looks like it."""
    for host in ("api.cohere.com", "API.Cohere.ai:443", "me:secret@api.cohere.com"):
        assert Endpoint("cohere", kind) == find_endpoint("POST", f"https://{host}{path}")
    for host in ("api.cohere.com.example", "example.com", "127.0.0.1:80", "api.cohere.com@example.com"):
        assert OTHER == find_endpoint("POST", f"https://{host}{path}")
    assert OTHER == find_endpoint("POST", path) == find_path_endpoint("POST", path)
    assert "" == find_prefix(path)
