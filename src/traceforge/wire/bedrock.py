"""Amazon Bedrock: Converse, and its stream; the other calls of a model are in `bedrock_invoke`.

In: bodies and events of `/model/ID/converse` and `/converse-stream`. Out: the unified view, and back. Never: I/O.

A model is named by its id, by an inference profile, or by the ARN of one: then the account is in the path. A stream
comes in frames (`binary_frames`), each with one event; the events of Nova under InvokeModel are the same.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.wire.binary_frames import Frame, write_headers
from traceforge.wire.dialect_declaration import (
    BodyFraming,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
)
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, append_item
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_choice,
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

# An ARN has `/` in it, and may come with it as it is, or as `%2F`.
_MODEL = r"/model/(?P<model>[^/]+|arn:[^/]*(?:/[^/]+){1,3})"
_EMBEDDING_MODEL = r"/model/(?P<model>(?:[^/]*/)?[^/]*embed[^/]*)"
_RERANK_MODEL = r"/model/(?P<model>(?:[^/]*/)?[^/]*rerank[^/]*)"
_INVOKE = r"/invoke(?:-with-response-stream)?/?"
DIALECT = DialectDeclaration(
    name="bedrock",
    endpoints=(
        EndpointPath(rf"{_MODEL}/converse(?:-stream)?/?", EndpointKind.CHAT),
        EndpointPath(
            rf"{_EMBEDDING_MODEL}{_INVOKE}", EndpointKind.EMBEDDINGS, codec="traceforge.wire.bedrock_invoke"
        ),
        EndpointPath(rf"{_RERANK_MODEL}{_INVOKE}", EndpointKind.RERANK, codec="traceforge.wire.bedrock_invoke"),
        EndpointPath(rf"{_MODEL}{_INVOKE}", EndpointKind.GENERATE, codec="traceforge.wire.bedrock_invoke"),
    ),
    host_patterns=(
        "bedrock-runtime.*.amazonaws.com", "bedrock-runtime.*.amazonaws.com.cn", "bedrock-runtime.*.api.aws",
        "bedrock-runtime-fips.*.amazonaws.com", "bedrock-runtime-fips.*.api.aws",
        "*.bedrock-runtime.*.vpce.amazonaws.com", "*.bedrock-runtime-fips.*.vpce.amazonaws.com",
        "bedrock-mantle.*.api.aws",
    ),
    framing=BodyFraming.FRAMES,
)  # fmt: skip

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
_NATIVE_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
                   "content_filter": "content_filtered"}  # fmt: skip
_PARAMETERS = {"maxTokens": "max_tokens", "temperature": "temperature", "topP": "top_p", "stopSequences": "stop"}
_RESPONSE_FIELDS = ("output", "stopReason", "usage")


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request of Converse; what has no name of OpenAI's keeps its own."""
    unified = without_fields(body, ("messages", "system", "inferenceConfig", "toolConfig"))
    system = body.get("system")
    messages: list[JSON] = [] if system is None else [{"role": "system", "content": system}]
    for item in list_objects(body.get("messages")):
        messages += _message(item)
    unified["messages"] = messages
    for name, value in as_object(body.get("inferenceConfig")).items():
        unified[_PARAMETERS.get(name, name)] = value
    tools = as_object(body.get("toolConfig"))
    if "tools" in tools:
        unified["tools"] = [_tool(tool) for tool in list_objects(tools["tools"])]
    if "toolChoice" in tools:
        unified["tool_choice"] = _tool_choice(tools["toolChoice"])
    return {**unified, **without_fields(tools, ("tools", "toolChoice"))}


def _message(item: JSONObject) -> list[JSONObject]:
    """A message becomes one of the view, and one more for each tool result in it."""
    content = item.get("content")
    if not isinstance(content, list):
        return [item]
    results: list[JSONObject] = []
    calls: list[JSON] = []
    others: list[JSON] = []
    for block in content:
        members = as_object(block)
        if isinstance(members.get("toolResult"), dict):
            result = as_object(members["toolResult"])
            extra = without_fields(result, ("toolUseId", "content"))
            tool_call_id, result_content = result.get("toolUseId"), result.get("content")
            results.append({"role": "tool", "tool_call_id": tool_call_id, "content": result_content, **extra})
        elif isinstance(members.get("toolUse"), dict):
            calls.append(_call(as_object(members["toolUse"])))
        else:
            others.append(block)
    if not others and not calls and results:
        return results
    message: JSONObject = {**item, "content": others}
    return [*results, {**message, "tool_calls": calls} if calls else message]


def _call(use: JSONObject) -> JSONObject:
    return build_tool_call(use.get("toolUseId"), use.get("name"), use.get("input"))


def _tool(tool: JSONObject) -> JSON:
    specification = as_object(tool.get("toolSpec"))
    if not specification:
        return tool  # a cache point, or a tool of the provider
    schema = as_object(specification.get("inputSchema"))
    function: JSONObject = {"name": specification.get("name"), "parameters": schema.get("json", schema)}
    extra = without_fields(specification, ("name", "inputSchema"))
    return {"type": "function", "function": {**extra, **function}, **without_fields(tool, ("toolSpec",))}


def _tool_choice(choice: JSON) -> JSON:
    members = as_object(choice)
    if "tool" in members:
        return {"type": "function", "function": {"name": as_object(members["tool"]).get("name")}}
    return "auto" if "auto" in members else "required" if "any" in members else choice


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of Converse."""
    native_message = as_object(as_object(body.get("output")).get("message"))
    blocks = list_objects(native_message.get("content"))
    texts = [as_text(block["text"]) for block in blocks if "text" in block]
    thoughts = [as_object(as_object(block.get("reasoningContent")).get("reasoningText")) for block in blocks]
    message = build_message(
        content="".join(texts) if texts else None,
        reasoning="".join(as_text(thought.get("text")) for thought in thoughts),
        tool_calls=[_call(as_object(block["toolUse"])) for block in blocks if isinstance(block.get("toolUse"), dict)],
        parts=None,
    )
    if _native_message(message) != native_message:
        message["parts"] = native_message
    usage = body.get("usage")
    return build_response(
        answer_id=None,
        model=body.get("model"),
        created=None,
        choices=[build_choice(message, body.get("stopReason"), FINISH_REASONS)],
        usage=_usage(usage) if isinstance(usage, dict) else None,
        extra=without_fields(body, _RESPONSE_FIELDS),
    )


def _usage(native: JSONObject) -> JSONObject:
    return build_usage(
        native,
        prompt=sum_numbers(native, "inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
        completion=sum_numbers(native, "outputTokens"),
        total=sum_numbers(native, "totalTokens"),
        cached=native.get("cacheReadInputTokens"),
        cache_write=native.get("cacheWriteInputTokens"),
    )


def _native_message(message: JSONObject) -> JSON:
    if "parts" in message:
        return message["parts"]
    content: list[JSON] = []
    if message.get("reasoning"):
        content.append({"reasoningContent": {"reasoningText": {"text": message["reasoning"]}}})
    if message.get("content") is not None:
        content.append({"text": message["content"]})
    for call in list_objects(message.get("tool_calls")):
        function = as_object(call.get("function"))
        tool_input = parse_or_keep(function.get("arguments"))
        use: JSONObject = {"toolUseId": call.get("id"), "name": function.get("name"), "input": tool_input}
        content.append({"toolUse": use})
    return {"role": "assistant", "content": content}


def encode_response(unified: JSONObject) -> JSONObject:
    """The body of Converse that decodes to this unified response."""
    (choice,) = list_objects(unified["choices"])
    reason = choice.get("finish_reason")
    body: JSONObject = {"output": {"message": _native_message(as_object(choice.get("message")))}}
    body["stopReason"] = choice.get("provider_finish_reason", _NATIVE_REASONS.get(as_text(reason), reason))
    usage = unified.get("usage")
    if isinstance(usage, dict):
        prompt, completion = token_counts(usage)
        body["usage"] = usage.get("provider") or {"inputTokens": prompt, "outputTokens": completion}
    if unified.get("model") is not None:
        body["model"] = unified["model"]
    return {**body, **provider_fields(unified)}


class ConverseAssembler(StreamAssembler):
    """Puts an answer together from its events."""

    def __init__(self) -> None:
        super().__init__()
        self._role: JSON = None
        self._blocks: dict[int, JSONObject] = {}
        self._inputs: dict[int, list[str]] = {}

    def add_event(self, event: JSONObject, name: str = "") -> None:
        kind, _, reason = name.partition(":")
        if reason:
            self.add_error({"type": reason, **event})
        elif kind == "messageStart":
            self._role = event.get("role")
        elif kind == "contentBlockStart":
            self._start_block(_index(event), as_object(event.get("start")))
        elif kind == "contentBlockDelta":
            self._add_delta(_index(event), as_object(event.get("delta")))
        elif kind == "messageStop":
            self.is_complete = True
            self.body.update(without_fields(event, ("p",)))
        elif kind == "metadata":
            self.body.update(without_fields(event, ("p",)))
        elif kind != "contentBlockStop":
            self.count_unknown(name or "frame without a name")

    def _start_block(self, index: int, start: JSONObject) -> None:
        for name, value in start.items():
            self._blocks.setdefault(index, {})[name] = {"input": {}, **value} if isinstance(value, dict) else value

    def _add_delta(self, index: int, delta: JSONObject) -> None:
        block = self._blocks.setdefault(index, {})
        for name, value in delta.items():
            if name == "toolUse":
                self._inputs.setdefault(index, []).append(as_text(as_object(value).get("input")))
            elif name == "reasoningContent":
                block[name] = _append_reasoning(as_object(block.get(name)), as_object(value))
            elif name == "citation":
                block["citations"] = append_item(block.get("citations"), value)
            else:
                block[name] = append_delta(block.get(name), value)

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        for index, pieces in self._inputs.items():
            use = as_object(self._blocks[index].get("toolUse"))
            text = "".join(pieces)
            self._blocks[index]["toolUse"] = {**use, "input": parse_or_keep(text) if text else {}}
        self._inputs = {}
        if self._role is None and not self._blocks:
            return self.body
        content: list[JSON] = [self._blocks[index] for index in sorted(self._blocks)]
        return {"output": {"message": {"role": self._role or "assistant", "content": content}}, **self.body}


def _index(event: JSONObject) -> int:
    index = event.get("contentBlockIndex")
    return index if isinstance(index, int) else 0


def _append_reasoning(before: JSONObject, delta: JSONObject) -> JSONObject:
    """A thought as Converse has it in a body: its text and its signature are in one object."""
    thought = as_object(before.get("reasoningText"))
    for name, value in delta.items():
        if name in ("text", "signature"):
            thought = {**thought, name: append_delta(thought.get(name), value)}
        else:
            before = {**before, name: append_delta(before.get(name), value)}
    return {**before, "reasoningText": thought} if thought else before


new_assembler = ConverseAssembler


def encode_event(name: str, value: JSONObject) -> StreamFrame:
    """The frame of one event."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return StreamFrame(Frame(write_headers(headers), json_bytes(value)).encode())


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """The frames of a stream that assembles to this response."""
    body = encode_response(unified)
    message = as_object(as_object(body["output"]).get("message"))
    frames = [encode_event("messageStart", {"role": message.get("role")})]
    for index, block in enumerate(list_objects(message.get("content"))):
        start, deltas = _divide(block)
        at: JSONObject = {"contentBlockIndex": index}
        if start:
            frames.append(encode_event("contentBlockStart", {**at, "start": start}))
        frames += [encode_event("contentBlockDelta", {**at, "delta": delta}) for delta in deltas]
        frames.append(encode_event("contentBlockStop", at))
    ending: JSONObject = {
        name: body[name] for name in ("stopReason", "additionalModelResponseFields") if name in body
    }
    frames.append(encode_event("messageStop", ending))
    return [*frames, encode_event("metadata", without_fields(body, ("output", *ending)))]


def _divide(block: JSONObject) -> tuple[JSONObject, list[JSONObject]]:
    """What opens a block, and what is added to it."""
    start: JSONObject = {}
    deltas: list[JSONObject] = []
    for name, value in block.items():
        if name == "toolUse" and isinstance(value, dict):
            start["toolUse"] = without_fields(value, ("input",))
            tool_input = value.get("input")
            text = tool_input if isinstance(tool_input, str) else json_text(tool_input)
            deltas.append({"toolUse": {"input": text}})
        elif name == "reasoningContent" and isinstance(value, dict):
            thought = {**without_fields(value, ("reasoningText",)), **as_object(value.get("reasoningText"))}
            deltas += [{"reasoningContent": {part: piece}} for part, piece in thought.items()]
        elif name == "citations":
            deltas += [{"citation": citation} for citation in cast("list[JSON]", value)]
        else:
            deltas.append({name: value})
    return start, deltas
