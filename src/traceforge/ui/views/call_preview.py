"""The request and the answer of a call, in two short lines, for a list. Pure.

In: the body of a trace, redacted. Out: the beginning of its last message and of its answer. Never: walks a whole
conversation, or decodes a picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.wire.unified import as_object, as_text, list_objects

PREVIEW_CHARS = 240  # More than fits into a row of the widest screen.
PARTS_MAX = 8  # Of one message.
MESSAGES_BACK_MAX = 50  # How far the last message of a user is looked for.
_OWN_ROLES = frozenset({"assistant", "model", "system", "developer"})


class CallPreview(NamedTuple):
    """The beginning of the last message, and of its answer; "" without a text."""

    request: str = ""
    answer: str = ""


def preview_call(body: JSONObject) -> CallPreview:
    """The preview of the call of a trace."""
    request, response = as_object(body.get("request")), as_object(body.get("response"))
    answers = (as_object(choice.get("message")) for choice in list_objects(response.get("choices"))[:1])
    answer = next((text for text in map(_message_text, answers) if text), "")
    other = _error_text(body) or _tool_result_text(response) or as_text(response.get("status"))
    return CallPreview(_preview_request(request), answer or _shorten(other))


def _preview_request(request: JSONObject) -> str:
    """The last message that is not of the model: of a user, or the result of a tool."""
    messages = list_objects(request.get("messages"))[-MESSAGES_BACK_MAX:]
    others = (message for message in reversed(messages) if as_text(message.get("role")) not in _OWN_ROLES)
    texts = (text for text in map(_message_text, others) if text)
    return (
        next(texts, "")
        or next((text for text in map(_message_text, reversed(messages)) if text), "")
        or _plain(request)
        or _shorten(_tool_request_text(request))
    )


def _plain(request: JSONObject) -> str:
    """The prompt of a request without messages: a text, or the first of several."""
    for name in ("prompt", "input"):
        value = request.get(name)
        first = value[0] if isinstance(value, list) and value else value
        if text := as_text(first):
            return _shorten(text)
    return ""


def _message_text(message: JSONObject) -> str:
    pieces = [*_content_texts(message.get("content")), *map(_tool_call_text, list_objects(message.get("tool_calls")))]
    return _shorten(" ".join(piece[: 2 * PREVIEW_CHARS] for piece in pieces[:PARTS_MAX] if piece))


def _content_texts(content: JSON) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in list_objects(content)[:PARTS_MAX]:
        inner = part.get("content")
        text = as_text(part.get("text")) or as_text(inner) or as_text(part.get("output"))
        kind = as_text(part.get("type"))
        if text:
            yield text
        elif isinstance(inner, list):
            yield from (as_text(item.get("text")) for item in list_objects(inner)[:PARTS_MAX])
        elif "image" in kind or "inlineData" in part:
            yield "[image]"


def _tool_call_text(call: JSONObject) -> str:
    function = as_object(call.get("function"))
    name = as_text(function.get("name")) or as_text(call.get("name"))
    return f"{name}({as_text(function.get('arguments'))[:PREVIEW_CHARS]})" if name else ""


def _tool_request_text(request: JSONObject) -> str:
    """What a tool server or a function of the application was called with; "" for any other request."""
    name, call = as_text(request.get("tool")), request
    if as_text(request.get("method")) == "tools/call":
        call = as_object(request.get("params"))
        name = as_text(call.get("name"))
    return f"{name}({json_bytes(call.get('arguments')).decode(errors='replace')})" if name else ""


def _tool_result_text(response: JSONObject) -> str:
    """What a tool answered; "" for any other answer."""
    result = response.get("result")
    if isinstance(result, dict):
        return " ".join(text for text in _content_texts(result.get("content")) if text)
    return as_text(result)


def _error_text(body: JSONObject) -> str:
    error = as_object(body.get("metadata")).get("error")
    return as_text(error) or as_text(as_object(error).get("message"))


def _shorten(text: str) -> str:
    """The beginning of a text as one line."""
    line = " ".join(text[: 4 * PREVIEW_CHARS].split())
    return line if len(line) <= PREVIEW_CHARS else f"{line[: PREVIEW_CHARS - 1]}…"
