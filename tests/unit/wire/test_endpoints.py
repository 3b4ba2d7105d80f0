"""Addresses: their dialect, and the kind of call."""

from __future__ import annotations

import re

import pytest

from traceforge.capture.hook.model_call_rules import WatchedHosts, is_model_call
from traceforge.wire.endpoints import (
    Dialect,
    Endpoint,
    EndpointKind,
    find_endpoint,
    find_path_endpoint,
    find_prefix,
    split_url,
)

METHOD_AT_END = re.compile(r"(?::|%3A)[A-Za-z]+(?:\?|\Z)")  # of Google's APIs, which know no slash after it
OTHER = Endpoint(None, EndpointKind.OTHER)
VERTEX = "https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-central1/publishers/google"
PUBLISHERS = VERTEX.removesuffix("/google")
CLAUDE = f"{PUBLISHERS}/anthropic/models/claude-sonnet-4-5@20250929"
FOUNDRY = "https://res.services.ai.azure.com"
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
    (f"{VERTEX}/models/text-embedding-005:predict", Dialect.GEMINI, EndpointKind.EMBEDDINGS, "text-embedding-005"),
    (f"{CLAUDE}:rawPredict", Dialect.ANTHROPIC, EndpointKind.MESSAGES, "claude-sonnet-4-5@20250929"),
    (f"{CLAUDE}:streamRawPredict", Dialect.ANTHROPIC, EndpointKind.MESSAGES, "claude-sonnet-4-5@20250929"),
    (f"{PUBLISHERS}/mistralai/models/m-2411:rawPredict", Dialect.OPENAI, EndpointKind.CHAT, "m-2411"),
    (f"{PUBLISHERS}/mistralai/models/m-2411:streamRawPredict", Dialect.OPENAI, EndpointKind.CHAT, "m-2411"),
    (f"{FOUNDRY}/anthropic/v1/messages", Dialect.ANTHROPIC, EndpointKind.MESSAGES, ""),
    (f"{FOUNDRY}/models/chat/completions?api-version=2024-05-01-preview", Dialect.OPENAI, EndpointKind.CHAT, ""),
    (f"{FOUNDRY}/models/embeddings?api-version=2024-05-01-preview", Dialect.OPENAI, EndpointKind.EMBEDDINGS, ""),
    (f"{FOUNDRY}/openai/v1/chat/completions", Dialect.OPENAI, EndpointKind.CHAT, ""),
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
    f"{PUBLISHERS}/anthropic/models/count-tokens:rawPredict",
    f"{VERTEX}/models/imagen-4.0-generate-001:predict",
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


@pytest.mark.parametrize("url", [url for url, *_ in KNOWN_ADDRESSES if not METHOD_AT_END.search(url)])
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


WEAK_PATHS = {
    "/generate": ("tgi", EndpointKind.GENERATE),
    "/completion": ("llama-cpp", EndpointKind.GENERATE),
    "/infill": ("llama-cpp", EndpointKind.FILL_IN),
    "/embedding": ("llama-cpp", EndpointKind.EMBEDDINGS),
    "/v1/rerank": ("vllm", EndpointKind.RERANK),
    "/v2/rerank/": ("vllm", EndpointKind.RERANK),
    "/score": ("vllm", EndpointKind.SCORE),
    "/pooling": ("vllm", EndpointKind.EMBEDDINGS),
    "/v1/classify": ("vllm", EndpointKind.CLASSIFICATION),
}


@pytest.mark.parametrize("path", WEAK_PATHS)
def test_a_weak_path_has_a_dialect_and_is_watched_at_named_hosts_alone(path: str) -> None:
    """A project names the server; nobody else's `POST /generate` is taken for a model call."""
    url = f"http://gpu.example:8000{path}"

    assert Endpoint(*WEAK_PATHS[path]) == find_endpoint("POST", url)
    assert not is_model_call("POST", url)
    assert is_model_call("POST", url, WatchedHosts(["gpu.example:8000"]))
    assert "" == find_prefix(path)


def test_cohere_answers_a_rerank_at_its_own_hosts() -> None:
    assert Endpoint("cohere", EndpointKind.RERANK) == find_endpoint("POST", "https://api.cohere.com/v2/rerank")


@pytest.mark.parametrize(
    ("path", "dialect", "kind"),
    [
        ("/v1/fim/completions", "mistral", EndpointKind.FILL_IN),
        ("/v1/agents/completions", "mistral", EndpointKind.CHAT),
        ("/v1/ocr", "mistral", EndpointKind.OCR),
        ("/v1/moderations", "mistral", EndpointKind.CLASSIFICATION),
        ("/v1/chat/classifications", "mistral", EndpointKind.CLASSIFICATION),
        ("/v1/chat/completions", Dialect.OPENAI, EndpointKind.CHAT),
        ("/v1/embeddings", Dialect.OPENAI, EndpointKind.EMBEDDINGS),
    ],
)
def test_mistral_has_endpoints_of_its_own_and_shares_the_others(path: str, dialect: str, kind: EndpointKind) -> None:
    """So a chat keeps its records and its key."""
    assert Endpoint(dialect, kind) == find_endpoint("POST", f"https://api.mistral.ai{path}")


@pytest.mark.parametrize(
    "host",
    [
        "api.mistral.ai", "codestral.mistral.ai", "openrouter.ai", "api.groq.com", "api.deepseek.com", "api.x.ai",
        "us-east-1.api.x.ai", "router.huggingface.co", "x.us-east-1.aws.endpoints.huggingface.cloud",
        "res.openai.azure.com", "res.services.ai.azure.com", "res.cognitiveservices.azure.com",
        "m.eastus2.models.ai.azure.com",
        "us-east5-aiplatform.googleapis.com", "aiplatform.googleapis.com", "aiplatform.eu.rep.googleapis.com",
    ],
)  # fmt: skip
def test_every_call_to_a_providers_host_is_watched(host: str) -> None:
    """Whatever its path and method, and without a setting."""
    assert is_model_call("GET", f"https://{host}/v1/anything")
