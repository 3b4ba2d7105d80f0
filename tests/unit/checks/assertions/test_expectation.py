"""`traceforge.expect`: responses of SDKs and of providers, in a test written in Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message
from google.genai.types import GenerateContentResponse
from ollama import ChatResponse, GenerateResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

import traceforge
from traceforge.canon import JSONObject
from traceforge.wire.dialects import decode_response, encode_stream
from traceforge.wire.endpoints import find_endpoint

ARGUMENTS = {"amount": 59.9, "order": "A-1"}
ARGUMENTS_TEXT = '{"amount": 59.9, "order": "A-1"}'
CALL = {
    "id": "c",
    "type": "function",
    "function": {"name": "refund", "arguments": ARGUMENTS_TEXT},
}
CHAT: dict[str, Any] = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "Done.", "tool_calls": [CALL]}}],
}  # fmt: skip
RESPONSES: dict[str, Any] = {
    "id": "1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": [],
    "parallel_tool_calls": True, "tool_choice": "auto",
    "output": [
        {"id": "m", "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Done.", "annotations": []}]},
        {"id": "f", "type": "function_call", "call_id": "c", "name": "refund", "status": "completed",
         "arguments": ARGUMENTS_TEXT},
    ],
}  # fmt: skip
ANTHROPIC: dict[str, Any] = {
    "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
    "content": [{"type": "text", "text": "Done."},
                {"type": "tool_use", "id": "c", "name": "refund", "input": ARGUMENTS}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
GEMINI: dict[str, Any] = {
    "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Done."}, {"functionCall": {"name": "refund", "args": ARGUMENTS}}]}}],
}  # fmt: skip
OLLAMA: dict[str, Any] = {
    "model": "m", "created_at": "2026-01-01T00:00:00Z", "done": True, "done_reason": "stop",
    "message": {"role": "assistant", "content": "Done.",
                "tool_calls": [{"function": {"name": "refund", "arguments": ARGUMENTS}}]},
}  # fmt: skip


@pytest.mark.parametrize(
    "response",
    [
        ChatCompletion.model_validate(CHAT),
        Response.model_validate(RESPONSES),
        Message.model_validate(ANTHROPIC),
        GenerateContentResponse.model_validate(GEMINI),
        ChatResponse.model_validate(OLLAMA),
        CHAT,
        RESPONSES,
        ANTHROPIC,
        GEMINI,
        OLLAMA,
    ],
    ids=lambda response: type(response).__name__,
)
def test_a_response_of_every_provider_is_understood(response: object) -> None:
    """As the object of its SDK, and as a dictionary."""
    expectation = traceforge.expect(response)

    expectation.contains("Done").tool_called("refund", amount=59.9).no_refusal().no_pii()
    with pytest.raises(AssertionError, match=r"expected a call of refund .*; got 59\.9 \(where: tool_calls\[0\]"):
        expectation.tool_called("refund", amount=60)


STREAMS = {
    "https://api.openai.com/v1/chat/completions": CHAT,
    "https://api.openai.com/v1/responses": RESPONSES,
    "https://api.anthropic.com/v1/messages": ANTHROPIC,
    "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent": GEMINI,
    "http://127.0.0.1:11434/api/chat": OLLAMA,
}


@pytest.mark.parametrize("url", STREAMS)
def test_the_parts_of_a_stream_are_one_response(url: str) -> None:
    """As an SDK hands them on, in a list; a stream that was cut has no answer."""
    endpoint = find_endpoint("POST", url)
    frames = b"".join(encode_stream(endpoint, decode_response(endpoint, STREAMS[url]))).decode()
    lines = [line.removeprefix("data: ") for line in frames.splitlines()]
    parts = [json.loads(line) for line in lines if line.startswith("{")]

    traceforge.expect(parts).contains("Done").tool_called("refund", amount=59.9)
    first = {**parts[0], **({"done": False} if "done" in parts[0] else {})}
    if "candidates" in first:
        first["candidates"] = [{"content": candidate["content"]} for candidate in first["candidates"]]
    with pytest.raises(TypeError, match="ended before its end"):
        traceforge.expect([first])


def test_an_answer_of_generate_is_a_response() -> None:
    """Ollama has two endpoints for text."""
    response = GenerateResponse(model="m", done=True, done_reason="stop", response="Done.")

    traceforge.expect(response).contains("Done").finish_reason("stop")


def test_each_choice_must_hold() -> None:
    """The second of two is another answer."""
    other = {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "No."}}
    expectation = traceforge.expect({**CHAT, "choices": [*CHAT["choices"], other]})

    with pytest.raises(AssertionError, match=r'expected a text with "Done"; got "No\."'):
        expectation.contains("Done")


def test_what_could_not_be_checked_does_not_pass() -> None:
    """A response does not say how long it took."""
    with pytest.raises(AssertionError, match="latency could not be checked"):
        traceforge.expect(CHAT).holds("latency", max_ms=10_000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vale": "x"}, "unknown field"),
        ({"value": 3}, r"\$\.value: must be string or array, got number"),
    ],
)
def test_a_wrong_field_is_a_mistake_and_not_a_failed_test(fields: JSONObject, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        traceforge.expect(CHAT).holds("contains", **fields)


def test_an_expression_that_holds_for_every_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="it would hold for every answer"):
        traceforge.expect(CHAT).regex("x*")


@pytest.mark.parametrize("response", ["Done.", None, {}, {"error": {"message": "no"}}, {"choices": []}, object()])
def test_what_is_no_response_is_refused(response: object) -> None:
    """Nothing is asserted about an object that has no answer."""
    with pytest.raises(TypeError, match=r"expect\(\)"):
        traceforge.expect(response)
