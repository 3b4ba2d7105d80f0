"""Anthropic: messages, and the legacy text completions.

In: bodies and events of `/v1/messages`. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.stream_assembly import Assembly, Frame, concat, sse_frame
from traceforge.wire.unified import (
    counts,
    json_text,
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

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_COUNTS = ("input_tokens", "output_tokens")
_BODY_FIELDS = ("id", "model", "content", "stop_reason", "usage", "type", "role")


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request of a messages call; what has no OpenAI name keeps its own."""
    if "prompt" in body:
        return dict(body)  # a legacy completion
    unified = without(body, ("messages", "system", "stop_sequences", "tools", "tool_choice"))
    unified["messages"] = [
        *_system(body.get("system")),
        *(m for item in objects(body.get("messages")) for m in _message(item)),
    ]
    if "stop_sequences" in body:
        unified["stop"] = body["stop_sequences"]
    if "tools" in body:
        unified["tools"] = [_tool(tool) for tool in objects(body["tools"])]
    if "tool_choice" in body:
        unified["tool_choice"] = _tool_choice(body["tool_choice"])
    return unified


def _system(system: JSON) -> list[JSON]:
    return [] if system is None else [{"role": "system", "content": system}]


def _message(item: JSONObject) -> list[JSONObject]:
    """One Anthropic message is one of ours, and one more for each tool result in it."""
    content = item.get("content")
    if not isinstance(content, list):
        return [item]
    blocks = objects(content)
    results: list[JSONObject] = [
        {
            "role": "tool",
            "tool_call_id": block.get("tool_use_id"),
            "content": block.get("content"),
            **without(block, _RESULT),
        }
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    rest: list[JSON] = [block for block in content if obj(block).get("type") not in ("tool_result", "tool_use")]
    if not rest and not calls:
        return results
    built: JSONObject = {**item, "content": rest}
    if calls:
        built["tool_calls"] = cast("list[JSON]", calls)
    return [*results, built]


_RESULT = ("type", "tool_use_id", "content")


def _tool(tool: JSONObject) -> JSON:
    if "input_schema" not in tool:
        return tool  # a server tool: the provider's own
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    extra = without(tool, ("name", "description", "input_schema", "type"))
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}, **extra}


def _tool_choice(choice: JSON) -> JSON:
    kind = obj(choice).get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": obj(choice).get("name")}}
    return {"auto": "auto", "any": "required", "none": "none"}.get(text_of(kind), choice)


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of a message, or of a legacy completion."""
    if "completion" in body:
        return _decode_completion(body)
    blocks = body.get("content")
    listed = objects(blocks)
    texts = [text_of(block.get("text")) for block in listed if block.get("type") == "text"]
    built = message(
        content="".join(texts) if texts else None,
        reasoning="".join(text_of(block.get("thinking")) for block in listed if block.get("type") == "thinking"),
        tool_calls=[_call(block) for block in listed if block.get("type") == "tool_use"],
        parts=None,
    )
    if _blocks(built) != blocks:
        built["parts"] = blocks
    choice: JSONObject = {"index": 0, "message": built, **_finish(body.get("stop_reason"))}
    return response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=_usage(body.get("usage")),
        extra=without(body, _BODY_FIELDS),
    )


def _decode_completion(body: JSONObject) -> JSONObject:
    choice: JSONObject = {"index": 0, "text": body["completion"], **_finish(body.get("stop_reason"))}
    extra = without(body, ("completion", "stop_reason", "type", "id", "model"))
    unified = response(
        answer_id=body.get("id"), model=body.get("model"), created=None, choices=[choice], usage=None, extra=extra
    )
    return {**unified, "object": "text_completion"}


def _call(block: JSONObject) -> JSONObject:
    return tool_call(block.get("id"), block.get("name"), block.get("input"))


def _finish(reason: JSON) -> JSONObject:
    return {"finish_reason": FINISH_REASONS.get(text_of(reason), reason), "provider_finish_reason": reason}


def _usage(given: JSON) -> JSONObject | None:
    if not isinstance(given, dict):
        return None
    return usage(
        given,
        prompt=numbers(given, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        completion=numbers(given, "output_tokens"),
        cached=given.get("cache_read_input_tokens"),
        cache_write=given.get("cache_creation_input_tokens"),
    )


def encode_response(unified: JSONObject) -> JSONObject:
    """The message that decodes to this unified response."""
    (choice,) = objects(unified["choices"])
    extra = without(unified, ("id", "object", "created", "model", "choices", "usage"))
    if "text" in choice:
        return {
            "type": "completion",
            "id": unified.get("id"),
            "completion": choice["text"],
            "stop_reason": _reason(choice),
            "model": unified.get("model"),
            **extra,
        }
    body: JSONObject = {
        "id": unified.get("id"),
        "type": "message",
        "role": "assistant",
        "model": unified.get("model"),
    }
    body["content"] = _blocks(obj(choice["message"]))
    body["stop_reason"] = _reason(choice)
    given = unified.get("usage")
    if isinstance(given, dict):
        body["usage"] = given.get("provider") or dict(zip(_COUNTS, counts(given), strict=True))
    return {**body, **extra}


def _reason(choice: JSONObject) -> JSON:
    if "provider_finish_reason" in choice:
        return choice["provider_finish_reason"]
    back = {mapped: reason for reason, mapped in reversed(FINISH_REASONS.items())}
    return back.get(text_of(choice.get("finish_reason")), choice.get("finish_reason"))


def _blocks(built: JSONObject) -> JSON:
    if "parts" in built:
        return built["parts"]
    blocks: list[JSON] = []
    if built.get("reasoning"):
        blocks.append({"type": "thinking", "thinking": built["reasoning"], "signature": ""})
    if built.get("content") is not None:
        blocks.append({"type": "text", "text": built["content"]})
    for call in objects(built.get("tool_calls")):
        function = obj(call.get("function"))
        blocks.append(
            {
                "type": "tool_use",
                "id": call.get("id"),
                "name": function.get("name"),
                "input": parsed(function.get("arguments")),
            }
        )
    return blocks


class MessageAssembly(Assembly):
    """Puts a message together from its events."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, JSONObject] = {}
        self._inputs: dict[int, list[str]] = {}

    def take(self, event: JSONObject, name: str = "") -> None:
        """Take one event."""
        kind = event.get("type") or name
        if kind == "message_start":
            self._start(obj(event.get("message")))
        elif kind == "content_block_start":
            self._blocks[self._index(event)] = dict(obj(event.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(self._index(event), obj(event.get("delta")))
        elif kind == "content_block_stop":
            self._stop(self._index(event))
        elif kind == "message_delta":
            self.body.update(obj(event.get("delta")))
            self.body.update(without(event, ("type", "delta", "usage")))
            counted = obj(self.body.get("usage"))
            told = {n: v for n, v in obj(event.get("usage")).items() if v is not None or n not in counted}
            self.body["usage"] = {**counted, **told}
        elif kind == "message_stop":
            self.complete = True
        elif kind == "error":
            self.fail(event.get("error"))
        elif kind == "completion" or "completion" in event:
            self._completion(event)
        elif kind != "ping":
            self.unknown(str(kind))

    def _start(self, begun: JSONObject) -> None:
        """A message begins, with content that is already there where a tool's code goes on calling."""
        if self.body and begun.get("id") == self.body.get("id"):
            return  # the same one, said twice
        if self.body:
            self.unknown("second message_start")  # Two answers under one call: the last one stands.
        self.body.update(begun)
        self._blocks = {place: dict(block) for place, block in enumerate(objects(begun.get("content")))}
        self._inputs = {}

    def _index(self, event: JSONObject) -> int:
        index = event.get("index")
        return index if isinstance(index, int) else 0

    def _delta(self, index: int, delta: JSONObject) -> None:
        block = self._blocks.setdefault(index, {})
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(text_of(delta.get("partial_json")))
        elif kind == "citations_delta":
            block["citations"] = [*objects(block.get("citations")), delta.get("citation")]
        elif kind in ("text_delta", "thinking_delta", "signature_delta", "compaction_delta"):
            for name, value in without(delta, ("type",)).items():
                block[name] = concat(block.get(name), value)
        else:
            self.unknown(str(kind))
            for name, value in without(delta, ("type",)).items():
                block[name] = concat(block.get(name), value)

    def _stop(self, index: int) -> None:
        written = "".join(self._inputs.pop(index, []))
        if written and index in self._blocks:
            self._blocks[index]["input"] = parsed(written)

    def _completion(self, event: JSONObject) -> None:
        written = text_of(self.body.get("completion")) + text_of(event.get("completion"))
        self.body.update(event)
        self.body["completion"] = written
        self.complete = self.complete or event.get("stop_reason") is not None

    def finish(self) -> JSONObject:
        """The message, as far as it came."""
        for index in list(self._inputs):
            self._stop(index)
        if "completion" not in self.body:
            self.body["content"] = [self._blocks[index] for index in sorted(self._blocks)]
        return self.body


new_assembly = MessageAssembly


def encode_stream(unified: JSONObject) -> list[Frame]:
    """The events of a stream that assembles to this response."""
    body = encode_response(unified)
    if "completion" in body:
        return [sse_frame(body, "completion")]
    blocks = objects(body["content"])
    ending = {
        "stop_reason": body["stop_reason"],
        **({"stop_sequence": body["stop_sequence"]} if "stop_sequence" in body else {}),
    }
    start: JSONObject = {**without(body, ("stop_reason", "stop_sequence")), "content": [], "stop_reason": None}
    frames = [sse_frame({"type": "message_start", "message": start}, "message_start")]
    for index, block in enumerate(blocks):
        frames.append(
            sse_frame(
                {"type": "content_block_start", "index": index, "content_block": _opening(block)},
                "content_block_start",
            )
        )
        frames += [
            sse_frame({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            for delta in _deltas(block)
        ]
        frames.append(sse_frame({"type": "content_block_stop", "index": index}, "content_block_stop"))
    closing: JSONObject = {"type": "message_delta", "delta": cast("JSON", ending)}
    if "usage" in body:
        closing["usage"] = body["usage"]
    return [*frames, sse_frame(closing, "message_delta"), sse_frame({"type": "message_stop"}, "message_stop")]


def _opening(block: JSONObject) -> JSONObject:
    if block.get("type") == "text":
        return {**block, "text": ""}
    if block.get("type") == "thinking":
        return {**block, "thinking": "", **({"signature": ""} if "signature" in block else {})}
    if block.get("type") == "tool_use":
        return {**block, "input": {}}
    return block


def _deltas(block: JSONObject) -> list[JSONObject]:
    if block.get("type") == "text":
        return [{"type": "text_delta", "text": block.get("text")}]
    if block.get("type") == "thinking":
        deltas: list[JSONObject] = [{"type": "thinking_delta", "thinking": block.get("thinking")}]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return deltas
    if block.get("type") == "tool_use":
        given = block.get("input")
        return [{"type": "input_json_delta", "partial_json": given if isinstance(given, str) else json_text(given)}]
    return []
