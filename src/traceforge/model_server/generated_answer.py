"""What the server says: a pure function of what it was asked.

In: `Asked`, what a provider's module understood of a request. Out: `Said`, a text or the call of a tool, for that
module to put into its provider's shape. Never: looks at the time, at chance, or at an earlier request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from traceforge.model_server.schema_values import fill
from traceforge.model_server.seeded_choice import Dice

WORDS_PER_PIECE = 4  # of a stream: several pieces for a sentence, and not one for each word
CHARACTERS_PER_TOKEN = 4  # what people reckon with
TOPIC_CHARACTERS = 60

OPENINGS = (
    "Certainly.", "Of course.", "Happy to help.", "Thank you for asking.", "Good question.", "Right away.",
    "Here is what I know.", "Gladly.", "With pleasure.", "Let me explain.", "No problem.", "Sure.", "Here you are.",
    "Thank you for waiting.", "Good to hear from you.", "I have looked into it.",
)  # fmt: skip
WHEN = (
    "Usually", "As a rule", "On most days", "In short", "Today", "This week", "Quite often", "In general", "By now",
    "For once", "As always", "In the end", "So far", "Without doubt", "At best", "In practice",
)  # fmt: skip
HOW = (
    "a careful", "a patient", "a quick", "an honest", "a cheerful", "a quiet", "a clever", "a steady", "a friendly",
    "a tired", "a thorough", "a curious", "a sleepy", "a punctual", "a brave", "a modest",
)  # fmt: skip
WHO = (
    "clerk", "courier", "sailor", "gardener", "baker", "pilot", "librarian", "tailor", "engineer", "painter",
    "doctor", "teacher", "farmer", "miller", "keeper", "ranger",
)  # fmt: skip
DOES = (
    "checks", "packs", "carries", "finds", "counts", "repairs", "opens", "delivers", "weighs", "sorts", "signs",
    "returns", "wraps", "labels", "moves", "guards",
)  # fmt: skip
WHAT = (
    "every parcel", "the last letter", "a small box", "two crates", "the blue folder", "an old ledger",
    "the long list", "each receipt", "a spare key", "the whole shelf", "three tickets", "a warm coat",
    "the front door", "some glass", "the green lamp", "a new map",
)  # fmt: skip
WHERE = (
    "before noon", "at the station", "near the harbour", "by the window", "after the rain", "behind the counter",
    "in the morning", "without a word", "on the first floor", "with great care", "across the bridge", "within a day",
    "under the roof", "at the gate", "until evening", "along the river",
)  # fmt: skip


class Tool(NamedTuple):
    """A tool that is offered."""

    name: str
    schema: dict[str, Any]


class Heard(NamedTuple):
    """One thing of the conversation, in its order."""

    kind: Literal["system", "user", "assistant", "call", "result"]
    text: str  # for a call: the tool's name


@dataclass(frozen=True)
class Asked:
    """A request, as far as an answer needs it understood. All the rest of it is in `digest`."""

    digest: str
    size: int  # of the request, in characters
    model: str
    heard: list[Heard]
    tools: list[Tool] = field(default_factory=list)
    choice: str = "auto"  # or "none", "any", or the name of a tool
    schema: dict[str, Any] | None = None  # the answer must be JSON; empty: any JSON object
    tokens_max: int | None = None


class Ending(Enum):
    """Why an answer ends."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"


class Call(NamedTuple):
    """A tool to be called."""

    name: str
    arguments: dict[str, Any]

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Said:
    """An answer. With a call, `text` is what is said before it."""

    digest: str
    text: str
    call: Call | None
    ending: Ending
    tokens_in: int
    tokens_out: int

    def name(self, prefix: str, length: int = 24) -> str:
        """An id of the kind that providers give."""
        return f"{prefix}{self.digest[:length]}"

    def pieces(self) -> list[str]:
        """The text, as a stream brings it."""
        return cut(self.text, WORDS_PER_PIECE)

    def argument_pieces(self) -> list[str]:
        """The arguments of the call, as a stream brings them."""
        text = self.call.text if self.call else ""
        return [text[at : at + 12] for at in range(0, len(text), 12)]


def cut(text: str, words: int) -> list[str]:
    """In pieces of so many words; joined they are the text."""
    found = re.findall(r"\s*\S+", text)
    return ["".join(found[at : at + words]) for at in range(0, len(found), words)]


def answer(asked: Asked, number: int = 0) -> Said:
    """What is said to it; `number` tells apart several answers to one request."""
    digest = asked.digest if number == 0 else f"{asked.digest[:-4]}{number:04x}"
    dice = Dice(digest)
    tokens_in = -(-asked.size // CHARACTERS_PER_TOKEN)
    tool = choose_tool(asked)
    if tool:
        call = Call(tool.name, fill({**tool.schema, "type": "object"}, dice, _conversation(asked)))
        text = f"{dice.pick(OPENINGS)} {dice.pick(WHEN)}, {dice.pick(HOW)} {dice.pick(WHO)} would look first."
        return Said(digest, text, call, Ending.TOOL, tokens_in, 8 + len(call.text) // CHARACTERS_PER_TOKEN)
    words = cut(_text(asked, dice), 1)
    kept = words if asked.tokens_max is None else words[: asked.tokens_max]
    ending = Ending.STOP if len(kept) == len(words) else Ending.LENGTH
    return Said(digest, "".join(kept), None, ending, tokens_in, len(kept))


def choose_tool(asked: Asked) -> Tool | None:
    """The tool to call now, if one is.

    A tool that the choice demands; else the first that was not called yet and whose name has a word of the question
    in it; else, as long as none was called, the first.
    """
    called = [heard.text for heard in _turn(asked) if heard.kind == "call"]
    if asked.choice == "none" or not asked.tools:
        return None
    if asked.choice not in ("auto", "any"):
        return next((tool for tool in asked.tools if tool.name == asked.choice), None)
    question = set(re.findall(r"[a-z]+", _question(asked).lower()))
    fitting = [tool for tool in asked.tools if question & set(re.findall(r"[a-z]{4,}", tool.name.lower()))]
    left = [tool for tool in fitting if tool.name not in called]
    if left:
        return left[0]
    return asked.tools[0] if not called or asked.choice == "any" else None


def _turn(asked: Asked) -> list[Heard]:
    """What came since the user last spoke, with that."""
    starts = [at for at, heard in enumerate(asked.heard) if heard.kind == "user"]
    return asked.heard[starts[-1] :] if starts else asked.heard


def _question(asked: Asked) -> str:
    return next((heard.text for heard in reversed(asked.heard) if heard.kind == "user"), "")


def _conversation(asked: Asked) -> str:
    return "\n".join(heard.text for heard in asked.heard if heard.kind in ("user", "result"))


def _text(asked: Asked, dice: Dice) -> str:
    if asked.schema:
        return json.dumps(fill(asked.schema, dice, _conversation(asked)), ensure_ascii=False)
    prose = " ".join(_sentences(asked, dice))
    return prose if asked.schema is None else json.dumps({"answer": prose}, ensure_ascii=False)


def _sentences(asked: Asked, dice: Dice) -> Iterator[str]:
    results = [heard.text for heard in _turn(asked) if heard.kind == "result"]
    yield dice.pick(OPENINGS)
    for result in results:
        yield f"{_facts(result)}."
    if not results:
        topic = " ".join(_question(asked).split())
        yield f"You asked: “{topic if len(topic) <= TOPIC_CHARACTERS else topic[:TOPIC_CHARACTERS] + '…'}”"
        yield _remark(dice)
    yield _remark(dice)


def _remark(dice: Dice) -> str:
    """28 bits of the digest, in words."""
    start = f"{dice.pick(WHEN)}, {dice.pick(HOW)} {dice.pick(WHO)}"
    return f"{start} {dice.pick(DOES)} {dice.pick(WHAT)} {dice.pick(WHERE)}."


def _facts(result: str) -> str:
    """What a tool found, as a sentence."""
    try:
        found = json.loads(result)
    except ValueError:
        return result.strip().rstrip(".")
    if not isinstance(found, dict) or not found:
        return f"The result is {result}"
    facts = ", ".join(f"the {key.replace('_', ' ')} is {value}" for key, value in found.items())
    return facts[0].upper() + facts[1:]
