"""OpenAI chat completions and legacy completions: the shape that the unified view has taken over.

In: bodies and chunks. Out: the unified view, and back. Never: I/O, or a field lost that a compatible server added.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.stream_assembly import Assembly, Frame, concat, sse_frame
from traceforge.wire.unified import is_number, obj, objects, text_of, tool_call, without

DONE = b"[DONE]"


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
        unified["choices"] = [_choice(choice, place) for place, choice in enumerate(objects(body["choices"]))]
        for name in ("id", "created", "model"):
            unified.setdefault(name, None)
    unified.setdefault("object", "chat.completion")
    told = obj(body.get("x_groq")).get("usage")
    if told is not None and body.get("usage") is None:
        unified["usage"] = told  # Groq says it here unless it was asked to say it in the usual place.
    return unified


def _choice(choice: JSONObject, place: int) -> JSONObject:
    choice = {"index": place, "finish_reason": None, **choice}
    if not isinstance(choice.get("message"), dict):
        return choice
    given = cast("JSONObject", choice["message"])
    built = {"role": "assistant", "content": None, **without(given, ("tool_calls",)), **_listed(given.get("content"))}
    if given.get("tool_calls"):
        built["tool_calls"] = [_without_place(call, place) for place, call in enumerate(objects(given["tool_calls"]))]
    elif called := _called(given):
        built["tool_calls"] = called
    thought = given.get("reasoning_content")
    if isinstance(thought, str) and thought and "reasoning" not in given:
        built["reasoning"] = thought
    return {**without(choice, ("delta",)), "message": built}


def _listed(content: JSON) -> JSONObject:
    """Content that came as a list: its text, what was thought in it, and the list itself."""
    if not isinstance(content, list):
        return {}
    texts = [text_of(part["text"]) for part in objects(content) if "text" in part]
    thoughts = [text_of(piece.get("text")) for part in objects(content) for piece in objects(part.get("thinking"))]
    told: JSONObject = {"content": "".join(texts) if texts else None, "parts": content}
    return {**told, "reasoning": "".join(thoughts)} if thoughts else told


def _called(given: JSONObject) -> list[JSON]:
    """The legacy function call, as a tool call."""
    called = given.get("function_call")
    if not isinstance(called, dict):
        return []
    return [tool_call(None, called.get("name"), text_of(called.get("arguments")))]


def _without_place(call: JSONObject, place: int) -> JSONObject:
    """Some servers number the calls of a whole answer too; the list's order says as much."""
    return without(call, ("index",)) if call.get("index") == place else call


def encode_response(unified: JSONObject) -> JSONObject:
    """The completion that decodes to this unified response."""
    return {**unified, "choices": [_plain_choice(choice) for choice in objects(unified.get("choices"))]}


def _plain_choice(choice: JSONObject) -> JSON:
    given = choice.get("message")
    if not isinstance(given, dict):
        return without(choice, ("provider_finish_reason",))
    built = _with_list(given)
    if "tool_calls" in given and given["tool_calls"] == _called(given):
        built = without(built, ("tool_calls",))
    if given.get("reasoning_content") and given.get("reasoning") == given["reasoning_content"]:
        built = without(built, ("reasoning",))
    return {**without(choice, ("provider_finish_reason",)), "message": built}


def _with_list(given: JSONObject) -> JSONObject:
    """Put content that came as a list back into its place."""
    parts = given.get("parts")
    if not isinstance(parts, list):
        return without(given, ("parts",))
    told = {name for name, value in _listed(parts).items() if given.get(name) == value}
    return {**without(given, ("parts", *(told & {"reasoning"}))), "content": parts}


class ChatAssembly(Assembly):
    """Puts a completion together from its chunks."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, JSONObject] = {}
        self._calls: dict[int, dict[int, JSONObject]] = {}  # by choice, then in the order they were opened
        self._slots: dict[tuple[int, int], int] = {}  # by choice and index: which call goes on there
        self._text = False  # a legacy completion: `text` in place of `delta`

    def take(self, event: JSONObject, name: str = "") -> None:
        """Take one chunk."""
        if event.get("error"):
            self.fail(event["error"])
            if "choices" not in event:
                return
        if "choices" not in event and "id" not in event:
            self.unknown(name or "chunk without choices")
        for key, value in event.items():
            if key not in ("choices", "obfuscation", "p") and (value is not None or key not in self.body):
                self.body[key] = value
        for choice in objects(event.get("choices")):
            self._take_choice(choice)

    def end(self) -> None:
        """The stream said `[DONE]`."""
        self.complete = True

    def _take_choice(self, given: JSONObject) -> None:
        index = given.get("index")
        place = index if isinstance(index, int) else 0
        choice = self._choices.setdefault(place, {"index": place})
        delta = given.get("delta")
        if isinstance(delta, dict) and (delta or "message" in choice):
            self._take_delta(place, choice, delta)
        if "text" in given:
            self._text = True
            choice["text"] = text_of(choice.get("text")) + text_of(given["text"])
        for name, value in given.items():
            if name == "logprobs":
                choice[name] = _logprobs(choice.get(name), value)
            elif name not in ("index", "delta", "text") and (value is not None or name not in choice):
                choice[name] = value

    def _take_delta(self, place: int, choice: JSONObject, delta: JSONObject) -> None:
        built = cast("JSONObject", choice.setdefault("message", {}))
        for name, value in delta.items():
            if name == "tool_calls":
                for call in objects(value):
                    self._take_call(place, call)
            elif name == "role":
                if value:
                    built["role"] = value
            elif name == "function_call" and isinstance(value, dict):
                before = obj(built.get(name))
                built[name] = {**before, **{key: concat(before.get(key), part) for key, part in value.items()}}
            elif name == "content":
                built[name] = _grown_content(built.get(name), value)
            elif name == "reasoning_details":
                built[name] = _details(built.get(name), value)
            elif name in built:
                built[name] = concat(built[name], value)
            else:
                built[name] = value

    def _take_call(self, place: int, call: JSONObject) -> None:
        calls = self._calls.setdefault(place, {})
        index = call.get("index")
        if isinstance(index, int):
            slot = self._slots.get((place, index), index if index not in calls else max(calls) + 1)
        else:
            slot = _slot_without_index(calls, call)
        known = calls.get(slot, {})
        if call.get("id") and known.get("id") and call["id"] != known["id"] and not _is_empty(call):
            slot = max(calls) + 1  # another call under a number already taken
        if isinstance(index, int):
            self._slots[place, index] = slot
        built = calls.setdefault(slot, {})
        for name, value in call.items():
            if name in ("function", "custom") and isinstance(value, dict):
                before = obj(built.get(name))
                built[name] = {**before, **{key: _grow(key, before.get(key), part) for key, part in value.items()}}
            elif name != "index" and (value or name not in built):
                built[name] = value

    def finish(self) -> JSONObject:
        """The completion, as far as it came."""
        for place, calls in self._calls.items():
            built = cast("JSONObject", self._choices[place].setdefault("message", {}))
            built["tool_calls"] = [calls[slot] for slot in sorted(calls)]
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            self._close(choice)
        if choices or "id" in self.body:
            self.body["choices"] = cast("list[JSON]", choices)
            said = text_of(self.body.get("object")).removesuffix(".chunk")
            self.body["object"] = said or ("text_completion" if self._text else "chat.completion")
        if choices and all(choice.get("finish_reason") for choice in choices):
            self.complete = True
        return self.body

    def _close(self, choice: JSONObject) -> None:
        choice.setdefault("finish_reason", None)
        built = choice.get("message")
        if isinstance(built, dict):
            built.setdefault("role", "assistant")
            built.setdefault("content", None)


def _slot_without_index(calls: dict[int, JSONObject], call: JSONObject) -> int:
    """A call without a number belongs to the call of its id, else to the newest, unless it opens a new one."""
    for slot, known in calls.items():
        if call.get("id") and known.get("id") == call["id"]:
            return slot
    opens = call.get("id") or obj(call.get("function")).get("name")
    return len(calls) if opens or not calls else max(calls)


def _is_empty(call: JSONObject) -> bool:
    return not obj(call.get("function")).get("name") and not obj(call.get("custom")).get("name")


def _grow(name: str, before: JSON, more: JSON) -> JSON:
    if name == "name":  # Some servers repeat the name in every delta.
        return more or (more if before is None else before)
    return concat(before, more)


def _grown_content(before: JSON, more: JSON) -> JSON:
    """Text grows; where a server sends lists of parts, those grow, and text beside them is a part too."""
    if not isinstance(before, list) and not isinstance(more, list):
        return concat(before, more)
    parts = _parts(before)
    for part in _parts(more):
        last = parts[-1] if parts else {}
        if part.keys() == last.keys() == {"type", "text"} and part["type"] == last["type"]:
            parts[-1] = {**last, "text": text_of(last["text"]) + text_of(part["text"])}
        elif part.get("type") == last.get("type") == "thinking":
            thought = _grown_content(last.get("thinking"), part.get("thinking"))
            parts[-1] = {**last, **part, "thinking": thought}
        else:
            parts.append(part)
    return cast("JSON", parts)


def _parts(content: JSON) -> list[JSONObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [dict(part) for part in objects(content)]


def _logprobs(before: JSON, more: JSON) -> JSON:
    if not isinstance(before, dict) or not isinstance(more, dict):
        return before if more is None else more
    return {**before, **{name: concat(before.get(name), value) for name, value in more.items()}}


def _details(before: JSON, more: JSON) -> JSON:
    """Reasoning details come in pieces with the number of the item they belong to."""
    merged = [dict(item) for item in objects(before)]
    for piece in objects(more):
        last = merged[-1] if merged else None
        if last is not None and (last.get("index"), last.get("type")) == (piece.get("index"), piece.get("type")):
            for name, value in piece.items():
                grows = name in ("text", "summary", "data")
                last[name] = concat(last.get(name), value) if grows else value
        else:
            merged.append(dict(piece))
    return cast("JSON", merged)


new_assembly = ChatAssembly


def encode_stream(unified: JSONObject) -> list[Frame]:
    """The chunks of a stream that assembles to this response."""
    body = encode_response(unified)
    head = without(body, ("choices",) if body.get("usage") is None else ("choices", "usage"))
    if head.get("object") == "chat.completion":
        head["object"] = "chat.completion.chunk"
    frames = [sse_frame({**head, "choices": [_opening(choice)]}) for choice in objects(body["choices"])]
    for choice in objects(body["choices"]):
        closing: JSONObject = {**without(choice, ("message", "text")), "delta": {}}
        frames.append(sse_frame({**head, "choices": [cast("JSON", closing)]}))
    if body.get("usage") is not None:
        frames.append(sse_frame({**head, "choices": [], "usage": body["usage"]}))
    return [*frames, Frame(b"data: [DONE]\n\n")]


def _opening(choice: JSONObject) -> JSONObject:
    opening: JSONObject = {"index": choice.get("index", 0), "finish_reason": None}
    if "text" in choice:
        opening["text"] = choice["text"]
    if isinstance(choice.get("message"), dict):
        delta = dict(cast("JSONObject", choice["message"]))
        calls = objects(delta.get("tool_calls"))
        if calls:
            delta["tool_calls"] = [{**call, "index": number} for number, call in enumerate(calls)]
        opening["delta"] = delta
    return opening
