"""From a unified view back to every provider's response, plain and streamed, so that a snapshot can answer a call."""

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
    """The view of a snapshot with only these fields."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"choices": [choice], **({"usage": usage} if usage else {})}


def write_and_read(address: str, way: str, view: dict[str, Any]) -> ParsedResponse:
    """The view encoded for this provider and decoded again; fails unless the answer is complete."""
    answer = reread(find_endpoint("POST", address), view, way)
    assert ResponseEnding.COMPLETE is answer.ending
    assert not answer.unknown_events
    return answer


def content_calls_finish(answer: ParsedResponse) -> tuple[Any, Any, Any]:
    assert answer.unified is not None
    (choice,) = answer.unified["choices"]  # type: ignore[union-attr,misc]  # JSON
    message = choice.get("message", {})  # type: ignore[union-attr]
    return choice.get("text", message.get("content")), message.get("tool_calls"), choice["finish_reason"]


@each_way
@pytest.mark.parametrize("address", GENERATING)
@pytest.mark.parametrize("content", ["Paris.", "", "naïve — “quoted”\n\n😀\u2028\\", "data: x\n\ndata: [DONE]\n\n"])
def test_text_survives_encoding(address: str, way: str, content: str) -> None:
    """Also text that looks like an event."""
    assert (content, None, "stop") == content_calls_finish(write_and_read(address, way, minimal(content, "stop")))


@each_way
@pytest.mark.parametrize("address", CALLING)
@pytest.mark.parametrize("content", [None, "Let me look."])
def test_tool_calls_survive_encoding(address: str, way: str, content: str | None) -> None:
    """Ids, names and arguments, with and without text."""
    decoded, calls, finish = content_calls_finish(write_and_read(address, way, minimal(content, "tool_calls", CALLS)))

    assert (content or None, CALLS, "tool_calls") == (decoded or None, calls, finish)


@each_way
@pytest.mark.parametrize("address", GENERATING)
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_finish_reasons_survive_encoding(address: str, way: str, finish: str) -> None:
    assert finish == content_calls_finish(write_and_read(address, way, minimal("a", finish)))[2]


@each_way
@pytest.mark.parametrize("address", [address for address in GENERATING if address != COMPLETE])
def test_usage_survives_encoding(address: str, way: str) -> None:
    """The three totals that a snapshot may hold; Anthropic's old completions never had any."""
    usage = _usage(write_and_read(address, way, minimal("a", "stop", usage=USAGE)))

    assert USAGE == {name: usage[name] for name in USAGE}


@each_way
@pytest.mark.parametrize("address", [address for address in GENERATING if address != COMPLETE])
def test_a_total_alone_survives_encoding(address: str, way: str) -> None:
    """`tokens_used` of a snapshot is one number."""
    assert (
        12 == _usage(write_and_read(address, way, minimal("a", "stop", usage={"total_tokens": 12})))["total_tokens"]
    )


def _usage(answer: ParsedResponse) -> dict[str, Any]:
    assert answer.unified is not None
    return answer.unified["usage"]  # type: ignore[return-value]  # JSON


@each_way
@pytest.mark.parametrize("address", GENERATING)
def test_a_decoded_view_is_encoded_and_decoded_as_itself(address: str, way: str) -> None:
    view = write_and_read(address, way, minimal("a", "stop", None if address in TEXT_ONLY else CALLS, USAGE)).unified

    assert view is not None
    for second_way in ("plain", "stream"):
        assert view == write_and_read(address, second_way, view).unified


@each_way
@pytest.mark.parametrize("address", [CHAT, MESSAGES, RESPONSES, *CALLING[3:]])
def test_reasoning_survives_encoding(address: str, way: str) -> None:
    """Where the provider has a field for it."""
    view = minimal("4", "stop")
    view["choices"][0]["message"]["reasoning"] = "let me"
    unified = write_and_read(address, way, view).unified

    assert unified is not None
    assert "let me" == unified["choices"][0]["message"]["reasoning"]  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("address", "field"), [(COMPLETIONS, "choices"), (COMPLETE, "completion"), (OLLAMA_GENERATE, "response")]
)
def test_a_text_endpoint_answers_in_its_own_shape(address: str, field: str) -> None:
    """A client of a legacy endpoint does not look for a message."""
    body = encode_response(find_endpoint("POST", address), minimal("Paris", "stop"))

    assert "Paris" == (body[field][0]["text"] if field == "choices" else body[field])  # type: ignore[index,call-overload]
    assert "message" not in str(body)


def test_a_custom_tool_call_survives_encoding() -> None:
    """The Responses API and the chat API have them."""
    call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    for address in (CHAT, RESPONSES):
        for way in ("plain", "stream"):
            assert [call] == content_calls_finish(write_and_read(address, way, minimal(None, "tool_calls", [call])))[
                1
            ]


def test_encoding_for_an_unknown_endpoint_raises() -> None:
    """It is a bug of the caller."""
    for encode in (encode_response, encode_stream):
        with pytest.raises(AssertionError, match="unknown endpoint"):
            encode(find_endpoint("GET", "/"), {})


def test_every_dialect_is_in_these_tests() -> None:
    from traceforge.wire.endpoints import Dialect, EndpointKind

    tested = {find_endpoint("POST", address) for address in GENERATING}
    assert set(Dialect) == {endpoint.dialect for endpoint in tested}
    generating = {endpoint.kind for endpoint in tested}
    assert generating | {EndpointKind.FILL_IN, EndpointKind.OCR} == {
        kind for kind in EndpointKind if Endpoint("any", kind).is_generative
    }
    assert all(isinstance(endpoint, Endpoint) for endpoint in tested)
