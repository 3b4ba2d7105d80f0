"""`modelio/provider_adapters.py`: real HTTP calls to four providers, plain and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import traceforge
from support.model_servers import ModelServer, model_server
from support.upstream import ScriptedResponse, upstream
from traceforge.errors import CallNotRecorded, ProviderFailed
from traceforge.modelio import AnthropicAdapter, GeminiAdapter, OllamaAdapter, OpenAIAdapter
from traceforge.modelio.adapter import content_to_message
from traceforge.modelio.prompt import hash_redacted_prompt, request_prompt_hashes
from traceforge.modelio.provider_adapters import ProviderAdapter
from traceforge.modelio.traces_to_recording import SKIPPED_FAILED, interaction_from_trace, load_session_prompts
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.request_encoder import encode_request

ADAPTERS = [OpenAIAdapter, AnthropicAdapter, GeminiAdapter, OllamaAdapter]
CHAT: list[Any] = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "Where is Lyon?"},
    {"role": "assistant", "content": "In France."},
    {"role": "user", "content": "And Turin?"},
]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all tests of this file."""
    with model_server() as running:
        yield running


def _adapter(kind: type[ProviderAdapter], url: str, **named: Any) -> ProviderAdapter:
    return kind("model-1", url=url, api_key="test-key", **named)


@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("prompt", ["Where is Lyon?", CHAT], ids=["text", "chat"])
def test_every_provider_returns_text_and_token_counts(
    server: ModelServer, kind: type[ProviderAdapter], prompt: Any
) -> None:
    """A stream has its text in several pieces, and token counts too."""
    adapter = _adapter(kind, server.url)
    completion = adapter.complete(prompt)
    stream = adapter.stream(prompt)
    pieces = list(stream)

    assert completion.text
    assert (completion.tokens_input or 0) > 0
    assert (completion.tokens_output or 0) > 0
    assert stream.completion.text == "".join(pieces) != ""
    assert len(pieces) > 1
    assert (stream.completion.tokens_input or 0) > 0
    assert (stream.completion.tokens_output or 0) > 0


def test_the_stream_options_of_the_caller_count(server: ModelServer) -> None:
    """A server that does not know them can be called without."""
    for adapter, context in (
        (_adapter(OpenAIAdapter, server.url, parameters={"stream_options": {"include_usage": False}}), {}),
        (_adapter(OpenAIAdapter, server.url), {"stream_options": {"include_usage": False}}),
    ):
        stream = adapter.stream("Where is Lyon?", context)
        assert "".join(stream)
        assert stream.completion.tokens_output is None


def test_adapters_are_named_by_provider_and_kind() -> None:
    """Never by a host."""
    assert ["openai-chat", "anthropic-messages", "gemini-generate", "ollama-chat"] == [
        kind("m", url="http://127.0.0.1:9").adapter_id for kind in ADAPTERS
    ]


@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_chat_has_the_same_hash_at_every_provider(kind: type[ProviderAdapter]) -> None:
    """What a provider is sent decodes to the messages that were given, so a proxy finds the recording."""
    for prompt in (CHAT, CHAT[1:], CHAT[1:2]):
        request = encode_request(kind.dialect, "model-1", prompt, {}, stream=False)
        unified = decode_request(find_endpoint("POST", request.path), request.body)

        assert prompt == unified["messages"]
        assert hash_redacted_prompt(prompt) == request_prompt_hashes(unified)[0]


def test_parameters_of_the_adapter_and_of_the_call_are_sent() -> None:
    """Those of the call win; the key is in the header that the provider reads, and nowhere else."""
    with upstream() as provider:
        provider.respond_with(
            ScriptedResponse([json.dumps({"choices": [{"message": {"content": "Yes."}}]}).encode()])
        )
        adapter = _adapter(OpenAIAdapter, f"{provider.url}/v1", parameters={"temperature": 0, "seed": 1})
        assert "Yes." == adapter.complete("Is it?", {"seed": 2}).text
        (request,) = provider.received

    assert b"POST /v1/chat/completions HTTP/1.1" == request.line
    assert b"bearer test-key" in request.head.lower()
    assert {
        "model": "model-1",
        "messages": [{"role": "user", "content": "Is it?"}],
        "temperature": 0,
        "seed": 2,
    } == json.loads(request.body)


def test_an_answer_of_tool_calls_is_its_message() -> None:
    """Nothing of it is lost."""
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    with upstream() as provider:
        provider.respond_with(
            ScriptedResponse([json.dumps({"choices": [{"index": 0, "message": message}]}).encode()])
        )
        answer = _adapter(OpenAIAdapter, provider.url).complete("Do it.")

    assert message == content_to_message(answer.text)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            ScriptedResponse([b'{"error": {"message": "your prompt was secret", "type": "rate_limit"}}'], 429),
            r"429 \(rate_limit\)",
        ),
        (ScriptedResponse([b"<html>"], 502, {"content-type": "text/html"}), "status 502"),
        (ScriptedResponse([b"hello"], 200), "cannot be read"),
        (ScriptedResponse([b'{"choices": '], reset=True), "connection broke|reset"),
        (ScriptedResponse([b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'], 200), "cut short"),
        (
            ScriptedResponse([b'{"choices": [{"message": {"content": "a"}}, {"message": {"content": "b"}}]}']),
            "several answers",
        ),
        (ScriptedResponse([b""], 302, {"location": "http://127.0.0.1:9/"}), "cannot be read|status"),
    ],
)
def test_an_incomplete_answer_is_an_error(answer: ScriptedResponse, why: str) -> None:
    """With the reason, without the provider's text, which may repeat a prompt; nothing is sent twice."""
    with upstream() as provider:
        provider.respond_with(answer)
        with pytest.raises(ProviderFailed, match=why) as caught:
            _adapter(OpenAIAdapter, provider.url).complete("A question")
        assert 1 == len(provider.received)

    assert "secret" not in str(caught.value)
    assert "test-key" not in str(caught.value)


def test_a_missing_server_is_an_error() -> None:
    """At once."""
    with pytest.raises(ProviderFailed, match="nothing listens at that address"):
        _adapter(OllamaAdapter, "http://127.0.0.1:9").complete("Hello?")


def test_a_url_must_be_valid() -> None:
    """Anything else could be a file on this machine."""
    with pytest.raises(ValueError, match="http://"):
        OpenAIAdapter("m", url="file:///etc/passwd")


def test_the_key_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is given."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    assert "from-the-environment" == AnthropicAdapter("m").headers()["x-api-key"]
    assert {} == OpenAIAdapter("m").headers()


def test_calls_of_an_adapter_are_captured_and_replayed(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like those of any client: recorded in a capture, and answered in a replay without a connection."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    adapters = [_adapter(kind, server.url) for kind in ADAPTERS]
    with traceforge.capture() as captured:
        live_answers = [(adapter.complete(CHAT).text, list(adapter.stream("Go on."))) for adapter in adapters]
    before = server.served
    with traceforge.replay() as replayed:
        replayed_answers = [(adapter.complete(CHAT).text, list(adapter.stream("Go on."))) for adapter in adapters]
    with pytest.raises(CallNotRecorded), traceforge.replay(), pytest.raises(ProviderFailed, match="status 418"):
        adapters[0].complete("never asked")

    assert (8, 8) == (len(captured.ids), replayed.played)
    assert live_answers == replayed_answers
    assert before == server.served
    assert 8 == len(load_session_prompts())


def test_an_unfinished_stream_is_traced_as_such_and_not_recorded(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    with traceforge.capture():
        stream = _adapter(OpenAIAdapter, server.url).stream("Tell me a story.")
        next(stream)
        stream.close()
    (file,) = (tmp_path / ".ai-tests" / "traces").glob("*.json")

    assert interaction_from_trace(json.loads(file.read_bytes())) == SKIPPED_FAILED
