"""Short provider responses written by hand, as bytes on the wire, and TraceForge's reading of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ParsedResponse, ResponseReader, read_response

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
COMPLETE = "/v1/complete"
GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"
OLLAMA_CHAT = "/api/chat"
OLLAMA_GENERATE = "/api/generate"
GENERATING = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, COMPLETE, GEMINI, OLLAMA_CHAT, OLLAMA_GENERATE)

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"


def sse(*events: object, with_done: bool = False) -> bytes:
    """Server-sent events: a value becomes JSON data, a string is the data itself; a `type` names the event."""
    frames = [_frame(event) for event in events]
    return b"".join([*frames, b"data: [DONE]\n\n"] if with_done else frames)


def _frame(event: object) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
    name = event.get("type") if isinstance(event, dict) else None
    return f"{f'event: {name}{chr(10)}' if name else ''}data: {data}\n\n".encode()


def ndjson(*values: object) -> bytes:
    """One JSON value per line."""
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def read_body(address: str, body: Any, *, status: int = 200, media_type: str = "application/json") -> ParsedResponse:
    """TraceForge's reading of a response body, given as bytes or as a value."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_response(find_endpoint("POST", address), status, media_type, data)


def read_stream(address: str, data: bytes, media_type: str = SSE) -> ParsedResponse:
    """TraceForge's reading of a stream; checks that reading byte by byte gives the same result."""
    endpoint = find_endpoint("POST", address)
    reader = ResponseReader(endpoint, 200, media_type)
    for place in range(len(data)):
        reader.feed(data[place : place + 1])
    answer = reader.finish()
    assert read_response(endpoint, 200, media_type, data) == answer
    return answer


def message_of(answer: ParsedResponse, place: int = 0) -> dict[str, Any]:
    return choice_of(answer, place)["message"]  # type: ignore[no-any-return]  # JSON


def choice_of(answer: ParsedResponse, place: int = 0) -> dict[str, Any]:
    assert answer.unified is not None
    return answer.unified["choices"][place]  # type: ignore[index,call-overload,no-any-return]  # JSON


def calls_of(answer: ParsedResponse) -> list[tuple[Any, Any, Any]]:
    """Id, name and arguments of every tool call."""
    calls: Iterable[Any] = message_of(answer).get("tool_calls") or []
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]
