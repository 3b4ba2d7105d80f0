"""OpenAI Responses: one answer of many items, streamed as named events.

In: bodies and events of `/v1/responses`. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, append_item, sse_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_message,
    build_response,
    build_tool_call,
    build_usage,
    is_number,
    list_objects,
    provider_fields,
    sum_numbers,
    without_fields,
)

_BODY_FIELDS = ("id", "model", "object", "created_at", "output", "usage")
_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TERMINAL = {"response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled"}


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: instructions and input are messages, the rest keeps its name."""
    unified = without_fields(body, ("input", "instructions"))
    instructions = body.get("instructions")
    system_messages: list[JSON] = [] if instructions is None else [{"role": "developer", "content": instructions}]
    input_value = body.get("input")
    items = (
        [{"role": "user", "content": input_value}]
        if isinstance(input_value, str)
        else [_input(i) for i in list_objects(input_value)]
    )
    unified["messages"] = [*system_messages, *cast("list[JSON]", items)]
    if "max_tokens" not in body and is_number(body.get("max_output_tokens")):
        unified["max_tokens"] = body["max_output_tokens"]
    return unified


def _input(item: JSONObject) -> JSONObject:
    kind = item.get("type")
    if kind == "function_call_output":
        return {
            "role": "tool",
            "tool_call_id": item.get("call_id"),
            "content": _content(item.get("output")),
            **without_fields(item, _CALL_OUTPUT_FIELDS),
        }
    if kind == "function_call":
        call = build_tool_call(item.get("call_id"), item.get("name"), as_text(item.get("arguments")))
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if "role" in item:
        return without_fields(item, ("type",))
    return {"role": "assistant", "content": [item]}  # reasoning and server tools: the provider's own item


_CALL_OUTPUT_FIELDS = ("type", "call_id", "output")


def _content(value: JSON) -> JSON:
    return value if isinstance(value, str | list) else None if value is None else [value]


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response: text, refusal, reasoning and calls of all items, and the items themselves."""
    items = list_objects(body.get("output"))
    contents = [part for item in items if item.get("type") == "message" for part in list_objects(item.get("content"))]
    texts = [as_text(part.get("text")) for part in contents if part.get("type") == "output_text"]
    refusals = [as_text(part.get("refusal")) for part in contents if part.get("type") == "refusal"]
    tool_calls = [call for item in items if (call := _call(item)) is not None]
    message = build_message(
        content="".join(texts) if texts else None,
        reasoning="\n".join(
            text for item in items if item.get("type") == "reasoning" for text in _reasoning_texts(item)
        ),
        refusal="".join(refusals) if refusals else None,
        tool_calls=tool_calls,
        parts=body.get("output"),
    )
    choice: JSONObject = {"index": 0, "message": message, **_finish(body, bool(tool_calls))}
    return build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=body.get("created_at"),
        choices=[choice],
        usage=_usage(body.get("usage")),
        extra=without_fields(body, _BODY_FIELDS),
    )


def _call(item: JSONObject) -> JSONObject | None:
    if item.get("type") == "function_call":
        return build_tool_call(item.get("call_id"), item.get("name"), as_text(item.get("arguments")))
    if item.get("type") == "custom_tool_call":
        return build_tool_call(item.get("call_id"), item.get("name"), as_text(item.get("input")), "custom")
    return None


def _reasoning_texts(item: JSONObject) -> list[str]:
    return [as_text(part.get("text")) for name in ("summary", "content") for part in list_objects(item.get(name))]


def _finish(body: JSONObject, has_tool_calls: bool) -> JSONObject:
    status = body.get("status")
    reason = as_object(body.get("incomplete_details")).get("reason")
    if status == "incomplete":
        finish_reason: JSON = {"max_output_tokens": "length"}.get(as_text(reason), reason)
    elif status == "completed":
        finish_reason = "tool_calls" if has_tool_calls else "stop"
    else:
        finish_reason = status
    return {"finish_reason": finish_reason, "provider_finish_reason": status}


def _usage(usage: JSON) -> JSONObject | None:
    if not isinstance(usage, dict):
        return None
    return build_usage(
        usage,
        prompt=sum_numbers(usage, "input_tokens"),
        completion=sum_numbers(usage, "output_tokens"),
        total=sum_numbers(usage, "total_tokens"),
        cached=as_object(usage.get("input_tokens_details")).get("cached_tokens"),
        reasoning=as_object(usage.get("output_tokens_details")).get("reasoning_tokens"),
    )


def encode_response(unified: JSONObject) -> JSONObject:
    """The response object that decodes to this unified response."""
    (choice,) = list_objects(unified["choices"])
    extra = provider_fields(unified)
    body: JSONObject = {"id": unified.get("id"), "object": "response", "created_at": unified.get("created")}
    body["model"] = unified.get("model")
    status = choice.get("provider_finish_reason", "completed")
    if status is not None:
        body["status"] = status
    incomplete_reason = _INCOMPLETE_REASONS.get(as_text(choice.get("finish_reason")))
    if incomplete_reason and "provider_finish_reason" not in choice:
        body["status"] = "incomplete"
        body["incomplete_details"] = {"reason": incomplete_reason}
    body["output"] = _items(as_object(choice["message"]), as_text(unified.get("id")))
    usage = unified.get("usage")
    if isinstance(usage, dict):
        body["usage"] = usage.get("provider") or {
            "input_tokens": usage.get("prompt_tokens"),
            "output_tokens": usage.get("completion_tokens"),
            "total_tokens": usage.get("total_tokens"),
        }
    return {**body, **extra}


def _items(message: JSONObject, answer_id: str) -> JSON:
    if "parts" in message:
        return message["parts"]
    items: list[JSON] = []
    content: list[JSON] = []
    if message.get("reasoning"):
        summary: JSONObject = {"type": "summary_text", "text": message["reasoning"]}
        items.append({"id": f"rs_{answer_id}", "type": "reasoning", "summary": [summary]})
    if message.get("content") is not None:
        content.append({"type": "output_text", "text": message["content"], "annotations": []})
    if message.get("refusal") is not None:
        content.append({"type": "refusal", "refusal": message["refusal"]})
    if content:
        items.append(
            {
                "id": f"msg_{answer_id}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    for number, call in enumerate(list_objects(message.get("tool_calls"))):
        items.append(_call_item(call, f"fc_{answer_id}_{number}"))
    return items


def _call_item(call: JSONObject, item_id: str) -> JSONObject:
    item: JSONObject = {"id": item_id, "status": "completed", "call_id": call.get("id")}
    if "custom" in call:
        custom = as_object(call["custom"])
        return {**item, "type": "custom_tool_call", "name": custom.get("name"), "input": custom.get("input")}
    function = as_object(call.get("function"))
    return {**item, "type": "function_call", "name": function.get("name"), "arguments": function.get("arguments")}


class ResponseAssembler(StreamAssembler):
    """Puts a response together from its events.

    The terminal event carries the whole answer, but not with every server, and not when the stream is cut; so the
    items are also built from their deltas.
    """

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[int, JSONObject] = {}

    def add_event(self, event: JSONObject, name: str = "") -> None:
        kind = as_text(event.get("type")) or name
        if kind == "response.created" and self.body:
            self.count_unknown("second response.created")  # Two answers in one call: the last one counts.
            self.body, self.items = {}, {}
        if isinstance(event.get("response"), dict):
            self.body = {**self.body, **cast("JSONObject", event["response"])}
            if kind in _TERMINAL:
                self.is_complete = True
                self.has_failed = kind == "response.failed"
        elif kind == "error":
            self.add_error(event.get("error") or without_fields(event, ("type", "sequence_number")))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self.items[self._index(event, "output_index")] = dict(as_object(event.get("item")))
        elif not self._add_part(kind, event):
            self.count_unknown(kind)

    def _add_part(self, kind: str, event: JSONObject) -> bool:
        item = self.items.setdefault(self._index(event, "output_index"), {})
        if kind in ("response.content_part.added", "response.content_part.done"):
            _set_part(item, "content", self._index(event, "content_index"), as_object(event.get("part")))
        elif kind in ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"):
            _set_part(item, "summary", self._index(event, "summary_index"), as_object(event.get("part")))
        elif kind == "response.output_text.annotation.added":
            part = _part(item, "content", self._index(event, "content_index"))
            part["annotations"] = append_item(part.get("annotations"), event.get("annotation"))
        elif kind in _DELTAS:
            target, field = self._target(item, event, kind)
            target[field] = append_delta(target.get(field), event.get("delta"))
            if event.get("logprobs"):
                target["logprobs"] = append_delta(target.get("logprobs"), event["logprobs"])
        elif kind.removesuffix(".done") + ".delta" in _DELTAS:
            target, field = self._target(item, event, kind.removesuffix(".done") + ".delta")
            if event.get(field) is not None:
                target[field] = event[field]
        elif kind.rpartition(".")[2] not in _PROGRESS:
            return False
        return True

    def _target(self, item: JSONObject, event: JSONObject, kind: str) -> tuple[JSONObject, str]:
        holder, index, part, field = _DELTAS[kind]
        return (_part(item, holder, self._index(event, index), part) if holder else item), field

    def _index(self, event: JSONObject, name: str) -> int:
        value = event.get(name)
        return value if isinstance(value, int) and value >= 0 else 0

    def finish(self) -> JSONObject:
        """The response, as far as it came."""
        items = [self.items[place] for place in sorted(self.items) if self.items[place]]
        if items and not self.body.get("output"):
            self.body["output"] = cast("list[JSON]", items)
        return self.body


_PLACE_MAX = 10_000  # No item has more parts; a larger number would be filled up to there.
# Where a delta belongs: the list that holds its part, the part's number and type, and the field that grows.
_DELTAS = {
    "response.output_text.delta": ("content", "content_index", "output_text", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "summary_text", "text"),
    "response.function_call_arguments.delta": ("", "", "", "arguments"),
    "response.mcp_call_arguments.delta": ("", "", "", "arguments"),
    "response.custom_tool_call_input.delta": ("", "", "", "input"),
    "response.code_interpreter_call_code.delta": ("", "", "", "code"),
}
_PROGRESS = {
    "in_progress",
    "completed",
    "searching",
    "interpreting",
    "generating",
    "failed",
    "partial_image",
    "queued",
    "keepalive",
}


def _part(item: JSONObject, holder: str, place: int, kind: str = "") -> JSONObject:
    """The part at this place, created if it is missing; without an announcing event, it gets its type here."""
    parts = item.setdefault(holder, [])
    if not isinstance(parts, list):
        parts = item[holder] = []
    while len(parts) <= min(place, _PLACE_MAX):
        parts.append({})
    part = parts[min(place, _PLACE_MAX)]
    if not isinstance(part, dict):
        part = parts[min(place, _PLACE_MAX)] = {}
    if kind:
        part.setdefault("type", kind)
    return part


def _set_part(item: JSONObject, holder: str, place: int, part: JSONObject) -> None:
    _part(item, holder, place)
    cast("list[JSON]", item[holder])[min(place, _PLACE_MAX)] = dict(part)


new_assembler = ResponseAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """The events of a stream that assembles to this response."""
    body = encode_response(unified)
    opening: JSONObject = {**body, **({"status": "in_progress"} if "status" in body else {}), "output": []}
    events: list[JSONObject] = [{"type": "response.created", "response": without_fields(opening, ("usage",))}]
    for place, item in enumerate(list_objects(body["output"])):
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    status = body.get("status")
    kind = f"response.{status}" if f"response.{status}" in _TERMINAL else "response.completed"
    events.append({"type": kind, "response": body})
    return [sse_frame({**event, "sequence_number": n}, as_text(event["type"])) for n, event in enumerate(events)]
