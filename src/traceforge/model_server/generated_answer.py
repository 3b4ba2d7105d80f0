"""The answer to a request: a pure function of the request.

In: a `GenerationRequest`, which a provider's module read from its API. Out: a `GeneratedAnswer`, a text or a tool
call, which that module writes in its API. Never: depends on the time, on chance, or on an earlier request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from traceforge.model_server.schema_values import make_schema_value
from traceforge.model_server.seeded_choice import SeededChoices

WORDS_PER_CHUNK = 4  # Of a stream: several chunks for a sentence, not one for each word.
CHARACTERS_PER_TOKEN = 4  # The usual estimate.
TOPIC_CHARACTERS = 60

OPENINGS = (
    "Certainly.", "Of course.", "Happy to help.", "Thank you for asking.", "Good question.", "Right away.",
    "Here is what I know.", "Gladly.", "With pleasure.", "Let me explain.", "No problem.", "Sure.", "Here you are.",
    "Thank you for waiting.", "Good to hear from you.", "I have looked into it.",
)  # fmt: skip
TIMES = (
    "Usually", "As a rule", "On most days", "In short", "Today", "This week", "Quite often", "In general", "By now",
    "For once", "As always", "In the end", "So far", "Without doubt", "At best", "In practice",
)  # fmt: skip
QUALITIES = (
    "a careful", "a patient", "a quick", "an honest", "a cheerful", "a quiet", "a clever", "a steady", "a friendly",
    "a tired", "a thorough", "a curious", "a sleepy", "a punctual", "a brave", "a modest",
)  # fmt: skip
ACTORS = (
    "clerk", "courier", "sailor", "gardener", "baker", "pilot", "librarian", "tailor", "engineer", "painter",
    "doctor", "teacher", "farmer", "miller", "keeper", "ranger",
)  # fmt: skip
ACTIONS = (
    "checks", "packs", "carries", "finds", "counts", "repairs", "opens", "delivers", "weighs", "sorts", "signs",
    "returns", "wraps", "labels", "moves", "guards",
)  # fmt: skip
OBJECTS = (
    "every parcel", "the last letter", "a small box", "two crates", "the blue folder", "an old ledger",
    "the long list", "each receipt", "a spare key", "the whole shelf", "three tickets", "a warm coat",
    "the front door", "some glass", "the green lamp", "a new map",
)  # fmt: skip
PLACES = (
    "before noon", "at the station", "near the harbour", "by the window", "after the rain", "behind the counter",
    "in the morning", "without a word", "on the first floor", "with great care", "across the bridge", "within a day",
    "under the roof", "at the gate", "until evening", "along the river",
)  # fmt: skip


class OfferedTool(NamedTuple):
    """A tool that the model may call."""

    name: str
    schema: dict[str, Any]


class PromptItem(NamedTuple):
    """A message, a tool call or a tool result of the conversation."""

    kind: Literal["system", "user", "assistant", "call", "result"]
    text: str  # Of a call: the tool's name.


@dataclass(frozen=True)
class GenerationRequest:
    """The parts of a request that decide the answer's form. Everything else is in `digest`."""

    digest: str
    size: int  # Of the request, in characters.
    model: str
    items: list[PromptItem]
    tools: list[OfferedTool] = field(default_factory=list)
    tool_choice: str = "auto"  # Or "none", or "any": a tool of `tools` must be called.
    schema: dict[str, Any] | None = None  # The answer must be JSON of this schema; empty: any JSON object.
    tokens_max: int | None = None
    stops: list[str] = field(default_factory=list)  # The answer ends before the first of these texts.
    is_plain_value: bool = False  # The answer is the text of the schema's value, not its JSON.


class FinishReason(Enum):
    """The reason why a generated answer ends."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"


class GeneratedToolCall(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class GeneratedAnswer:
    """An answer. With a tool call, `text` comes before it."""

    digest: str
    text: str
    tool_call: GeneratedToolCall | None
    finish_reason: FinishReason
    tokens_in: int
    tokens_out: int
    stop_sequence: str | None = None  # The text before which it ends, where there was one.

    def make_id(self, prefix: str, length: int = 24) -> str:
        """An id such as providers make."""
        return f"{prefix}{self.digest[:length]}"

    def text_chunks(self) -> list[str]:
        """The text in the chunks of a stream."""
        return split_words(self.text, WORDS_PER_CHUNK)

    def argument_chunks(self) -> list[str]:
        """The JSON of the tool call's arguments in the chunks of a stream."""
        text = self.tool_call.arguments_json if self.tool_call else ""
        return [text[start : start + 12] for start in range(0, len(text), 12)]


def split_words(text: str, count: int) -> list[str]:
    """Chunks of `count` words; joined they are the text."""
    words = re.findall(r"\s*\S+", text)
    return ["".join(words[start : start + count]) for start in range(0, len(words), count)]


def generate_answer(request: GenerationRequest, number: int = 0) -> GeneratedAnswer:
    """The answer to a request; `number` tells several answers to one request apart."""
    digest = request.digest if number == 0 else f"{request.digest[:-4]}{number:04x}"
    choices = SeededChoices(digest)
    tokens_in = -(-request.size // CHARACTERS_PER_TOKEN)
    tool = choose_tool(request)
    if tool:
        arguments = make_schema_value({**tool.schema, "type": "object"}, choices, _conversation_text(request))
        call = GeneratedToolCall(tool.name, arguments)
        opening = choices.choose(OPENINGS)
        subject = f"{choices.choose(TIMES)}, {choices.choose(QUALITIES)} {choices.choose(ACTORS)}"
        text = f"{opening} {subject} would look first."
        tokens_out = 8 + len(call.arguments_json) // CHARACTERS_PER_TOKEN
        return GeneratedAnswer(digest, text, call, FinishReason.TOOL, tokens_in, tokens_out)
    uncut_text = _answer_text(request, choices)
    text, stop = cut_at_stop(uncut_text, request.stops)
    words = split_words(text, 1)
    used = words if request.tokens_max is None else words[: request.tokens_max]
    if len(used) < len(words):
        return GeneratedAnswer(digest, "".join(used), None, FinishReason.LENGTH, tokens_in, len(used))
    return GeneratedAnswer(digest, "".join(used), None, FinishReason.STOP, tokens_in, len(used), stop)


def cut_at_stop(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The text before the first of some texts, and which that was."""
    places = {stop: text.find(stop) for stop in stops if stop in text}
    first = min(places, key=lambda stop: places[stop], default=None)
    return (text, None) if first is None else (text[: places[first]], first)


def choose_tool(request: GenerationRequest) -> OfferedTool | None:
    """The tool to call now, or None.

    It is the first that was not called yet and shares a word of its name with the question; otherwise, while none was
    called or one must be, the first.
    """
    called = [item.text for item in _last_turn(request) if item.kind == "call"]
    if request.tool_choice == "none" or not request.tools:
        return None
    question = set(re.findall(r"[a-z]+", _question(request).lower()))
    matches = [tool for tool in request.tools if question & set(re.findall(r"[a-z]{4,}", tool.name.lower()))]
    uncalled = [tool for tool in matches if tool.name not in called]
    if uncalled:
        return uncalled[0]
    return request.tools[0] if not called or request.tool_choice == "any" else None


def _last_turn(request: GenerationRequest) -> list[PromptItem]:
    """The last message of the user, and everything after it."""
    starts = [index for index, item in enumerate(request.items) if item.kind == "user"]
    return request.items[starts[-1] :] if starts else request.items


def _question(request: GenerationRequest) -> str:
    return next((item.text for item in reversed(request.items) if item.kind == "user"), "")


def _conversation_text(request: GenerationRequest) -> str:
    return "\n".join(item.text for item in request.items if item.kind in ("user", "result"))


def _answer_text(request: GenerationRequest, choices: SeededChoices) -> str:
    if request.schema:
        value = make_schema_value(request.schema, choices, _conversation_text(request))
        if request.is_plain_value:
            return str(value)
        return json.dumps(value, ensure_ascii=False)
    prose = " ".join(_sentences(request, choices))
    return prose if request.schema is None else json.dumps({"answer": prose}, ensure_ascii=False)


def _sentences(request: GenerationRequest, choices: SeededChoices) -> Iterator[str]:
    results = [item.text for item in _last_turn(request) if item.kind == "result"]
    yield choices.choose(OPENINGS)
    for result in results:
        yield f"{_describe_result(result)}."
    if not results:
        topic = " ".join(_question(request).split())
        yield f"You asked: “{topic if len(topic) <= TOPIC_CHARACTERS else topic[:TOPIC_CHARACTERS] + '…'}”"
        yield _remark(choices)
    yield _remark(choices)


def _remark(choices: SeededChoices) -> str:
    """A sentence that tells 28 bits of the digest."""
    subject = f"{choices.choose(TIMES)}, {choices.choose(QUALITIES)} {choices.choose(ACTORS)}"
    return f"{subject} {choices.choose(ACTIONS)} {choices.choose(OBJECTS)} {choices.choose(PLACES)}."


def _describe_result(result: str) -> str:
    """The result of a tool as a sentence."""
    try:
        value = json.loads(result)
    except ValueError:
        return result.strip().rstrip(".")
    if not isinstance(value, dict) or not value:
        return f"The result is {result}"
    facts = ", ".join(f"the {name.replace('_', ' ')} is {fact}" for name, fact in value.items())
    return facts[0].upper() + facts[1:]
