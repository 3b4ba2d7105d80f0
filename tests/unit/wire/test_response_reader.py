"""Any bytes at any address are decoded or kept raw; nothing raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from support.wire_transcripts import (
    CHAT,
    GEMINI,
    GENERATING,
    MESSAGES,
    NDJSON,
    OLLAMA_CHAT,
    RESPONSES,
    SSE,
    read_body,
    sse,
)
from traceforge.wire.dialects import decode_request, encode_response, encode_stream
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ResponseEnding, ResponseReader, read_response

EVERYWHERE = [*GENERATING, "/v1/embeddings", "/v1beta/models/g:embedContent", "/api/embed", "/v1/unknown"]

# Names that a decoder looks for, so that it meets random values under them.
_NAMES = (
    "type", "id", "model", "choices", "index", "delta", "message", "content", "role", "tool_calls", "function",
    "name", "arguments", "function_call", "finish_reason", "usage", "error", "text", "refusal", "reasoning",
    "reasoning_content", "reasoning_details", "logprobs", "object", "created", "x_groq", "response", "output",
    "item", "part", "output_index", "content_index", "summary_index", "summary", "annotation", "annotations",
    "status", "incomplete_details", "call_id", "input", "custom", "content_block", "partial_json", "thinking",
    "signature", "citation", "stop_reason", "completion", "candidates", "parts", "functionCall", "args",
    "partialArgs", "jsonPath", "stringValue", "willContinue", "thought", "thoughtSignature", "finishReason",
    "usageMetadata", "promptTokenCount", "totalTokenCount", "promptFeedback", "done", "done_reason",
    "eval_count", "prompt_eval_count", "embedding", "embeddings", "values", "data", "tokens", "messages",
    "contents", "system", "systemInstruction", "generationConfig", "options", "stop", "tools", "tool_choice",
    "prompt",
)  # fmt: skip
_WORDS = (
    "", "text", "tool_use", "message_start", "message_delta", "message_stop", "content_block_start",
    "content_block_delta", "content_block_stop", "text_delta", "input_json_delta", "citations_delta",
    "thinking_delta", "error", "ping", "response.created", "response.completed", "response.output_item.added",
    "response.output_item.done", "response.output_text.delta", "response.output_text.done",
    "response.content_part.added", "message", "reasoning", "response.reasoning_summary_text.delta",
    "response.output_text.annotation.added", "function_call", "output_text",
    "response.function_call_arguments.delta", "response.refusal.delta", "incomplete", "thinking", "assistant",
    "$.a[0]",
)  # fmt: skip
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(_WORDS)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=12,
)
_objects = st.dictionaries(st.sampled_from(_NAMES), _values, max_size=6)
_typed = st.builds(lambda kind, fields: {**fields, "type": kind}, st.sampled_from(_WORDS), _objects)


@fuzz(500)
@given(st.sampled_from(EVERYWHERE), _objects | _typed, st.sampled_from([200, 400, 500]))
def test_no_json_object_raises(address: str, body: dict[str, Any], status: int) -> None:
    """Fields with values of every wrong type, under any status."""
    answer = read_body(address, body, status=status)

    assert answer.ending in (ResponseEnding.COMPLETE, ResponseEnding.ERROR, ResponseEnding.CUT)
    assert body == answer.body


@fuzz(600)
@given(st.sampled_from(EVERYWHERE), st.lists(_typed | _objects, max_size=6))
def test_no_stream_of_objects_raises(address: str, events: list[dict[str, Any]]) -> None:
    """Events in orders that no provider sends, about items that never began."""
    endpoint = find_endpoint("POST", address)
    for data, kind in (
        (sse(*(json.dumps(event) for event in events)), SSE),
        (b"".join(json.dumps(event).encode() + b"\n" for event in events), NDJSON),
        (json.dumps(events).encode(), "application/json"),
    ):
        assert read_response(endpoint, 200, kind, data).ending in ResponseEnding


@fuzz(400)
@given(st.sampled_from(EVERYWHERE), st.lists(st.binary(max_size=30), max_size=5), st.sampled_from([SSE, NDJSON, ""]))
def test_no_bytes_raise_and_any_split_gives_the_same_result(
    address: str, pieces: list[bytes], media_type: str
) -> None:
    """Bytes that cannot be decoded are kept raw."""
    endpoint = find_endpoint("POST", address)
    reader = ResponseReader(endpoint, 200, media_type)
    for piece in pieces:
        reader.feed(piece)

    assert read_response(endpoint, 200, media_type, b"".join(pieces)) == reader.finish()


@fuzz(400)
@given(st.sampled_from(EVERYWHERE), _objects)
def test_no_request_raises(address: str, body: dict[str, Any]) -> None:
    assert isinstance(decode_request(find_endpoint("POST", address), body), dict)


@fuzz(400)
@given(st.sampled_from(GENERATING), _objects | _typed)
def test_every_decoded_view_can_be_encoded(address: str, body: dict[str, Any]) -> None:
    """Plain and streamed, however strange the answer was."""
    endpoint = find_endpoint("POST", address)
    view = read_body(address, body).unified

    if view is not None and view.get("choices"):
        assert isinstance(encode_response(endpoint, view), dict)
        assert encode_stream(endpoint, view)


@pytest.mark.parametrize("address", EVERYWHERE)
@pytest.mark.parametrize(
    "body", [b"", b" \n", b"<html>bad gateway</html>", b"\xff\xfe\x00", b"null", b"[1]", b'"x"', b"{"]
)
def test_a_body_that_is_not_an_answer_is_kept_raw(address: str, body: bytes) -> None:
    answer = read_body(address, body, media_type="text/html")

    assert answer.ending in (ResponseEnding.RAW, ResponseEnding.CUT)
    assert answer.unified is None


@pytest.mark.parametrize("address", [CHAT, RESPONSES, MESSAGES, GEMINI, OLLAMA_CHAT])
def test_an_error_labelled_as_a_stream_is_an_error(address: str) -> None:
    """Providers send JSON errors with the content type of the requested stream."""
    error = {"type": "error", "error": {"message": "no", "type": "x"}}
    answer = read_body(address, error, status=400, media_type=SSE)

    assert (ResponseEnding.ERROR, error, None) == (answer.ending, answer.body, answer.unified)


def test_an_unknown_address_keeps_its_json() -> None:
    """And no choices are made up."""
    answer = read_body("/v1/unknown", {"a": 1})

    assert {"a": 1} == answer.body
    assert "choices" not in (answer.unified or {})


def test_a_stream_without_its_content_type_is_recognised() -> None:
    """A content type counts only where the bytes do not contradict it."""
    data = sse(
        {"id": "x", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}, with_done=True
    )

    for kind in ("", "application/json", "text/plain"):
        for opening in (
            b"",
            b": ping\n\n",
            b":\n\n",
            b":keepalive\n\n",
            b"\xef\xbb\xbf",
            b"\r\n",
            b"retry: 100\n\n",
            b"id: 1\n",
        ):
            assert ResponseEnding.COMPLETE is read_body(CHAT, opening + data, media_type=kind).ending, opening
