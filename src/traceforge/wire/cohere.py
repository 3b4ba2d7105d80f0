"""Cohere: chat, embed and rerank, in both versions of its API, and the older generate.

In: bodies, events of `/v2/chat`, lines of `/v1/chat`. Out: the unified view, and back. Never: I/O.

    /v2/chat              messages; content is a list of texts and thoughts; SSE
    /v1/chat              `message` and `chat_history`, answered with `text`; a stream is lines of JSON
    /v1/generate          `prompt`, answered with `generations`; a stream is lines of JSON, too
    /v1/embed, /v2/embed  vectors in a list, or in one list for each type of number
    /v1/rerank, /v2/…     `results`, each with the place of a document and its score
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_ANYTHING,
    BodyCodec,
    BodyFraming,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.embeddings import list_vectors
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, line_frame, sse_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_choice,
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
    name="cohere",
    endpoints=(
        EndpointPath(r"\A/v2/chat/?", EndpointKind.CHAT, AFTER_ANYTHING, only_at_hosts=True),
        EndpointPath(r"\A/v1/chat/?", EndpointKind.GENERATE, AFTER_ANYTHING, ":V1_CHAT", only_at_hosts=True),
        EndpointPath(
            r"\A/v1/generate/?", EndpointKind.COMPLETIONS, AFTER_ANYTHING, ":V1_GENERATE", only_at_hosts=True
        ),
        EndpointPath(r"\A/v[12]/embed/?", EndpointKind.EMBEDDINGS, AFTER_ANYTHING, ":EMBED", only_at_hosts=True),
        EndpointPath(r"\A/v[12]/rerank/?", EndpointKind.RERANK, AFTER_ANYTHING, ":RERANK", only_at_hosts=True),
    ),
    hosts=("api.cohere.ai", "api.cohere.com"),
    api_key=KeyHeader(("CO_API_KEY", "COHERE_API_KEY"), "authorization", "Bearer "),
    framing=BodyFraming.LINES,
)

FINISH_REASONS = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR_TOXIC": "content_filter",
}
_NATIVE_REASONS = {"stop": "COMPLETE", "length": "MAX_TOKENS", "tool_calls": "TOOL_CALL"}
_V1_ROLES = {"USER": "user", "CHATBOT": "assistant", "SYSTEM": "system", "TOOL": "tool"}
_V1_FIELDS = ("response_id", "text", "tool_calls", "finish_reason", "meta")
_RESPONSE_FIELDS = ("id", "message", "finish_reason", "usage")


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request of `/v2/chat`, whose messages are OpenAI's."""
    return {**body, **_unified_parameters(body)}


def _unified_parameters(body: JSONObject) -> JSONObject:
    names = {"p": "top_p", "stop_sequences": "stop"}
    return {names[name]: value for name, value in body.items() if name in names and names[name] not in body}


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of `/v2/chat`."""
    native_message = as_object(body.get("message"))
    blocks = list_objects(native_message.get("content"))
    thoughts = "".join(as_text(block.get("thinking")) for block in blocks)
    message = build_message(
        content="".join(as_text(block["text"]) for block in blocks if "text" in block)
        if any("text" in block for block in blocks)
        else None,
        reasoning=thoughts or as_text(native_message.get("tool_plan")),
        tool_calls=list_objects(native_message.get("tool_calls")),
        parts=None,
    )
    if _native_message(message) != native_message:
        message["parts"] = native_message
    usage = body.get("usage")
    return build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[build_choice(message, body.get("finish_reason"), FINISH_REASONS)],
        usage=_usage(usage) if isinstance(usage, dict) else None,
        extra=without_fields(body, _RESPONSE_FIELDS),
    )


def _usage(native: JSONObject) -> JSONObject:
    """Token counts; those that are billed where no others are given."""
    counts = as_object(native.get("tokens")) or as_object(native.get("billed_units"))
    prompt, completion = sum_numbers(counts, "input_tokens"), sum_numbers(counts, "output_tokens")
    if prompt is None and completion is None:
        prompt, completion = cast("tuple[float | None, float | None]", token_counts(native))
    return build_usage(native, prompt=prompt, completion=completion, cached=native.get("cached_tokens"))


def _native_usage(usage: JSON) -> JSONObject:
    native = as_object(usage).get("provider")
    if isinstance(native, dict):
        return native
    prompt, completion = token_counts(as_object(usage))
    return {"tokens": {"input_tokens": prompt, "output_tokens": completion}}


def _native_message(message: JSONObject) -> JSON:
    if "parts" in message:
        return message["parts"]
    calls = list_objects(message.get("tool_calls"))
    native: JSONObject = {"role": "assistant"}
    blocks: list[JSON] = []
    if message.get("reasoning"):
        blocks.append({"type": "thinking", "thinking": message["reasoning"]})
    if message.get("content") is not None:
        blocks.append({"type": "text", "text": message["content"]})
    if blocks or not calls:
        native["content"] = blocks
    if calls:
        native["tool_calls"] = cast("list[JSON]", calls)
    return native


def encode_response(unified: JSONObject) -> JSONObject:
    """The body of `/v2/chat` that decodes to this unified response."""
    (choice,) = list_objects(unified["choices"])
    reason = choice.get("finish_reason")
    body: JSONObject = {"id": unified.get("id"), "message": _native_message(as_object(choice.get("message")))}
    body["finish_reason"] = choice.get("provider_finish_reason", _NATIVE_REASONS.get(as_text(reason), reason))
    if unified.get("model") is not None:
        body["model"] = unified["model"]
    if unified.get("usage") is not None:
        body["usage"] = _native_usage(unified["usage"])
    return {**body, **provider_fields(unified)}


class EventAssembler(StreamAssembler):
    """Puts an answer of `/v2/chat` together from its events."""

    def __init__(self) -> None:
        super().__init__()
        self._message: JSONObject = {}
        self._lists: dict[str, dict[JSON, JSONObject]] = {"content": {}, "tool_calls": {}, "citations": {}}

    def add_event(self, event: JSONObject, name: str = "") -> None:
        kind = as_text(event.get("type")) or name
        delta = as_object(event.get("delta"))
        message = as_object(delta.get("message"))
        if kind == "message-start":
            self.body = without_fields(event, ("type", "delta"))
            self._message = without_fields(message, self._lists)
        elif kind == "message-end":
            self.body.update(delta)
            self.is_complete = True
            if delta.get("error"):
                self.add_error(delta["error"])
        elif kind.startswith(("content-", "tool-call-", "citation-")):
            self._add_item(event.get("index"), message)
        elif kind == "tool-plan-delta":
            self._message["tool_plan"] = append_delta(self._message.get("tool_plan"), message.get("tool_plan"))
        else:
            self.count_unknown(kind)

    def _add_item(self, index: JSON, message: JSONObject) -> None:
        for name, items in self._lists.items():
            if isinstance(message.get(name), dict):
                place = index if isinstance(index, int) else len(items)
                items[place] = _merge(items.get(place, {}), cast("JSONObject", message[name]))

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        if not self.body and not self._message and not any(self._lists.values()):
            return self.body
        message = {name: value for name, value in self._message.items() if name != "tool_plan" or value}
        for name, items in self._lists.items():
            if items:
                message[name] = cast("list[JSON]", list(items.values()))
        return {**self.body, "message": message}


def _merge(before: JSONObject, more: JSONObject) -> JSONObject:
    """An item with the next piece of it: texts grow, `type` and `id` are sent once."""
    merged = dict(before)
    for name, value in more.items():
        earlier = merged.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            merged[name] = _merge(earlier, value)
        elif name in ("type", "id", "name") and earlier:
            merged[name] = earlier
        else:
            merged[name] = append_delta(earlier, value)
    return merged


new_assembler = EventAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """The events of `/v2/chat` that assemble to this response."""
    body = encode_response(unified)
    message = as_object(body["message"])
    head = without_fields(message, ("content", "tool_calls", "citations"))
    start = without_fields(body, ("message", "finish_reason", "usage"))
    frames = [_frame("message-start", {**start, "delta": {"message": head}})]
    events = {"content": "content-start", "tool_calls": "tool-call-start", "citations": "citation-start"}
    for name, kind in events.items():
        for place, item in enumerate(list_objects(message.get(name))):
            frames.append(_frame(kind, {"index": place, "delta": {"message": {name: item}}}))
    end: JSONObject = {name: body[name] for name in ("finish_reason", "usage") if name in body}
    return [*frames, _frame("message-end", {"delta": end})]


def _frame(kind: str, fields: JSONObject) -> StreamFrame:
    return sse_frame({"type": kind, **fields}, kind)


# /v1/chat


def _decode_v1_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: the preamble, what was said before, and the message."""
    messages: list[JSON] = []
    if isinstance(body.get("preamble"), str):
        messages.append({"role": "system", "content": body["preamble"]})
    for turn in list_objects(body.get("chat_history")):
        role = as_text(turn.get("role"))
        messages.append({"role": _V1_ROLES.get(role.upper(), role), "content": turn.get("message")})
    if "message" in body:
        messages.append({"role": "user", "content": body["message"]})
    return {**body, **_unified_parameters(body), "messages": messages}


def _decode_v1_response(body: JSONObject) -> JSONObject:
    """The unified response of `/v1/chat`."""
    native_calls = body.get("tool_calls")
    calls = [build_tool_call(None, call.get("name"), call.get("parameters")) for call in list_objects(native_calls)]
    text = body.get("text")
    message = build_message(content=text if isinstance(text, str) else None, tool_calls=calls, parts=None)
    if native_calls is not None and native_calls != _v1_calls(message):
        message["parts"] = native_calls
    meta = body.get("meta")
    return build_response(
        answer_id=body.get("response_id"),
        model=body.get("model"),
        created=None,
        choices=[build_choice(message, body.get("finish_reason"), FINISH_REASONS)],
        usage=_usage(as_object(meta)) if isinstance(meta, dict) else None,
        extra=without_fields(body, (*_V1_FIELDS, "model")),
    )


def _v1_calls(message: JSONObject) -> JSON:
    if "parts" in message:
        return message["parts"]
    return [
        {"name": function.get("name"), "parameters": parse_or_keep(function.get("arguments"))}
        for function in (as_object(call.get("function")) for call in list_objects(message.get("tool_calls")))
    ]


def _encode_v1_response(unified: JSONObject) -> JSONObject:
    """The body of `/v1/chat` that decodes to this unified response."""
    (choice,) = list_objects(unified["choices"])
    message = as_object(choice.get("message"))
    reason = choice.get("finish_reason")
    body: JSONObject = {"response_id": unified.get("id")}
    if message.get("content") is not None:
        body["text"] = message["content"]
    if message.get("tool_calls") or "parts" in message:
        body["tool_calls"] = _v1_calls(message)
    if unified.get("model") is not None:
        body["model"] = unified["model"]
    body["finish_reason"] = choice.get("provider_finish_reason", _NATIVE_REASONS.get(as_text(reason), reason))
    if unified.get("usage") is not None:
        body["meta"] = _native_usage(unified["usage"])
    return {**body, **provider_fields(unified)}


class V1ChatAssembler(StreamAssembler):
    """Puts an answer of `/v1/chat` together from its lines; the last one repeats all of it."""

    def add_event(self, event: JSONObject, name: str = "") -> None:
        kind = as_text(event.get("event_type"))
        if kind == "stream-end":
            self.is_complete = True
            self.body = {**self.body, **as_object(event.get("response"))}
            if "finish_reason" in event:
                self.body["finish_reason"] = event["finish_reason"]
        elif kind in ("text-generation", "stream-start", "search-results", "search-queries-generation"):
            fields = without_fields(event, ("event_type", "is_finished", "text"))
            self.body = {**self.body, **fields}
            if "text" in event:
                self.body["text"] = as_text(self.body.get("text")) + as_text(event["text"])
        elif kind in ("tool-calls-generation", "citation-generation"):
            for list_name in ("tool_calls", "citations"):
                if list_name in event:
                    self.body[list_name] = append_delta(self.body.get(list_name), event[list_name])
        else:
            self.count_unknown(kind or "line without an event_type")

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        return self.body


def _encode_v1_stream(unified: JSONObject) -> list[StreamFrame]:
    """The first line, and the last one, which has everything."""
    body = _encode_v1_response(unified)
    end: JSONObject = {"is_finished": True, "event_type": "stream-end", "finish_reason": body["finish_reason"]}
    return [
        line_frame({"is_finished": False, "event_type": "stream-start"}),
        line_frame({**end, "response": body}),
    ]


V1_CHAT = BodyCodec(_decode_v1_request, _decode_v1_response, _encode_v1_response, _encode_v1_stream, V1ChatAssembler)


# /v1/generate


def _decode_generate_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: the prompt stays."""
    return {**body, **_unified_parameters(body)}


def _decode_generate_response(body: JSONObject) -> JSONObject:
    """The unified response: a choice for each generation."""
    choices: list[JSON] = [
        {
            "index": place,
            "text": generation.get("text"),
            "finish_reason": FINISH_REASONS.get(as_text(generation.get("finish_reason"))),
            **without_fields(generation, ("text", "finish_reason", "index")),
            "provider_finish_reason": generation.get("finish_reason"),
        }
        for place, generation in enumerate(list_objects(body.get("generations")))
    ]
    meta = body.get("meta")
    unified: JSONObject = {"id": body.get("id"), "object": "text_completion", "created": None}
    unified |= {"model": body.get("model"), "choices": choices}
    unified |= {"usage": _usage(meta)} if isinstance(meta, dict) else {}
    return {**unified, **without_fields(body, ("id", "generations", "meta", "model"))}


def _encode_generate_response(unified: JSONObject) -> JSONObject:
    """The body of `/v1/generate` that decodes to this unified response."""
    generations: list[JSON] = [
        {
            **without_fields(choice, ("index", "provider_finish_reason")),
            "finish_reason": choice.get(
                "provider_finish_reason", _NATIVE_REASONS.get(as_text(choice.get("finish_reason")))
            ),
        }
        for choice in list_objects(unified.get("choices"))
    ]
    body: JSONObject = {"id": unified.get("id"), "generations": generations}
    if unified.get("model") is not None:
        body["model"] = unified["model"]
    if unified.get("usage") is not None:
        body["meta"] = _native_usage(unified["usage"])
    return {**body, **provider_fields(unified)}


class GenerateAssembler(V1ChatAssembler):
    """Puts an answer of `/v1/generate` together; the last line repeats all of it."""

    def finish(self) -> JSONObject:
        """The answer; before its end, the text that came."""
        text = self.body.pop("text", None)
        if "generations" not in self.body and text is not None:
            self.body["generations"] = [{"text": text, "finish_reason": self.body.get("finish_reason")}]
        return without_fields(self.body, ("finish_reason",))


def _encode_generate_stream(unified: JSONObject) -> list[StreamFrame]:
    """The first line, and the last one, which has everything."""
    response = _encode_generate_response(unified)
    return [
        line_frame({"is_finished": False, "event_type": "stream-start"}),
        line_frame({"is_finished": True, "event_type": "stream-end", "response": response}),
    ]


V1_GENERATE = BodyCodec(
    _decode_generate_request,
    _decode_generate_response,
    _encode_generate_response,
    _encode_generate_stream,
    GenerateAssembler,
)


# Embeddings and rerank


def _decode_embed_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: `input` is what was embedded."""
    inputs = next((body[name] for name in ("texts", "images", "inputs") if body.get(name)), None)
    return {**body, "input": body.get("input", inputs)}


def _decode_embed_response(body: JSONObject) -> JSONObject:
    """The unified response; where there are several types of numbers, `data` has the first, `embeddings` all."""
    listed = body.get("embeddings")
    by_type = (
        [vectors for vectors in listed.values() if isinstance(vectors, list)] if isinstance(listed, dict) else []
    )
    vectors = listed if isinstance(listed, list) else by_type[0] if by_type else []
    extra = body if len(by_type) > 1 else without_fields(body, ("embeddings",))
    return {**list_vectors(vectors, extra), **_input_usage(body.get("meta"))}


def _input_usage(meta: JSON) -> JSONObject:
    native = as_object(meta)
    counts = as_object(native.get("tokens")) or as_object(native.get("billed_units"))
    prompt = sum_numbers(counts, "input_tokens", "image_tokens")
    return {} if prompt is None else {"usage": build_usage(native, prompt=prompt, completion=0)}


def _decode_rerank_request(body: JSONObject, model: str = "") -> JSONObject:
    return dict(body)


def _decode_rerank_response(body: JSONObject) -> JSONObject:
    """The unified response: `results` in the order of their scores, as they came."""
    return {"object": "rerank", **body, **_input_usage(body.get("meta"))}


EMBED = BodyCodec(_decode_embed_request, _decode_embed_response, encode_response, encode_stream, EventAssembler)
RERANK = BodyCodec(_decode_rerank_request, _decode_rerank_response, encode_response, encode_stream, EventAssembler)
