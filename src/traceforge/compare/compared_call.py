"""One call as it is compared: the request, and the part of the answer that is behaviour.

In: the body of a trace, or a snapshot record. Out: a `ComparedCall`, the same for both. Never: checks a format (its
reader did), changes the request, or keeps what differs in every run: ids, times, token counts, log probabilities.

The request is kept with every field that was sent. An answer is a list of choices, usually one; the single answer of
a snapshot is a choice, too. `content` may be a text, null or a list of parts: its text is that of its text parts, and
null is the empty text.
"""

from __future__ import annotations

from typing import Self, cast

from msgspec import Struct, field

from traceforge.canon import JSON, JSONObject, parse_all_members
from traceforge.errors import NotJSON

# What differs between two runs of one behaviour.
RUN_FIELDS = frozenset(
    {"id", "object", "created", "created_at", "completed_at", "usage", "model", "system_fingerprint", "service_tier"}
)
# What a snapshot record says about its request, and the model was not sent.
RECORD_FIELDS = frozenset({"declared", "gate", "gate_reason"})
NOISE_FIELDS = frozenset({"index", "logprobs", "padding", "obfuscation"})

_TEXT_PARTS = frozenset({"text", "output_text"})


class ToolCall(Struct, frozen=True):
    """One call the model asked for. `arguments` is the JSON that its text holds, or the text where it holds none.

    Its id is not kept: providers choose a new one each time.
    """

    name: str
    arguments: JSON
    other: JSONObject = field(default_factory=dict)

    def to_json(self) -> JSONObject:
        """The call as one value, which is also what two of them are compared by."""
        return {"name": self.name, "arguments": self.arguments, **({"other": self.other} if self.other else {})}


class ComparedChoice(Struct, frozen=True):
    """One generated answer. `other` holds the provider's other fields, such as reasoning."""

    text: str
    finish_reason: JSON = None
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    other: JSONObject = field(default_factory=dict)


class ComparedAnswer(Struct, frozen=True):
    """What came back. `other` is the answer of a call that generates nothing, such as an embedding."""

    choices: tuple[ComparedChoice, ...]
    other: JSONObject = field(default_factory=dict)
    model: str = ""  # The model named in the response; "" where it is not known.


class ComparedCall(Struct, frozen=True):
    """A request, and its answer if there was one."""

    request: JSONObject
    answer: ComparedAnswer | None

    @classmethod
    def from_trace(cls, body: JSONObject) -> Self:
        """Take the call out of a valid trace (`Trace.body`)."""
        response = body["response"]
        return cls(cast("JSONObject", body["request"]), _answer(response) if isinstance(response, dict) else None)

    @classmethod
    def from_snapshot(cls, record: JSONObject) -> Self:
        """Take the call out of a valid snapshot record (`Snapshot.body`), with the fields that were really sent."""
        request, response = cast("JSONObject", record["request"]), cast("JSONObject", record["response"])
        declared = cast("list[JSON]", request.get("declared", []))
        sent = {name: value for name, value in request.items() if name not in declared and name not in RECORD_FIELDS}
        message: JSONObject = {key: response[key] for key in ("content", "tool_calls") if key in response}
        choice = _choice({"message": message, "finish_reason": response.get("finish_reason")})
        return cls(sent, ComparedAnswer((choice,)))

    @property
    def last_text(self) -> str:
        """The text of the last message that has one, for example to name the call in a sentence; "" without any."""
        messages = self.request.get("messages")
        texts = map(_find_text, reversed(messages if isinstance(messages, list) else []))
        return next((text for text in texts if text.strip()), "")


def _find_text(message: JSON) -> str:
    """The text of a message; of one in parts, the first text."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        content = next((part["text"] for part in content if isinstance(part, dict) and "text" in part), None)
    return content if isinstance(content, str) else ""


def _answer(response: JSONObject) -> ComparedAnswer:
    model = response.get("model")
    choices = response.get("choices")
    if not isinstance(choices, list):
        return ComparedAnswer((), _without(response, RUN_FIELDS), model if isinstance(model, str) else "")
    return ComparedAnswer(tuple(map(_choice, choices)), {}, model if isinstance(model, str) else "")


def _choice(value: JSON) -> ComparedChoice:
    if not isinstance(value, dict):
        return ComparedChoice("", other={"choice": value})
    message = value.get("message")
    message_fields: JSONObject = message if isinstance(message, dict) else {"content": value.get("text")}
    text, parts = _split_content(message_fields.get("content"))
    refusal = message_fields.get("refusal")
    standard_fields = {"role", "content", "refusal", "tool_calls", "function_call"}
    extra = _without(message_fields, standard_fields | NOISE_FIELDS)
    if parts:
        extra["content"] = parts
    if message_fields.get("role", "assistant") != "assistant":
        extra["role"] = message_fields["role"]
    other = _without(value, {"message", "text", "finish_reason"} | NOISE_FIELDS)
    return ComparedChoice(
        text,
        value.get("finish_reason"),
        refusal if isinstance(refusal, str) else "",
        _tool_calls(message_fields),
        {**other, **({"message": extra} if extra else {})},
    )


def _split_content(content: JSON) -> tuple[str, JSON]:
    """The text of a message's content, and its parts that are not text."""
    if content is None or isinstance(content, str):
        return content or "", None
    if not isinstance(content, list):
        return "", content
    texts = [part["text"] for part in content if _is_text_part(part)]  # type: ignore[call-overload,index]  # it is one
    return "".join(cast("list[str]", texts)), [part for part in content if not _is_text_part(part)]


def _is_text_part(part: JSON) -> bool:
    return isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)


def _tool_calls(message: JSONObject) -> tuple[ToolCall, ...]:
    listed = message.get("tool_calls")
    calls = listed if isinstance(listed, list) else []
    legacy = message.get("function_call")
    return tuple(map(_tool_call, [*calls, legacy] if isinstance(legacy, dict) else calls))


def _tool_call(value: JSON) -> ToolCall:
    if not isinstance(value, dict):
        return ToolCall("", value)
    inner = next((value[key] for key in ("function", "custom") if isinstance(value.get(key), dict)), value)
    body = cast("JSONObject", inner)
    name = body.get("name")
    arguments_field = "arguments" if "arguments" in body else "input"
    other = _without(value, {"id", "index", "function", "custom", "name", arguments_field})
    if other.get("type") == "function":
        del other["type"]
    if body is not value:
        other |= _without(body, {"name", arguments_field})
    return ToolCall(name if isinstance(name, str) else "", _parsed(body.get(arguments_field)), other)


def _parsed(arguments: JSON) -> JSON:
    """Arguments are JSON in a string; a model may write something else, which is then kept as it is."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return parse_all_members(arguments.encode())
    except (NotJSON, UnicodeEncodeError):
        return arguments


def _without(value: JSONObject, names: frozenset[str] | set[str]) -> JSONObject:
    """The members that say something: not the named ones, and none that is null or empty."""
    return {key: member for key, member in value.items() if key not in names and member not in (None, "", [], {})}
