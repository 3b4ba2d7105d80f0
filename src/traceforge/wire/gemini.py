"""Gemini and Vertex: generateContent, streamGenerateContent, embedContent, and predict of embedding models.

In: bodies and chunks. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

import re
from typing import cast

from traceforge.canon import DEPTH_MAX, JSON, JSONObject
from traceforge.wire import embeddings
from traceforge.wire.dialect_declaration import (
    AFTER_ANYTHING,
    BodyCodec,
    BodyFraming,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, sse_frame
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
    without_fields,
)

_MODEL = r"/models/(?P<model>[^/]+)"
DIALECT = DialectDeclaration(
    name="gemini",
    endpoints=(
        EndpointPath(rf"{_MODEL}:(?:stream)?[gG]enerateContent", EndpointKind.GENERATE, AFTER_ANYTHING, rank=4),
        EndpointPath(
            rf"{_MODEL}:(?:batchE|asyncBatchE|e)mbedContents?",
            EndpointKind.EMBEDDINGS,
            AFTER_ANYTHING,
            codec=":EMBEDDINGS",
            rank=4,
        ),
        EndpointPath(
            r"/publishers/google/models/(?P<model>[^/]*embedding[^/]*):predict",
            EndpointKind.EMBEDDINGS,
            AFTER_ANYTHING,
            codec=":EMBEDDINGS",
        ),
    ),
    hosts=(
        "aiplatform.eu.rep.googleapis.com", "aiplatform.googleapis.com", "aiplatform.us.rep.googleapis.com",
        "generativelanguage.googleapis.com",
    ),
    host_endings=("-aiplatform.googleapis.com",),
    api_key=KeyHeader(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "x-goog-api-key"),
    framing=BodyFraming.ARRAY,
    base_path=r"/v1[a-z0-9]*/(?:.*/)?models/[^/]+\Z",
)  # fmt: skip

FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "MODEL_ARMOR": "content_filter",
}
# Vertex gives numbers where it is asked to; beyond these, its numbers and Gemini's differ.
_NUMBERED_REASONS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION"}
_BODY_FIELDS = ("candidates", "usageMetadata", "modelVersion", "responseId")
_CANDIDATE_FIELDS = ("index", "content", "finishReason")
PARAMETER_NAMES = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "candidateCount": "n",
}


def decode_request(body: JSONObject, model: str) -> JSONObject:
    """The unified request; `model` comes from the URL."""
    unified: JSONObject = {
        "model": model,
        **without_fields(body, ("contents", "systemInstruction", "system_instruction", "tools")),
    }
    system = body.get("systemInstruction", body.get("system_instruction"))
    system_messages: list[JSON] = (
        [] if system is None else [{"role": "system", "content": _content(as_object(system).get("parts", system))}]
    )
    unified["messages"] = [
        *system_messages,
        *(cast("JSON", m) for item in list_objects(body.get("contents")) for m in _message(item)),
    ]
    for name, value in as_object(body.get("generationConfig", body.get("generation_config"))).items():
        unified_name = PARAMETER_NAMES.get(_camel(name))
        if unified_name:
            unified[unified_name] = value
    if "tools" in body:
        unified["tools"] = [tool for group in list_objects(body["tools"]) for tool in _tools(group)]
    return unified


def _camel(name: str) -> str:
    head, *words = name.split("_")
    return head + "".join(part.capitalize() for part in words)


def _message(item: JSONObject) -> list[JSONObject]:
    parts = list_objects(item.get("parts"))
    role = item.get("role", "user")
    role = {"model": "assistant"}.get(as_text(role), "user" if role is None else role)
    results: list[JSONObject] = [
        {
            "role": "tool",
            "tool_call_id": result.get("id"),
            "name": result.get("name"),
            "content": [result.get("response")],
        }
        for part in parts
        if isinstance(result := part.get("functionResponse"), dict)
    ]
    tool_calls = [_call(part) for part in parts if "functionCall" in part]
    other_parts: list[JSON] = [
        part for part in parts if "functionResponse" not in part and "functionCall" not in part
    ]
    if not other_parts and not tool_calls:
        return results
    message: JSONObject = {"role": "user" if role in ("function", "user") else role, "content": _content(other_parts)}
    if tool_calls:
        message["tool_calls"] = cast("list[JSON]", tool_calls)
    return [*results, message]


def _content(parts: JSON) -> JSON:
    """Parts that are nothing but text are their text."""
    if isinstance(parts, dict):
        parts = [parts]
    part_list = list_objects(parts)
    if part_list and all(part.keys() == {"text"} for part in part_list):
        return "".join(as_text(part["text"]) for part in part_list) if len(part_list) == 1 else parts
    return parts if part_list or isinstance(parts, str) else None


def _tools(tool: JSONObject) -> list[JSON]:
    declarations = tool.get("functionDeclarations", tool.get("function_declarations"))
    functions: list[JSON] = [{"type": "function", "function": function} for function in list_objects(declarations)]
    other_fields = without_fields(tool, ("functionDeclarations", "function_declarations"))
    return [*functions, *([other_fields] if other_fields else [])]


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response: one choice a candidate."""
    return build_response(
        answer_id=body.get("responseId"),
        model=body.get("modelVersion"),
        created=None,
        choices=[_choice(candidate, place) for place, candidate in enumerate(list_objects(body.get("candidates")))],
        usage=_usage(body.get("usageMetadata")),
        extra=without_fields(body, _BODY_FIELDS),
    )


def _choice(candidate: JSONObject, place: int) -> JSONObject:
    content = candidate.get("content")
    parts = list_objects(as_object(content).get("parts"))
    texts = [as_text(part["text"]) for part in parts if "text" in part and not part.get("thought")]
    tool_calls = [_call(part) for part in parts if "functionCall" in part]
    message = build_message(
        content="".join(texts) if texts else None,
        reasoning="".join(as_text(part.get("text")) for part in parts if part.get("thought")),
        tool_calls=tool_calls,
        parts=None,
    )
    if _candidate_content(message) != content:
        message["parts"] = content
    reason = candidate.get("finishReason")
    reason_name = _NUMBERED_REASONS.get(reason, "") if isinstance(reason, int) else as_text(reason)
    finish_reason = FINISH_REASONS.get(reason_name, reason)
    finish = "tool_calls" if tool_calls and finish_reason == "stop" else finish_reason
    index = candidate.get("index")
    choice: JSONObject = {
        "index": index if isinstance(index, int) else place,
        "message": message,
        "finish_reason": finish,
    }
    choice["provider_finish_reason"] = reason
    return {
        **choice,
        **without_fields(candidate, _CANDIDATE_FIELDS),
        **({} if "index" in candidate else {"implicit_index": True}),
    }


def _call(part: JSONObject) -> JSONObject:
    function_call = as_object(part["functionCall"])
    return build_tool_call(function_call.get("id"), function_call.get("name"), function_call.get("args", {}))


def _usage(usage: JSON) -> JSONObject | None:
    if not isinstance(usage, dict):
        return None
    return build_usage(
        usage,
        prompt=sum_numbers(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        completion=sum_numbers(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        total=sum_numbers(usage, "totalTokenCount"),
        cached=usage.get("cachedContentTokenCount"),
        reasoning=usage.get("thoughtsTokenCount"),
    )


def encode_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    extra = provider_fields(unified)
    body: JSONObject = {}
    if unified.get("choices"):
        body["candidates"] = [_candidate(choice) for choice in list_objects(unified["choices"])]
    usage = unified.get("usage")
    if isinstance(usage, dict):
        body["usageMetadata"] = usage.get("provider") or {
            "promptTokenCount": usage.get("prompt_tokens"),
            "candidatesTokenCount": usage.get("completion_tokens"),
            "totalTokenCount": usage.get("total_tokens"),
        }
    for name, field in (("model", "modelVersion"), ("id", "responseId")):
        if unified.get(name) is not None:
            body[field] = unified[name]
    return {**body, **extra}


def _candidate(choice: JSONObject) -> JSON:
    unified_fields = ("index", "message", "finish_reason", "provider_finish_reason", "implicit_index")
    candidate: JSONObject = {}
    content = _candidate_content(as_object(choice.get("message")))
    if content is not None:
        candidate["content"] = content
    reason = choice.get("provider_finish_reason", _reason(choice))
    if reason is not None:
        candidate["finishReason"] = reason
    if not choice.get("implicit_index"):
        candidate["index"] = choice.get("index", 0)
    return {**candidate, **without_fields(choice, unified_fields)}


def _reason(choice: JSONObject) -> JSON:
    native_reasons = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    return native_reasons.get(as_text(choice.get("finish_reason")), choice.get("finish_reason"))


def _candidate_content(message: JSONObject) -> JSON:
    if "parts" in message:
        return message["parts"]
    parts: list[JSON] = []
    if message.get("reasoning"):
        parts.append({"text": message["reasoning"], "thought": True})
    if message.get("content") is not None:
        parts.append({"text": message["content"]})
    for call in list_objects(message.get("tool_calls")):
        function = as_object(call.get("function"))
        function_call: JSONObject = {"name": function.get("name"), "args": parse_or_keep(function.get("arguments"))}
        if call.get("id") is not None:
            function_call["id"] = call["id"]
        parts.append({"functionCall": function_call})
    return {"parts": parts, "role": "model"}


class ContentAssembler(StreamAssembler):
    """Puts an answer together from its chunks, each of which is an answer itself."""

    def __init__(self) -> None:
        super().__init__()
        self._candidates: dict[int, JSONObject] = {}

    def add_event(self, event: JSONObject, name: str = "") -> None:
        if event.get("error"):
            self.add_error(event["error"])
            return
        for key, value in event.items():
            if key == "candidates":
                for place, candidate in enumerate(list_objects(value)):
                    self._add_candidate(place, candidate)
            else:
                self.body[key] = value

    def _add_candidate(self, place: int, candidate: JSONObject) -> None:
        index = candidate.get("index")
        assembled = self._candidates.setdefault(index if isinstance(index, int) else place, {})
        for name, value in candidate.items():
            if name == "content" and isinstance(value, dict):
                assembled[name] = _append_content(as_object(assembled.get(name)), value)
            elif value is not None or name not in assembled:
                assembled[name] = value

    def finish(self) -> JSONObject:
        """The answer, as far as it came. A finish reason or a refused prompt ends it; Gemini sends no terminator."""
        candidates = [self._candidates[index] for index in sorted(self._candidates)]
        if candidates:
            self.body = {"candidates": cast("list[JSON]", candidates), **self.body}
        for candidate in candidates:
            _merge_partial_arguments(candidate)
        is_finished = all(candidate.get("finishReason") for candidate in candidates)
        self.is_complete = is_finished and bool(
            candidates or "promptFeedback" in self.body or "usageMetadata" in self.body
        )
        return self.body


def _append_content(before: JSONObject, more: JSONObject) -> JSONObject:
    """What was built so far, and more; the list of parts is ours since the first chunk, and grows in place."""
    parts = cast("list[JSONObject]", before.get("parts", []))
    for part in list_objects(more.get("parts")):
        if parts and _is_text_continuation(parts[-1], part):
            parts[-1] = {**parts[-1], **part, "text": as_text(parts[-1]["text"]) + as_text(part["text"])}
        elif parts and _is_call_continuation(parts[-1], part):
            parts[-1] = {**parts[-1], **part, "functionCall": _append_call(parts[-1], part)}
        else:
            parts.append(dict(part))
    merged = {**before, **more}
    if parts or "parts" in merged:
        merged["parts"] = cast("list[JSON]", parts)
    return merged


def _is_text_continuation(last: JSONObject, part: JSONObject) -> bool:
    """Text goes on where the last part was text of the same kind that no signature has closed."""
    return (
        "text" in last
        and "text" in part
        and bool(last.get("thought")) == bool(part.get("thought"))
        and "thoughtSignature" not in last
    )


def _is_call_continuation(last: JSONObject, part: JSONObject) -> bool:
    """Whether a part without a name continues the call of the last part, which announced that with `willContinue`."""
    is_open = as_object(last.get("functionCall")).get("willContinue") is True
    return is_open and "functionCall" in part and "name" not in as_object(part["functionCall"])


def _append_call(last: JSONObject, part: JSONObject) -> JSONObject:
    before, more = as_object(last["functionCall"]), as_object(part["functionCall"])
    pieces = append_delta(before.get("partialArgs"), more.get("partialArgs"))
    return {**without_fields(before, ("willContinue",)), **more, "partialArgs": pieces}


def _merge_partial_arguments(candidate: JSONObject) -> None:
    """Calls whose arguments came in pieces get them as a whole, as in an answer that was not streamed."""
    for part in list_objects(as_object(candidate.get("content")).get("parts")):
        call = as_object(part.get("functionCall"))
        if "partialArgs" in call or "willContinue" in call:
            arguments: JSON = as_object(call.get("args"))
            for piece in list_objects(call.get("partialArgs")):
                value = next((piece[name] for name in _VALUES if name in piece), None)
                arguments = _set_argument(arguments, _path_steps(as_text(piece.get("jsonPath"))), value)
            part["functionCall"] = {**without_fields(call, ("partialArgs", "willContinue")), "args": arguments}


_VALUES = ("stringValue", "numberValue", "boolValue")  # none of them: null
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_PLACE_MAX = 10_000  # A list place beyond this is not of this world, and would be filled with nulls up to there.


def _path_steps(path: str) -> list[str | int]:
    """The names and places of a JSON path; empty where we do not follow it."""
    steps = [int(place) if place else name or quoted for name, place, quoted in _STEP.findall(path)]
    is_safe = len(steps) < DEPTH_MAX and all(step <= _PLACE_MAX for step in steps if isinstance(step, int))
    return steps if is_safe else []


def _set_argument(value: JSON, steps: list[str | int], piece: JSON) -> JSON:
    """`value` with a piece put where the steps lead; a string grows, anything else is set."""
    if not steps:
        return append_delta(value, piece)
    step, *next_steps = steps
    if isinstance(step, int):
        items = list(value) if isinstance(value, list) else []
        items.extend([None] * (step + 1 - len(items)))
        items[step] = _set_argument(items[step], next_steps, piece)
        return items
    fields = dict(as_object(value))
    fields[step] = _set_argument(fields.get(step), next_steps, piece)
    return fields


new_assembler = ContentAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """A stream of one chunk."""
    return [sse_frame(encode_response(unified))]


EMBEDDINGS = BodyCodec(
    embeddings.decode_gemini_request,
    embeddings.decode_gemini_response,
    encode_response,
    encode_stream,
    new_assembler,
)
