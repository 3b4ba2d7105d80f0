"""Gemini and Vertex: generateContent, streamGenerateContent, embedContent.

In: bodies and chunks. Out: the unified view, and back. Never: I/O.
"""

from __future__ import annotations

import re
from typing import cast

from traceforge.canon import DEPTH_MAX, JSON, JSONObject
from traceforge.wire.stream_assembly import Assembly, Frame, concat, sse_frame
from traceforge.wire.unified import (
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
CONFIG = {
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
    """The unified request; the model stands in the URL."""
    unified: JSONObject = {
        "model": model,
        **without(body, ("contents", "systemInstruction", "system_instruction", "tools")),
    }
    system = body.get("systemInstruction", body.get("system_instruction"))
    first: list[JSON] = (
        [] if system is None else [{"role": "system", "content": _content(obj(system).get("parts", system))}]
    )
    unified["messages"] = [
        *first,
        *(cast("JSON", m) for item in objects(body.get("contents")) for m in _message(item)),
    ]
    for name, value in obj(body.get("generationConfig", body.get("generation_config"))).items():
        known = CONFIG.get(_camel(name))
        if known:
            unified[known] = value
    if "tools" in body:
        unified["tools"] = [tool for given in objects(body["tools"]) for tool in _tools(given)]
    return unified


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _message(item: JSONObject) -> list[JSONObject]:
    parts = objects(item.get("parts"))
    role = {"model": "assistant", None: "user"}.get(cast("str | None", item.get("role")), item.get("role"))
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
    calls = [_call(part) for part in parts if "functionCall" in part]
    rest: list[JSON] = [part for part in parts if "functionResponse" not in part and "functionCall" not in part]
    if not rest and not calls:
        return results
    built: JSONObject = {"role": "user" if role in ("function", "user") else role, "content": _content(rest)}
    if calls:
        built["tool_calls"] = cast("list[JSON]", calls)
    return [*results, built]


def _content(parts: JSON) -> JSON:
    """Parts that are nothing but text are their text."""
    if isinstance(parts, dict):
        parts = [parts]
    listed = objects(parts)
    if listed and all(part.keys() == {"text"} for part in listed):
        return "".join(text_of(part["text"]) for part in listed) if len(listed) == 1 else parts
    return parts if listed or isinstance(parts, str) else None


def _tools(given: JSONObject) -> list[JSON]:
    declared = given.get("functionDeclarations", given.get("function_declarations"))
    functions: list[JSON] = [{"type": "function", "function": function} for function in objects(declared)]
    rest = without(given, ("functionDeclarations", "function_declarations"))
    return [*functions, *([rest] if rest else [])]


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response: one choice a candidate."""
    return response(
        answer_id=body.get("responseId"),
        model=body.get("modelVersion"),
        created=None,
        choices=[_choice(candidate, place) for place, candidate in enumerate(objects(body.get("candidates")))],
        usage=_usage(body.get("usageMetadata")),
        extra=without(body, _BODY_FIELDS),
    )


def _choice(candidate: JSONObject, place: int) -> JSONObject:
    content = candidate.get("content")
    parts = objects(obj(content).get("parts"))
    texts = [text_of(part["text"]) for part in parts if "text" in part and not part.get("thought")]
    calls = [_call(part) for part in parts if "functionCall" in part]
    built = message(
        content="".join(texts) if texts else None,
        reasoning="".join(text_of(part.get("text")) for part in parts if part.get("thought")),
        tool_calls=calls,
        parts=None,
    )
    if _candidate_content(built) != content:
        built["parts"] = content
    reason = candidate.get("finishReason")
    named = _NUMBERED_REASONS.get(reason, "") if isinstance(reason, int) else text_of(reason)
    mapped = FINISH_REASONS.get(named, reason)
    finish = "tool_calls" if calls and mapped == "stop" else mapped
    index = candidate.get("index")
    choice: JSONObject = {
        "index": index if isinstance(index, int) else place,
        "message": built,
        "finish_reason": finish,
    }
    choice["provider_finish_reason"] = reason
    return {
        **choice,
        **without(candidate, _CANDIDATE_FIELDS),
        **({} if "index" in candidate else {"implicit_index": True}),
    }


def _call(part: JSONObject) -> JSONObject:
    called = obj(part["functionCall"])
    return tool_call(called.get("id"), called.get("name"), called.get("args", {}))


def _usage(given: JSON) -> JSONObject | None:
    if not isinstance(given, dict):
        return None
    return usage(
        given,
        prompt=numbers(given, "promptTokenCount", "toolUsePromptTokenCount"),
        completion=numbers(given, "candidatesTokenCount", "thoughtsTokenCount"),
        total=numbers(given, "totalTokenCount"),
        cached=given.get("cachedContentTokenCount"),
        reasoning=given.get("thoughtsTokenCount"),
    )


def encode_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    extra = without(unified, ("id", "object", "created", "model", "choices", "usage"))
    body: JSONObject = {}
    if unified.get("choices"):
        body["candidates"] = [_candidate(choice) for choice in objects(unified["choices"])]
    given = unified.get("usage")
    if isinstance(given, dict):
        body["usageMetadata"] = given.get("provider") or {
            "promptTokenCount": given.get("prompt_tokens"),
            "candidatesTokenCount": given.get("completion_tokens"),
            "totalTokenCount": given.get("total_tokens"),
        }
    for name, field in (("model", "modelVersion"), ("id", "responseId")):
        if unified.get(name) is not None:
            body[field] = unified[name]
    return {**body, **extra}


def _candidate(choice: JSONObject) -> JSON:
    own = ("index", "message", "finish_reason", "provider_finish_reason", "implicit_index")
    candidate: JSONObject = {}
    content = _candidate_content(obj(choice.get("message")))
    if content is not None:
        candidate["content"] = content
    reason = choice.get("provider_finish_reason", _reason(choice))
    if reason is not None:
        candidate["finishReason"] = reason
    if not choice.get("implicit_index"):
        candidate["index"] = choice.get("index", 0)
    return {**candidate, **without(choice, own)}


def _reason(choice: JSONObject) -> JSON:
    back = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    return back.get(text_of(choice.get("finish_reason")), choice.get("finish_reason"))


def _candidate_content(built: JSONObject) -> JSON:
    if "parts" in built:
        return built["parts"]
    parts: list[JSON] = []
    if built.get("reasoning"):
        parts.append({"text": built["reasoning"], "thought": True})
    if built.get("content") is not None:
        parts.append({"text": built["content"]})
    for call in objects(built.get("tool_calls")):
        function = obj(call.get("function"))
        called: JSONObject = {"name": function.get("name"), "args": parsed(function.get("arguments"))}
        if call.get("id") is not None:
            called["id"] = call["id"]
        parts.append({"functionCall": called})
    return {"parts": parts, "role": "model"}


class ContentAssembly(Assembly):
    """Puts an answer together from its chunks, each of which is an answer itself."""

    def __init__(self) -> None:
        super().__init__()
        self._candidates: dict[int, JSONObject] = {}

    def take(self, event: JSONObject, name: str = "") -> None:
        """Take one chunk."""
        if event.get("error"):
            self.fail(event["error"])
            return
        for key, value in event.items():
            if key == "candidates":
                for place, candidate in enumerate(objects(value)):
                    self._take_candidate(place, candidate)
            else:
                self.body[key] = value

    def _take_candidate(self, place: int, given: JSONObject) -> None:
        index = given.get("index")
        built = self._candidates.setdefault(index if isinstance(index, int) else place, {})
        for name, value in given.items():
            if name == "content" and isinstance(value, dict):
                built[name] = _grown_content(obj(built.get(name)), value)
            elif value is not None or name not in built:
                built[name] = value

    def finish(self) -> JSONObject:
        """The answer, as far as it came. There is no terminator: a finish reason, or a refused prompt, is the end."""
        candidates = [self._candidates[index] for index in sorted(self._candidates)]
        if candidates:
            self.body = {"candidates": cast("list[JSON]", candidates), **self.body}
        for candidate in candidates:
            _close_calls(candidate)
        ended = all(candidate.get("finishReason") for candidate in candidates)
        self.complete = ended and bool(candidates or "promptFeedback" in self.body or "usageMetadata" in self.body)
        return self.body


def _grown_content(before: JSONObject, more: JSONObject) -> JSONObject:
    """What was built so far, and more; the list of parts is ours since the first chunk, and grows in place."""
    parts = cast("list[JSONObject]", before.get("parts", []))
    for part in objects(more.get("parts")):
        if parts and _continues(parts[-1], part):
            parts[-1] = {**parts[-1], **part, "text": text_of(parts[-1]["text"]) + text_of(part["text"])}
        elif parts and _continues_call(parts[-1], part):
            parts[-1] = {**parts[-1], **part, "functionCall": _grown_call(parts[-1], part)}
        else:
            parts.append(dict(part))
    grown = {**before, **more}
    if parts or "parts" in grown:
        grown["parts"] = cast("list[JSON]", parts)
    return grown


def _continues(last: JSONObject, part: JSONObject) -> bool:
    """Text goes on where the last part was text of the same kind that no signature has closed."""
    return (
        "text" in last
        and "text" in part
        and bool(last.get("thought")) == bool(part.get("thought"))
        and "thoughtSignature" not in last
    )


def _continues_call(last: JSONObject, part: JSONObject) -> bool:
    """A call goes on, without its name, where the last part said that it would."""
    going_on = obj(last.get("functionCall")).get("willContinue") is True
    return going_on and "functionCall" in part and "name" not in obj(part["functionCall"])


def _grown_call(last: JSONObject, part: JSONObject) -> JSONObject:
    before, more = obj(last["functionCall"]), obj(part["functionCall"])
    pieces = [*objects(before.get("partialArgs")), *objects(more.get("partialArgs"))]
    return {**without(before, ("willContinue",)), **more, "partialArgs": cast("list[JSON]", pieces)}


def _close_calls(candidate: JSONObject) -> None:
    """Calls whose arguments came in pieces get them as a whole, as in an answer that was not streamed."""
    for part in objects(obj(candidate.get("content")).get("parts")):
        call = obj(part.get("functionCall"))
        if "partialArgs" in call or "willContinue" in call:
            arguments: JSON = obj(call.get("args"))
            for piece in objects(call.get("partialArgs")):
                given = next((piece[name] for name in _VALUES if name in piece), None)
                arguments = _with_argument(arguments, _steps(text_of(piece.get("jsonPath"))), given)
            part["functionCall"] = {**without(call, ("partialArgs", "willContinue")), "args": arguments}


_VALUES = ("stringValue", "numberValue", "boolValue")  # none of them: null
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_PLACE_MAX = 10_000  # A list place beyond this is not of this world, and would be filled with nulls up to there.


def _steps(path: str) -> list[str | int]:
    """The names and places of a JSON path; empty where we do not follow it."""
    steps = [int(place) if place else name or quoted for name, place, quoted in _STEP.findall(path)]
    followed = len(steps) < DEPTH_MAX and all(step <= _PLACE_MAX for step in steps if isinstance(step, int))
    return steps if followed else []


def _with_argument(value: JSON, steps: list[str | int], piece: JSON) -> JSON:
    """`value` with a piece put where the steps lead; a string grows, anything else is set."""
    if not steps:
        return concat(value, piece)
    step, *rest = steps
    if isinstance(step, int):
        items = list(value) if isinstance(value, list) else []
        items.extend([None] * (step + 1 - len(items)))
        items[step] = _with_argument(items[step], rest, piece)
        return items
    fields = dict(obj(value))
    fields[step] = _with_argument(fields.get(step), rest, piece)
    return fields


new_assembly = ContentAssembly


def encode_stream(unified: JSONObject) -> list[Frame]:
    """A stream of one chunk."""
    return [sse_frame(encode_response(unified))]
