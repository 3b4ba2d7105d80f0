"""OpenAI chat completions and legacy completions: the shape that the unified view has taken over.

In: bodies and chunks. Out: the unified view, and back. Never: I/O, or a field lost that a compatible server added.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire import embeddings
from traceforge.wire.dialect_declaration import (
    AFTER_ANYTHING,
    BodyCodec,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, sse_frame
from traceforge.wire.unified import as_object, as_text, build_tool_call, is_number, list_objects, without_fields

_DEPLOYMENT = r"/deployments/(?P<model>[^/]+)"
_EMBEDDINGS = ":EMBEDDINGS"
_VERTEX = r"/publishers/(?:mistralai|ai21)/models/(?P<model>[^/]+):(?:r|streamR)awPredict"
DIALECT = DialectDeclaration(
    name="openai",
    endpoints=(
        EndpointPath(rf"(?:{_DEPLOYMENT})?/chat/completions/?", EndpointKind.CHAT, AFTER_ANYTHING, rank=0),
        EndpointPath(r"/responses/?", EndpointKind.RESPONSES, codec="traceforge.wire.openai.responses", rank=2),
        EndpointPath(rf"{_DEPLOYMENT}/completions/?", EndpointKind.COMPLETIONS, AFTER_ANYTHING),
        EndpointPath(r"/completions/?", EndpointKind.COMPLETIONS),
        EndpointPath(rf"{_DEPLOYMENT}/embeddings/?", EndpointKind.EMBEDDINGS, AFTER_ANYTHING, _EMBEDDINGS),
        EndpointPath(r"/embeddings/?", EndpointKind.EMBEDDINGS, codec=_EMBEDDINGS),
        EndpointPath(_VERTEX, EndpointKind.CHAT, AFTER_ANYTHING),
    ),
    hosts=(
        "api-inference.together.ai", "api.deepseek.com", "api.fireworks.ai", "api.groq.com", "api.openai.com",
        "api.together.ai", "api.together.xyz", "api.x.ai", "eu.api.openai.com", "openrouter.ai", "us.api.openai.com",
    ),
    host_endings=(
        ".api.x.ai", ".cognitiveservices.azure.com", ".inference.ai.azure.com", ".models.ai.azure.com",
        ".openai.azure.com", ".services.ai.azure.com",
    ),
    not_paths=(r"/threads/[^/]+/messages/?\Z",),  # OpenAI's assistants: not Anthropic's messages
    api_key=KeyHeader(("OPENAI_API_KEY",), "authorization", "Bearer "),
    base_path=r"/(?:chat/completions|completions|embeddings|responses)/?\Z",
)  # fmt: skip


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The request with its synonyms translated; every field it came with is still there."""
    unified = dict(body)
    if "max_tokens" not in body and is_number(body.get("max_completion_tokens")):
        unified["max_tokens"] = body["max_completion_tokens"]
    if isinstance(body.get("stop"), str):
        unified["stop"] = [body["stop"]]
    return unified


def decode_response(body: JSONObject) -> JSONObject:
    """The answer as it is, with the few spellings of compatible servers made one."""
    unified = dict(body)
    if "choices" in body:
        unified["choices"] = [_choice(choice, place) for place, choice in enumerate(list_objects(body["choices"]))]
        for name in ("id", "created", "model"):
            unified.setdefault(name, None)
    unified.setdefault("object", "chat.completion")
    groq_usage = as_object(body.get("x_groq")).get("usage")
    if groq_usage is not None and body.get("usage") is None:
        unified["usage"] = groq_usage  # Groq reports usage here unless `include_usage` is set.
    if isinstance(unified.get("usage"), dict):
        unified["usage"] = _usage(cast("JSONObject", unified["usage"]))
    return unified


def _usage(usage: JSONObject) -> JSONObject:
    """The token counts with the cached ones where OpenAI has them."""
    details = as_object(usage.get("prompt_tokens_details"))
    cached = next((usage[name] for name in _CACHED_NAMES if is_number(usage.get(name))), None)
    if cached is None or "cached_tokens" in details:
        return usage
    return {**usage, "prompt_tokens_details": {**details, "cached_tokens": cached}}


_CACHED_NAMES = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens")  # DeepSeek, Mistral, Moonshot


def _choice(choice: JSONObject, place: int) -> JSONObject:
    choice = {"index": place, "finish_reason": None, **choice}
    if isinstance(choice.get("native_finish_reason"), str):
        choice["provider_finish_reason"] = choice["native_finish_reason"]  # OpenRouter
    if not isinstance(choice.get("message"), dict):
        return choice
    native_message = cast("JSONObject", choice["message"])
    message = {
        "role": "assistant",
        "content": None,
        **without_fields(native_message, ("tool_calls",)),
        **_content_fields(native_message.get("content")),
    }
    if native_message.get("tool_calls"):
        message["tool_calls"] = [
            _without_index(call, place) for place, call in enumerate(list_objects(native_message["tool_calls"]))
        ]
    elif legacy_calls := _legacy_tool_calls(native_message):
        message["tool_calls"] = legacy_calls
    reasoning = native_message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning and "reasoning" not in native_message:
        message["reasoning"] = reasoning
    return {**without_fields(choice, ("delta",)), "message": message}


def _content_fields(content: JSON) -> JSONObject:
    """Content that came as a list: its text, what was thought in it, and the list itself."""
    if not isinstance(content, list):
        return {}
    texts = [as_text(part["text"]) for part in list_objects(content) if "text" in part]
    thoughts = [
        as_text(piece.get("text")) for part in list_objects(content) for piece in list_objects(part.get("thinking"))
    ]
    fields: JSONObject = {"content": "".join(texts) if texts else None, "parts": content}
    return {**fields, "reasoning": "".join(thoughts)} if thoughts else fields


def _legacy_tool_calls(message: JSONObject) -> list[JSON]:
    """The legacy function call, as a tool call."""
    function_call = message.get("function_call")
    if not isinstance(function_call, dict):
        return []
    return [build_tool_call(None, function_call.get("name"), as_text(function_call.get("arguments")))]


def _without_index(call: JSONObject, place: int) -> JSONObject:
    """Drop an index that repeats the position in the list; some servers send it outside of streams, too."""
    return without_fields(call, ("index",)) if call.get("index") == place else call


def encode_response(unified: JSONObject) -> JSONObject:
    """The completion that decodes to this unified response."""
    return {**unified, "choices": [_native_choice(choice) for choice in list_objects(unified.get("choices"))]}


def _native_choice(choice: JSONObject) -> JSON:
    message = choice.get("message")
    if not isinstance(message, dict):
        return without_fields(choice, ("provider_finish_reason",))
    native_message = _restore_content_list(message)
    if "tool_calls" in message and message["tool_calls"] == _legacy_tool_calls(message):
        native_message = without_fields(native_message, ("tool_calls",))
    if message.get("reasoning_content") and message.get("reasoning") == message["reasoning_content"]:
        native_message = without_fields(native_message, ("reasoning",))
    return {**without_fields(choice, ("provider_finish_reason",)), "message": native_message}


def _restore_content_list(message: JSONObject) -> JSONObject:
    """Put content that came as a list back into its place."""
    parts = message.get("parts")
    if not isinstance(parts, list):
        return without_fields(message, ("parts",))
    derived = {name for name, value in _content_fields(parts).items() if message.get(name) == value}
    return {**without_fields(message, ("parts", *(derived & {"reasoning"}))), "content": parts}


class ChatAssembler(StreamAssembler):
    """Puts a completion together from its chunks."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, JSONObject] = {}
        self._calls: dict[int, dict[int, JSONObject]] = {}  # by choice, then in the order they were opened
        self._slots: dict[tuple[int, int], int] = {}  # by choice and index: which call goes on there
        self._is_text_completion = False  # a legacy completion: `text` in place of `delta`

    def add_event(self, event: JSONObject, name: str = "") -> None:
        if event.get("error"):
            self.add_error(event["error"])
            if "choices" not in event:
                return
        groq_error = as_object(event.get("x_groq")).get("error")
        if groq_error:
            self.add_error(groq_error)
        if "choices" not in event and "id" not in event:
            self.count_unknown(name or "chunk without choices")
        for key, value in event.items():
            if key not in ("choices", "obfuscation", "p") and (value is not None or key not in self.body):
                self.body[key] = value
        for choice in list_objects(event.get("choices")):
            self._add_choice(choice)

    def add_done(self) -> None:
        """The stream ended with `[DONE]`."""
        self.is_complete = True

    def _add_choice(self, chunk_choice: JSONObject) -> None:
        index = chunk_choice.get("index")
        place = index if isinstance(index, int) else 0
        choice = self._choices.setdefault(place, {"index": place})
        delta = chunk_choice.get("delta")
        if isinstance(delta, dict) and (delta or "message" in choice):
            self._add_delta(place, choice, delta)
        if "text" in chunk_choice:
            self._is_text_completion = True
            choice["text"] = as_text(choice.get("text")) + as_text(chunk_choice["text"])
        for name, value in chunk_choice.items():
            if name == "logprobs":
                choice[name] = _append_logprobs(choice.get(name), value)
            elif name not in ("index", "delta", "text") and (value is not None or name not in choice):
                choice[name] = value

    def _add_delta(self, place: int, choice: JSONObject, delta: JSONObject) -> None:
        message = cast("JSONObject", choice.setdefault("message", {}))
        for name, value in delta.items():
            if name == "tool_calls":
                for call in list_objects(value):
                    self._add_tool_call(place, call)
            elif name == "role":
                if value:
                    message["role"] = value
            elif name == "function_call" and isinstance(value, dict):
                before = as_object(message.get(name))
                message[name] = {
                    **before,
                    **{key: append_delta(before.get(key), part) for key, part in value.items()},
                }
            elif name == "content":
                message[name] = _append_content(message.get(name), value)
            elif name == "reasoning_details":
                message[name] = _append_reasoning_details(message.get(name), value)
            elif name in message:
                message[name] = append_delta(message[name], value)
            else:
                message[name] = value

    def _add_tool_call(self, place: int, call: JSONObject) -> None:
        calls = self._calls.setdefault(place, {})
        index = call.get("index")
        if isinstance(index, int):
            slot = self._slots.get((place, index), index if index not in calls else max(calls) + 1)
        else:
            slot = _slot_without_index(calls, call)
        current = calls.get(slot, {})
        if call.get("id") and current.get("id") and call["id"] != current["id"] and not _is_empty(call):
            slot = max(calls) + 1  # another call under a number already taken
        if isinstance(index, int):
            self._slots[place, index] = slot
        assembled = calls.setdefault(slot, {})
        for name, value in call.items():
            if name in ("function", "custom") and isinstance(value, dict):
                before = as_object(assembled.get(name))
                assembled[name] = {
                    **before,
                    **{key: _append_field(key, before.get(key), part) for key, part in value.items()},
                }
            elif name != "index" and (value or name not in assembled):
                assembled[name] = value

    def finish(self) -> JSONObject:
        """The completion, as far as it came."""
        for place, calls in self._calls.items():
            message = cast("JSONObject", self._choices[place].setdefault("message", {}))
            message["tool_calls"] = [calls[slot] for slot in sorted(calls)]
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            self._close(choice)
        if choices or "id" in self.body:
            self.body["choices"] = cast("list[JSON]", choices)
            object_name = as_text(self.body.get("object")).removesuffix(".chunk")
            self.body["object"] = object_name or (
                "text_completion" if self._is_text_completion else "chat.completion"
            )
        if choices and all(choice.get("finish_reason") for choice in choices):
            self.is_complete = True
        return self.body

    def _close(self, choice: JSONObject) -> None:
        choice.setdefault("finish_reason", None)
        message = choice.get("message")
        if isinstance(message, dict):
            message.setdefault("role", "assistant")
            message.setdefault("content", None)


def _slot_without_index(calls: dict[int, JSONObject], call: JSONObject) -> int:
    """A call without a number belongs to the call of its id, else to the newest, unless it opens a new one."""
    for slot, open_call in calls.items():
        if call.get("id") and open_call.get("id") == call["id"]:
            return slot
    opens = call.get("id") or as_object(call.get("function")).get("name")
    return len(calls) if opens or not calls else max(calls)


def _is_empty(call: JSONObject) -> bool:
    return not as_object(call.get("function")).get("name") and not as_object(call.get("custom")).get("name")


def _append_field(name: str, before: JSON, more: JSON) -> JSON:
    if name == "name":  # Some servers repeat the name in every delta.
        return more or (more if before is None else before)
    return append_delta(before, more)


def _append_content(before: JSON, more: JSON) -> JSON:
    """Text grows; where a server sends lists of parts, those grow, and text beside them is a part too."""
    if not isinstance(before, list) and not isinstance(more, list):
        return append_delta(before, more)
    parts = before if isinstance(before, list) else cast("list[JSON]", _parts(before))
    for part in _parts(more):
        last = as_object(parts[-1]) if parts else {}
        if part.keys() == last.keys() == {"type", "text"} and part["type"] == last["type"]:
            parts[-1] = {**last, "text": as_text(last["text"]) + as_text(part["text"])}
        elif part.get("type") == last.get("type") == "thinking":
            thinking = _append_content(last.get("thinking"), part.get("thinking"))
            parts[-1] = {**last, **part, "thinking": thinking}
        else:
            parts.append(part)
    return parts


def _parts(content: JSON) -> list[JSONObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [dict(part) for part in list_objects(content)]


def _append_logprobs(before: JSON, more: JSON) -> JSON:
    if not isinstance(before, dict) or not isinstance(more, dict):
        return before if more is None else more
    return {**before, **{name: append_delta(before.get(name), value) for name, value in more.items()}}


def _append_reasoning_details(before: JSON, more: JSON) -> JSON:
    """Reasoning details come in pieces with the number of the item they belong to."""
    merged = before if isinstance(before, list) else []
    for piece in list_objects(more):
        last = merged[-1] if merged else None
        if isinstance(last, dict) and all(last.get(name) == piece.get(name) for name in ("index", "type")):
            for name, value in piece.items():
                is_text = name in ("text", "summary", "data")
                last[name] = append_delta(last.get(name), value) if is_text else value
        else:
            merged.append(dict(piece))
    return merged


new_assembler = ChatAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """The chunks of a stream that assembles to this response."""
    body = encode_response(unified)
    head = without_fields(body, ("choices",) if body.get("usage") is None else ("choices", "usage"))
    if head.get("object") == "chat.completion":
        head["object"] = "chat.completion.chunk"
    frames = [sse_frame({**head, "choices": [_opening(choice)]}) for choice in list_objects(body["choices"])]
    for choice in list_objects(body["choices"]):
        closing: JSONObject = {**without_fields(choice, ("message", "text")), "delta": {}}
        frames.append(sse_frame({**head, "choices": [cast("JSON", closing)]}))
    if body.get("usage") is not None:
        frames.append(sse_frame({**head, "choices": [], "usage": body["usage"]}))
    return [*frames, StreamFrame(b"data: [DONE]\n\n")]


def _opening(choice: JSONObject) -> JSONObject:
    opening: JSONObject = {"index": choice.get("index", 0), "finish_reason": None}
    if "text" in choice:
        opening["text"] = choice["text"]
    if isinstance(choice.get("message"), dict):
        delta = dict(cast("JSONObject", choice["message"]))
        calls = list_objects(delta.get("tool_calls"))
        if calls:
            delta["tool_calls"] = [{**call, "index": number} for number, call in enumerate(calls)]
        opening["delta"] = delta
    return opening


EMBEDDINGS = BodyCodec(
    embeddings.decode_input_request,
    embeddings.decode_openai_response,
    encode_response,
    encode_stream,
    new_assembler,
)
