"""From a unified view back to every provider's answer, plain and streamed, so that a snapshot can answer a call."""

from __future__ import annotations

from typing import Any

import pytest

from support.corpus_traffic import reread
from support.wire_transcripts import CHAT, COMPLETE, COMPLETIONS, GENERATING, MESSAGES, OLLAMA_GENERATE, RESPONSES
from traceforge.wire.dialects import encode_response, encode_stream
from traceforge.wire.endpoints import Endpoint, find_endpoint
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding

TEXT_ONLY = (COMPLETIONS, COMPLETE, OLLAMA_GENERATE)
CALLING = [address for address in GENERATING if address not in TEXT_ONLY]
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Paris","n":[1,2]}'}},
    {"id": "call_2", "type": "function", "function": {"name": "go", "arguments": "{}"}},
]
USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
each_way = pytest.mark.parametrize("way", ["plain", "stream"])


def minimal(content: str | None, finish: str, calls: list[Any] | None = None, usage: Any = None) -> dict[str, Any]:
    """What a snapshot written by hand says, and nothing else."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"choices": [choice], **({"usage": usage} if usage else {})}


def answered(address: str, way: str, view: dict[str, Any]) -> ParsedResponse:
    """The view written out by this provider, and read again; it must be an answer that is whole."""
    answer = reread(find_endpoint("POST", address), view, way)
    assert ResponseEnding.COMPLETE is answer.ending
    assert not answer.unknown_events
    return answer


def said(answer: ParsedResponse) -> tuple[Any, Any, Any]:
    """Content, calls and finish reason."""
    assert answer.unified is not None
    (choice,) = answer.unified["choices"]  # type: ignore[union-attr,misc]  # JSON
    message = choice.get("message", {})  # type: ignore[union-attr]
    return choice.get("text", message.get("content")), message.get("tool_calls"), choice["finish_reason"]


@each_way
@pytest.mark.parametrize("address", GENERATING)
@pytest.mark.parametrize("content", ["Paris.", "", "naïve — “quoted”\n\n😀\u2028\\", "data: x\n\ndata: [DONE]\n\n"])
def test_text_comes_back(address: str, way: str, content: str) -> None:
    """Any text, one that looks like an event too."""
    assert (content, None, "stop") == said(answered(address, way, minimal(content, "stop")))


@each_way
@pytest.mark.parametrize("address", CALLING)
@pytest.mark.parametrize("content", [None, "Let me look."])
def test_tool_calls_come_back(address: str, way: str, content: str | None) -> None:
    """Ids, names and arguments, with text beside them or without."""
    got, calls, finish = said(answered(address, way, minimal(content, "tool_calls", CALLS)))

    assert (content or None, CALLS, "tool_calls") == (got or None, calls, finish)


@each_way
@pytest.mark.parametrize("address", GENERATING)
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_finish_reasons_come_back(address: str, way: str, finish: str) -> None:
    """In the provider's own words on the wire."""
    assert finish == said(answered(address, way, minimal("a", finish)))[2]


@each_way
@pytest.mark.parametrize("address", [address for address in GENERATING if address != COMPLETE])
def test_usage_comes_back(address: str, way: str) -> None:
    """The three totals that a snapshot may hold; Anthropic's old completions never told any."""
    usage = _usage(answered(address, way, minimal("a", "stop", usage=USAGE)))

    assert USAGE == {name: usage[name] for name in USAGE}


@each_way
@pytest.mark.parametrize("address", [address for address in GENERATING if address != COMPLETE])
def test_a_total_alone_comes_back(address: str, way: str) -> None:
    """`tokens_used` of a snapshot is one number."""
    assert 12 == _usage(answered(address, way, minimal("a", "stop", usage={"total_tokens": 12})))["total_tokens"]


def _usage(answer: ParsedResponse) -> dict[str, Any]:
    assert answer.unified is not None
    return answer.unified["usage"]  # type: ignore[return-value]  # JSON


@each_way
@pytest.mark.parametrize("address", GENERATING)
def test_what_was_read_again_is_stable(address: str, way: str) -> None:
    """Reading what was written gives a view that is written and read as itself from then on."""
    view = answered(address, way, minimal("a", "stop", None if address in TEXT_ONLY else CALLS, USAGE)).unified

    assert view is not None
    for again in ("plain", "stream"):
        assert view == answered(address, again, view).unified


@each_way
@pytest.mark.parametrize("address", [CHAT, MESSAGES, RESPONSES, *CALLING[3:]])
def test_reasoning_comes_back(address: str, way: str) -> None:
    """Where the provider has a place for it."""
    view = minimal("4", "stop")
    view["choices"][0]["message"]["reasoning"] = "let me"
    unified = answered(address, way, view).unified

    assert unified is not None
    assert "let me" == unified["choices"][0]["message"]["reasoning"]  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("address", "field"), [(COMPLETIONS, "choices"), (COMPLETE, "completion"), (OLLAMA_GENERATE, "response")]
)
def test_text_endpoints_answer_in_their_own_shape(address: str, field: str) -> None:
    """A client of an old endpoint does not look for a message."""
    body = encode_response(find_endpoint("POST", address), minimal("Paris", "stop"))

    assert "Paris" == (body[field][0]["text"] if field == "choices" else body[field])  # type: ignore[index,call-overload]
    assert "message" not in str(body)


def test_a_custom_tool_call_comes_back() -> None:
    """The Responses API and the chat API have them."""
    call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    for address in (CHAT, RESPONSES):
        for way in ("plain", "stream"):
            assert [call] == said(answered(address, way, minimal(None, "tool_calls", [call])))[1]


def test_an_unknown_endpoint_has_no_answer_of_its_own() -> None:
    """Asking for one is our own mistake."""
    for encode in (encode_response, encode_stream):
        with pytest.raises(AssertionError, match="unknown endpoint"):
            encode(find_endpoint("GET", "/"), {})


def test_every_dialect_is_tried_here() -> None:
    """A new one must be added to these tests."""
    from traceforge.wire.endpoints import Dialect, EndpointKind

    seen = {find_endpoint("POST", address) for address in GENERATING}
    assert set(Dialect) == {endpoint.dialect for endpoint in seen}
    assert set(EndpointKind) - {EndpointKind.OTHER, EndpointKind.EMBEDDINGS} == {endpoint.kind for endpoint in seen}
    assert all(isinstance(endpoint, Endpoint) for endpoint in seen)
