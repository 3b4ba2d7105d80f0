"""Anthropic: messages, and the legacy text completions.

In: bodies and events of `/v1/messages`, also at Vertex and Azure. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_ANYTHING,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, append_item, sse_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_message,
    build_response,
    build_tool_call,
    build_usage,
    json_text,
    list_objects,
    parse_or_keep,
    provider_fields,
    sum_numbers,
    token_counts,
    without_fields,
)

DIALECT = DialectDeclaration(
    name="anthropic",
    endpoints=(
        EndpointPath(r"/messages/?", EndpointKind.MESSAGES, rank=1),
        EndpointPath(r"/v1/complete/?", EndpointKind.COMPLETIONS, AFTER_ANYTHING),
        EndpointPath(  # Vertex
            r"/publishers/anthropic/models/(?P<model>(?!count-tokens)[^/]+):(?:r|streamR)awPredict",
            EndpointKind.MESSAGES,
            AFTER_ANYTHING,
        ),
    ),
    hosts=("api.anthropic.com",),
    api_key=KeyHeader(("ANTHROPIC_API_KEY",), "x-api-key"),
    base_path=r"/v1/(?:messages|complete)/?\Z",
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
    unified = without_fields(body, ("messages", "system", "stop_sequences", "tools", "tool_choice"))
    unified["messages"] = [
        *_system(body.get("system")),
        *(m for item in list_objects(body.get("messages")) for m in _message(item)),
    ]
    if "stop_sequences" in body:
        unified["stop"] = body["stop_sequences"]
    if "tools" in body:
        unified["tools"] = [_tool(tool) for tool in list_objects(body["tools"])]
    if "tool_choice" in body:
        unified["tool_choice"] = _tool_choice(body["tool_choice"])
    return unified


def _system(system: JSON) -> list[JSON]:
    return [] if system is None else [{"role": "system", "content": system}]


def _message(item: JSONObject) -> list[JSONObject]:
    """One Anthropic message becomes one unified message, plus one for each tool result in it."""
    content = item.get("content")
    if not isinstance(content, list):
        return [item]
    blocks = list_objects(content)
    results: list[JSONObject] = [
        {
            "role": "tool",
            "tool_call_id": block.get("tool_use_id"),
            "content": block.get("content"),
            **without_fields(block, _RESULT_FIELDS),
        }
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    tool_calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    other_blocks: list[JSON] = [
        block for block in content if as_object(block).get("type") not in ("tool_result", "tool_use")
    ]
    if not other_blocks and not tool_calls:
        return results
    message: JSONObject = {**item, "content": other_blocks}
    if tool_calls:
        message["tool_calls"] = cast("list[JSON]", tool_calls)
    return [*results, message]


_RESULT_FIELDS = ("type", "tool_use_id", "content")


def _tool(tool: JSONObject) -> JSON:
    if "input_schema" not in tool:
        return tool  # a server tool: the provider's own
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    extra = without_fields(tool, ("name", "description", "input_schema", "type"))
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}, **extra}


def _tool_choice(choice: JSON) -> JSON:
    kind = as_object(choice).get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": as_object(choice).get("name")}}
    return {"auto": "auto", "any": "required", "none": "none"}.get(as_text(kind), choice)


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of a message, or of a legacy completion."""
    if "completion" in body:
        return _decode_completion(body)
    blocks = body.get("content")
    content_blocks = list_objects(blocks)
    texts = [as_text(block.get("text")) for block in content_blocks if block.get("type") == "text"]
    message = build_message(
        content="".join(texts) if texts else None,
        reasoning="".join(
            as_text(block.get("thinking")) for block in content_blocks if block.get("type") == "thinking"
        ),
        tool_calls=[_call(block) for block in content_blocks if block.get("type") == "tool_use"],
        parts=None,
    )
    if _blocks(message) != blocks:
        message["parts"] = blocks
    choice: JSONObject = {"index": 0, "message": message, **_finish(body.get("stop_reason"))}
    return build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=_usage(body.get("usage")),
        extra=without_fields(body, _BODY_FIELDS),
    )


def _decode_completion(body: JSONObject) -> JSONObject:
    choice: JSONObject = {"index": 0, "text": body["completion"], **_finish(body.get("stop_reason"))}
    extra = without_fields(body, ("completion", "stop_reason", "type", "id", "model"))
    unified = build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=None,
        extra=extra,
    )
    return {**unified, "object": "text_completion"}


def _call(block: JSONObject) -> JSONObject:
    return build_tool_call(block.get("id"), block.get("name"), block.get("input"))


def _finish(reason: JSON) -> JSONObject:
    return {"finish_reason": FINISH_REASONS.get(as_text(reason), reason), "provider_finish_reason": reason}


def _usage(usage: JSON) -> JSONObject | None:
    if not isinstance(usage, dict):
        return None
    return build_usage(
        usage,
        prompt=sum_numbers(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        completion=sum_numbers(usage, "output_tokens"),
        cached=usage.get("cache_read_input_tokens"),
        cache_write=usage.get("cache_creation_input_tokens"),
    )


def encode_response(unified: JSONObject) -> JSONObject:
    """The message that decodes to this unified response."""
    (choice,) = list_objects(unified["choices"])
    extra = provider_fields(unified)
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
    body["content"] = _blocks(as_object(choice["message"]))
    body["stop_reason"] = _reason(choice)
    usage = unified.get("usage")
    if isinstance(usage, dict):
        body["usage"] = usage.get("provider") or dict(zip(_COUNTS, token_counts(usage), strict=True))
    return {**body, **extra}


def _reason(choice: JSONObject) -> JSON:
    if "provider_finish_reason" in choice:
        return choice["provider_finish_reason"]
    native_reasons = {mapped: reason for reason, mapped in reversed(FINISH_REASONS.items())}
    return native_reasons.get(as_text(choice.get("finish_reason")), choice.get("finish_reason"))


def _blocks(message: JSONObject) -> JSON:
    if "parts" in message:
        return message["parts"]
    blocks: list[JSON] = []
    if message.get("reasoning"):
        blocks.append({"type": "thinking", "thinking": message["reasoning"], "signature": ""})
    if message.get("content") is not None:
        blocks.append({"type": "text", "text": message["content"]})
    for call in list_objects(message.get("tool_calls")):
        function = as_object(call.get("function"))
        blocks.append(
            {
                "type": "tool_use",
                "id": call.get("id"),
                "name": function.get("name"),
                "input": parse_or_keep(function.get("arguments")),
            }
        )
    return blocks


class MessageAssembler(StreamAssembler):
    """Puts a message together from its events."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, JSONObject] = {}
        self._inputs: dict[int, list[str]] = {}

    def add_event(self, event: JSONObject, name: str = "") -> None:
        kind = event.get("type") or name
        if kind == "message_start":
            self._start(as_object(event.get("message")))
        elif kind == "content_block_start":
            self._blocks[self._index(event)] = dict(as_object(event.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(self._index(event), as_object(event.get("delta")))
        elif kind == "content_block_stop":
            self._stop(self._index(event))
        elif kind == "message_delta":
            self.body.update(as_object(event.get("delta")))
            self.body.update(without_fields(event, ("type", "delta", "usage")))
            usage = as_object(self.body.get("usage"))
            reported = {n: v for n, v in as_object(event.get("usage")).items() if v is not None or n not in usage}
            self.body["usage"] = {**usage, **reported}
        elif kind == "message_stop":
            self.is_complete = True
        elif kind == "error":
            self.add_error(event.get("error"))
        elif kind == "completion" or "completion" in event:
            self._completion(event)
        elif kind != "ping":
            self.count_unknown(str(kind))

    def _start(self, message: JSONObject) -> None:
        """A message begins, with content that is already there where a tool's code goes on calling."""
        if self.body and message.get("id") == self.body.get("id"):
            return  # the same message, announced twice
        if self.body:
            self.count_unknown("second message_start")  # Two answers in one call: the last one counts.
        self.body.update(message)
        self._blocks = {place: dict(block) for place, block in enumerate(list_objects(message.get("content")))}
        self._inputs = {}

    def _index(self, event: JSONObject) -> int:
        index = event.get("index")
        return index if isinstance(index, int) else 0

    def _delta(self, index: int, delta: JSONObject) -> None:
        block = self._blocks.setdefault(index, {})
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._inputs.setdefault(index, []).append(as_text(delta.get("partial_json")))
        elif kind == "citations_delta":
            block["citations"] = append_item(block.get("citations"), delta.get("citation"))
        elif kind in ("text_delta", "thinking_delta", "signature_delta", "compaction_delta"):
            for name, value in without_fields(delta, ("type",)).items():
                block[name] = append_delta(block.get(name), value)
        else:
            self.count_unknown(str(kind))
            for name, value in without_fields(delta, ("type",)).items():
                block[name] = append_delta(block.get(name), value)

    def _stop(self, index: int) -> None:
        input_text = "".join(self._inputs.pop(index, []))
        if input_text and index in self._blocks:
            self._blocks[index]["input"] = parse_or_keep(input_text)

    def _completion(self, event: JSONObject) -> None:
        completion = as_text(self.body.get("completion")) + as_text(event.get("completion"))
        self.body.update(event)
        self.body["completion"] = completion
        self.is_complete = self.is_complete or event.get("stop_reason") is not None

    def finish(self) -> JSONObject:
        """The message, as far as it came."""
        for index in list(self._inputs):
            self._stop(index)
        if "completion" not in self.body:
            self.body["content"] = [self._blocks[index] for index in sorted(self._blocks)]
        return self.body


new_assembler = MessageAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """The events of a stream that assembles to this response."""
    body = encode_response(unified)
    if "completion" in body:
        return [sse_frame(body, "completion")]
    blocks = list_objects(body["content"])
    ending = {
        "stop_reason": body["stop_reason"],
        **({"stop_sequence": body["stop_sequence"]} if "stop_sequence" in body else {}),
    }
    start: JSONObject = {**without_fields(body, ("stop_reason", "stop_sequence")), "content": [], "stop_reason": None}
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
        tool_input = block.get("input")
        return [
            {
                "type": "input_json_delta",
                "partial_json": tool_input if isinstance(tool_input, str) else json_text(tool_input),
            }
        ]
    return []
