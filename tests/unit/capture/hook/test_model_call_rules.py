"""Which calls are model calls: the hook's rules agree with the wire room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.capture.hook.model_call_rules import WatchedHosts, is_model_call
from traceforge.wire.endpoints import find_endpoint

PARTS = [
    "v1", "v1beta", "api", "chat", "completions", "embeddings", "embed", "generate", "responses", "messages",
    "complete", "models", "gemini-2:generateContent", "m:streamGenerateContent", "m:StreamgenerateContent",
    "m:embedContent", "m:batchEmbedContents", "m:asyncBatchEmbedContents", "threads", "t1", "deployments", "openai",
    "%63hat", "a%2Fb", "", "chat\n", "messages?x=1", "chat;v=1", "traces", "ingest", "messages#f",
    "channels", "1", "anthropic", "ollama", "v10", "gw", "rerank", "completion", "score", "publishers", "mistralai",
    "c:rawPredict", "c:streamRawPredict", "embedding-1:predict", "google", "count-tokens:rawPredict", "fim",
]  # fmt: skip
WEAK_DIALECTS = ("llama-cpp", "tgi", "vllm")  # All of their paths that these parts make count at named hosts alone.
HOSTS = ["http://127.0.0.1:8080", "https://example.com", "https://u:p@gateway.example.com:8443", "", "http://[::1]:1"]


@fuzz(3_000)
@given(
    method=st.sampled_from(["POST", "post", "GET", "PUT", "DELETE"]),
    host=st.sampled_from(HOSTS),
    parts=st.lists(st.sampled_from(PARTS), max_size=6),
    end=st.sampled_from(["", "/", "//", "?alt=sse", "\n"]),
)
def test_the_paths_are_those_of_the_known_dialects(method: str, host: str, parts: list[str], end: str) -> None:
    """For an unknown host, a call is recorded exactly if its path is one of a dialect, and says enough."""
    url = f"{host}/{'/'.join(parts)}{end}"
    dialect = find_endpoint(method, url).dialect

    assert (dialect not in (None, *WEAK_DIALECTS)) == is_model_call(method, url)


@pytest.mark.parametrize("path", ["/v1/chat", "/v2/chat", "/v2/embed", "/v1/rerank", "/v1/tokenize"])
def test_a_path_that_says_little_is_watched_at_the_hosts_of_its_dialect_alone(path: str) -> None:
    """Anybody may have a `/v1/chat`."""
    assert is_model_call("POST", f"https://api.cohere.com{path}")
    assert is_model_call("POST", f"https://api.cohere.ai{path}")
    assert not is_model_call("POST", f"https://example.com{path}")
    assert not is_model_call("POST", f"http://127.0.0.1:8000{path}")


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "https://api.openai.com/v1/models", True),
        ("GET", "https://API.OpenAI.com:443/v1/models", True),
        ("POST", "https://europe-west1-aiplatform.googleapis.com/v1/anything", True),
        ("POST", "https://me.openai.azure.com/openai/files", True),
        ("POST", "https://api.openai.com/v1/traces/ingest", False),
        ("GET", "https://api.openai.com.evil.example/v1/models", False),
        ("GET", "https://example.com/api.openai.com", False),
        ("GET", "http://llm.corp:9000/health", True),
        ("GET", "http://llm.corp/health", False),
        ("GET", "http://any.corp:1234/health", True),
        ("POST", "http://[broken/v1/chat/completions", False),
    ],
)
def test_every_call_to_a_known_host_is_recorded(method: str, url: str, expected: bool) -> None:
    """Providers, and the hosts that a project names, with or without a port; telemetry never."""
    assert expected == is_model_call(method, url, WatchedHosts(["LLM.corp:9000", "any.corp"]))


@pytest.mark.parametrize(
    ("entries", "url", "expected"),
    [
        (["*.corp.example"], "https://files.corp.example/a", True),
        (["*.corp.example"], "https://corp.example.evil/a", False),
        (["*"], "https://example.com/page", True),
        (["*"], "https://[2001:db8::1]:8443/page", True),
        (["*"], "http://127.0.0.1:9000/page", False),
        (["*"], "http://[::1]:9000/page", False),
        (["*"], "http://localhost:9000/page", False),
        (["*", "localhost:9000"], "http://localhost:9000/page", True),
        (["*", "!*.sentry.io"], "https://o1.sentry.io/envelope", False),
        (["*", "!*.sentry.io", "o1.sentry.io"], "https://o1.sentry.io/envelope", True),
        (["*"], "https://api.openai.com/v1/traces/ingest", False),
        (["*"], "/no/host", False),
    ],
)
def test_a_project_may_name_patterns_and_every_host(entries: list[str], url: str, expected: bool) -> None:
    """Every host means neither this machine nor what is excepted; a name counts before both."""
    assert expected == is_model_call("GET", url, WatchedHosts(entries))
