"""Ollama: /api/chat, /api/generate, /api/embed.

In: bodies and lines. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.stream_assembly import Assembly, Frame, line_frame
from traceforge.wire.unified import (
    counts,
    message,
    numbers,
    obj,
    objects,
    parsed,
    response,
    text_of,
    tool_call,
    usage,
    without,
)

OPTIONS = {
    "temperature": "temperature",
    "num_predict": "max_tokens",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_COUNTS = ("prompt_eval_count", "eval_count")
_BODY_FIELDS = ("model", "message", "response", "thinking", "done_reason", *_COUNTS)


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request. Streaming is what Ollama does unless it is told not to."""
    unified = dict(body)
    for name, value in obj(body.get("options")).items():
        if name in OPTIONS:
            unified[OPTIONS[name]] = [value] if name == "stop" and isinstance(value, str) else value
    unified["stream"] = body.get("stream", True)
    return unified


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of a chat or a generation."""
    given = obj(body.get("message"))
    chat = "message" in body
    content = given.get("content") if chat else body.get("response")
    calls = [_call(call) for call in objects(given.get("tool_calls"))]
    built = message(
        content=content if isinstance(content, str) else None,
        reasoning=text_of(given.get("thinking") if chat else body.get("thinking")),
        tool_calls=calls,
        parts=None,
    )
    if chat and _message(built) != given:
        built["parts"] = given
    reason = body.get("done_reason")
    finish = "tool_calls" if calls and reason == "stop" else reason
    choice: JSONObject = {"index": 0, "message": built, "finish_reason": finish, "provider_finish_reason": reason}
    if not chat:
        choice = {"index": 0, "text": content, "finish_reason": reason, "provider_finish_reason": reason}
        if body.get("thinking"):
            choice["reasoning"] = body["thinking"]
    own = {name: body[name] for name in _COUNTS if name in body}
    counted = usage(own, prompt=numbers(body, _COUNTS[0]), completion=numbers(body, _COUNTS[1])) if own else None
    unified = response(
        answer_id=None,
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=counted,
        extra=without(body, _BODY_FIELDS),
    )
    return unified if chat else {**unified, "object": "text_completion"}


def _call(call: JSONObject) -> JSONObject:
    function = obj(call.get("function"))
    return tool_call(call.get("id"), function.get("name"), function.get("arguments", {}))


def encode_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    (choice,) = objects(unified["choices"])
    extra = without(unified, ("id", "object", "created", "model", "choices", "usage"))
    body: JSONObject = {"model": unified.get("model")}
    if "text" in choice:
        body["response"] = choice["text"]
        if "reasoning" in choice:
            body["thinking"] = choice["reasoning"]
    else:
        body["message"] = _message(obj(choice["message"]))
    reason = choice.get(
        "provider_finish_reason",
        "stop" if choice.get("finish_reason") == "tool_calls" else choice.get("finish_reason"),
    )
    if reason is not None:
        body["done_reason"] = reason
    body["done"] = True
    counted = unified.get("usage")
    if isinstance(counted, dict):
        own = counted.get("provider")
        body.update(own if isinstance(own, dict) else dict(zip(_COUNTS, counts(counted), strict=True)))
    return {**body, **extra}


def _message(built: JSONObject) -> JSON:
    if "parts" in built:
        return built["parts"]
    given: JSONObject = {"role": "assistant", "content": built.get("content") or ""}
    if built.get("reasoning"):
        given["thinking"] = built["reasoning"]
    calls = [_plain_call(call) for call in objects(built.get("tool_calls"))]
    if calls:
        given["tool_calls"] = cast("list[JSON]", calls)
    return given


def _plain_call(call: JSONObject) -> JSONObject:
    function = obj(call.get("function"))
    plain: JSONObject = {"function": {"name": function.get("name"), "arguments": parsed(function.get("arguments"))}}
    return {"id": call["id"], **plain} if call.get("id") is not None else plain


class LineAssembly(Assembly):
    """Puts an answer together from its lines."""

    def take(self, event: JSONObject, name: str = "") -> None:
        """Take one line."""
        if "error" in event and "done" not in event:
            self.fail(event["error"])
            return
        for key, value in event.items():
            if key == "message" and isinstance(value, dict):
                self.body[key] = _grown_message(obj(self.body.get(key)), value)
            elif key in ("response", "thinking"):
                self.body[key] = text_of(self.body.get(key)) + text_of(value)
            else:
                self.body[key] = value
        self.complete = self.complete or event.get("done") is True

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        return self.body


def _grown_message(before: JSONObject, more: JSONObject) -> JSONObject:
    grown = {**before, **more}
    for name in ("content", "thinking"):
        if name in before and name in more:
            grown[name] = text_of(before[name]) + text_of(more[name])
    if "tool_calls" in before and "tool_calls" in more:
        grown["tool_calls"] = [*objects(before["tool_calls"]), *objects(more["tool_calls"])]
    return grown


new_assembly = LineAssembly


def encode_stream(unified: JSONObject) -> list[Frame]:
    """A stream of one line."""
    return [line_frame(encode_response(unified))]
