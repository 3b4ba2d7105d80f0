"""Ollama: /api/chat, /api/generate, /api/embed.

In: bodies and lines. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire import embeddings
from traceforge.wire.dialect_declaration import (
    BodyCodec,
    BodyFraming,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, line_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_message,
    build_response,
    build_tool_call,
    build_usage,
    list_objects,
    parse_or_keep,
    provider_fields,
    sum_numbers,
    token_counts,
    without_fields,
)

DIALECT = DialectDeclaration(
    name="ollama",
    endpoints=(
        EndpointPath(r"/api/chat/?", EndpointKind.CHAT, rank=3),
        EndpointPath(r"/api/generate/?", EndpointKind.GENERATE, rank=3),
        EndpointPath(r"/api/embed(?:dings)?/?", EndpointKind.EMBEDDINGS, codec=":EMBEDDINGS", rank=3),
    ),
    hosts=("ollama.com",),
    api_key=KeyHeader(("OLLAMA_API_KEY",), "authorization", "Bearer "),
    framing=BodyFraming.LINES,
    base_path=r"/api/[a-z]+/?\Z",
)

OPTION_NAMES = {
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
    """The unified request. Ollama streams unless `stream` is false."""
    unified = dict(body)
    for name, value in as_object(body.get("options")).items():
        if name in OPTION_NAMES:
            unified[OPTION_NAMES[name]] = [value] if name == "stop" and isinstance(value, str) else value
    unified["stream"] = body.get("stream", True)
    return unified


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of a chat or a generation."""
    native_message = as_object(body.get("message"))
    is_chat = "message" in body
    content = native_message.get("content") if is_chat else body.get("response")
    tool_calls = [_call(call) for call in list_objects(native_message.get("tool_calls"))]
    message = build_message(
        content=content if isinstance(content, str) else None,
        reasoning=as_text(native_message.get("thinking") if is_chat else body.get("thinking")),
        tool_calls=tool_calls,
        parts=None,
    )
    if is_chat and _message(message) != native_message:
        message["parts"] = native_message
    reason = body.get("done_reason")
    finish = "tool_calls" if tool_calls and reason == "stop" else reason
    choice: JSONObject = {"index": 0, "message": message, "finish_reason": finish, "provider_finish_reason": reason}
    if not is_chat:
        choice = {"index": 0, "text": content, "finish_reason": reason, "provider_finish_reason": reason}
        if body.get("thinking"):
            choice["reasoning"] = body["thinking"]
    native_counts = {name: body[name] for name in _COUNTS if name in body}
    usage = (
        build_usage(native_counts, prompt=sum_numbers(body, _COUNTS[0]), completion=sum_numbers(body, _COUNTS[1]))
        if native_counts
        else None
    )
    unified = build_response(
        answer_id=None,
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=usage,
        extra=without_fields(body, _BODY_FIELDS),
    )
    return unified if is_chat else {**unified, "object": "text_completion"}


def _call(call: JSONObject) -> JSONObject:
    function = as_object(call.get("function"))
    return build_tool_call(call.get("id"), function.get("name"), function.get("arguments", {}))


def encode_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    (choice,) = list_objects(unified["choices"])
    extra = provider_fields(unified)
    body: JSONObject = {"model": unified.get("model")}
    if "text" in choice:
        body["response"] = choice["text"]
        if "reasoning" in choice:
            body["thinking"] = choice["reasoning"]
    else:
        body["message"] = _message(as_object(choice["message"]))
    reason = choice.get(
        "provider_finish_reason",
        "stop" if choice.get("finish_reason") == "tool_calls" else choice.get("finish_reason"),
    )
    if reason is not None:
        body["done_reason"] = reason
    body["done"] = True
    usage = unified.get("usage")
    if isinstance(usage, dict):
        native_counts = usage.get("provider")
        body.update(
            native_counts if isinstance(native_counts, dict) else dict(zip(_COUNTS, token_counts(usage), strict=True))
        )
    return {**body, **extra}


def _message(message: JSONObject) -> JSON:
    if "parts" in message:
        return message["parts"]
    native_message: JSONObject = {"role": "assistant", "content": message.get("content") or ""}
    if message.get("reasoning"):
        native_message["thinking"] = message["reasoning"]
    calls = [_native_call(call) for call in list_objects(message.get("tool_calls"))]
    if calls:
        native_message["tool_calls"] = cast("list[JSON]", calls)
    return native_message


def _native_call(call: JSONObject) -> JSONObject:
    function = as_object(call.get("function"))
    native: JSONObject = {
        "function": {"name": function.get("name"), "arguments": parse_or_keep(function.get("arguments"))}
    }
    return {"id": call["id"], **native} if call.get("id") is not None else native


class LineAssembler(StreamAssembler):
    """Puts an answer together from its lines."""

    def add_event(self, event: JSONObject, name: str = "") -> None:
        if "error" in event and "done" not in event:
            self.add_error(event["error"])
            return
        for key, value in event.items():
            if key == "message" and isinstance(value, dict):
                self.body[key] = _append_message(as_object(self.body.get(key)), value)
            elif key in ("response", "thinking"):
                self.body[key] = as_text(self.body.get(key)) + as_text(value)
            else:
                self.body[key] = value
        self.is_complete = self.is_complete or event.get("done") is True

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        return self.body


def _append_message(before: JSONObject, more: JSONObject) -> JSONObject:
    merged = {**before, **more}
    for name in ("content", "thinking"):
        if name in before and name in more:
            merged[name] = as_text(before[name]) + as_text(more[name])
    if "tool_calls" in before and "tool_calls" in more:
        merged["tool_calls"] = append_delta(before["tool_calls"], more["tool_calls"])
    return merged


new_assembler = LineAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """A stream of one line."""
    return [line_frame(encode_response(unified))]


EMBEDDINGS = BodyCodec(
    embeddings.decode_input_request,
    embeddings.decode_ollama_response,
    encode_response,
    encode_stream,
    new_assembler,
)
