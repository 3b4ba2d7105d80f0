"""Redact texts that continue from event to event of a stream.

In: the values of the events. Out: the same values, changed in place, and which events changed. Never: looks at bytes.

A model's answer comes as events, each with a few characters of a text. Which of them continue the same text follows
from their places. It is redacted in three steps, each of which reads the texts as the step before redacted them:

1. the same path, with the same `index`, `type`, `item_id` and so on around it: the deltas of one text;
2. the same numbers on the way (`index`, `output_index`, the place in a list), with any path: an event that opens
   a block with its first characters, the deltas that follow, an event that repeats the whole text at the end;
3. numbers that follow each other: the blocks or parts of one answer, which readers join.

Members whose names say that they carry text (TEXT_NAMES) take all three steps. Others take the first, and the second
with members of the same name; there, a secret counts only if nothing but a key looks like it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from traceforge.redact.json_redaction import keep_valid_json
from traceforge.redact.json_replacements import Replacement
from traceforge.redact.redactions import Redaction
from traceforge.redact.scanner import CHANCE_TYPES, SecretSpan
from traceforge.redact.secret_finder import SecretFinder, decode, encode
from traceforge.redact.text_edits import replace_and_split

# Members that carry a part of a longer text.
TEXT_NAMES = frozenset(
    {
        "content", "text", "delta", "arguments", "partial_json", "thinking", "reasoning", "reasoning_content",
        "reasoning_text", "refusal", "response", "transcript", "completion", "input", "output", "code", "summary",
    }
)  # fmt: skip
# Members that describe an event; they are no parts of a text.
LABEL_NAMES = frozenset(
    {
        "type", "id", "item_id", "object", "model", "role", "status", "finish_reason", "created_at", "service_tier",
        "system_fingerprint", "modelVersion", "responseId",
    }
)  # fmt: skip
BORDER_CHARACTERS = 4_096  # How much of each block is looked at where two of them meet: longer than any token.
REPEATS_MAX = 16  # So often a stream may repeat its texts; later repeats are looked at by themselves.

_IDENTITY_FIELDS = ("index", "output_index", "content_index", "summary_index", "item_id", "type")
_IDENTITY_NAMES = frozenset(_IDENTITY_FIELDS)
_NUMBER_FIELDS = _IDENTITY_FIELDS[:4]
_MARK_TYPES = (int, str)
_TOOL_WORDS, _THOUGHT_WORDS = ("argument", "json", "input", "code", "tool"), ("think", "reason", "summary")

Place = tuple[object, ...]


class TextPart(NamedTuple):
    """One string of one event that is a part of a longer text."""

    event: int
    container: Any
    key: str | int
    text: str  # as it was when the parts were collected

    def look_up_text(self) -> str:
        """The string as it is now."""
        text: str = self.container[self.key]
        return text


class JoinedText(NamedTuple):
    """The parts of one text, in order, and where it stands."""

    place: Place
    numbers: tuple[int, ...]
    is_known: bool  # whether its member's name is in TEXT_NAMES
    parts: list[TextPart]

    @property
    def joined(self) -> str:
        return "".join([part.text for part in self.parts])


_GAP = TextPart(-1, ["\0"], 0, "\0")  # No detector crosses it.


class _Node:
    """A place in the events of a stream: the strings there, and the places below it."""

    __slots__ = ("below", "numbers", "parts", "place")

    def __init__(self, place: Place, numbers: tuple[int, ...]) -> None:
        self.place = place
        self.numbers = numbers
        self.parts: list[TextPart] = []
        self.below: dict[object, _Node] = {}

    def add_below(self, key: object, step: Place, numbers: tuple[int, ...] = ()) -> _Node:
        node = self.below[key] = _Node(self.place + step, self.numbers + numbers if numbers else self.numbers)
        return node


def join_texts_by_place(values: Sequence[Any]) -> list[JoinedText]:
    """Every string of the events, those of the same place together."""
    root = _Node((), ())
    for number, value in enumerate(values):
        if type(value) is dict or type(value) is list:
            _collect(value, root, number)
    texts: list[JoinedText] = []
    todo = [root]
    while todo:
        node = todo.pop()
        if node.parts:
            texts.append(JoinedText(node.place, node.numbers, node.place[-1] in TEXT_NAMES, node.parts))
        todo += node.below.values()
    return texts


def _collect(value: Any, node: _Node, event: int) -> None:  # noqa: ANN401 (any JSON)
    below = node.below
    if type(value) is dict:
        if not _IDENTITY_NAMES.isdisjoint(value) and (marks := _read_marks(value)):
            node = below.get(marks) or node.add_below(
                marks, marks, tuple([mark for mark in marks if type(mark) is int])
            )
            below = node.below
        for key, child in value.items():
            kind = type(child)
            if kind is str:
                if child and key not in LABEL_NAMES:
                    (below.get(key) or node.add_below(key, (key,))).parts.append(TextPart(event, value, key, child))
            elif kind is dict or kind is list:
                _collect(child, below.get(key) or node.add_below(key, (key,)), event)
    else:
        for number, child in enumerate(value):
            kind = type(child)
            if kind is str:
                (below.get("") or node.add_below("", ("",))).parts.append(TextPart(event, value, number, child))
            elif kind is dict or kind is list:
                key = (number, kind is dict and int in map(type, map(child.get, _NUMBER_FIELDS)))
                _collect(child, below.get(key) or node.add_below(key, (number,), () if key[1] else (number,)), event)


def _read_marks(value: dict[str, Any]) -> Place:
    """What tells texts with the same path apart."""
    marks = map(value.get, _IDENTITY_FIELDS)
    return tuple(
        [mark for mark in marks if mark is not None and mark != "function" and isinstance(mark, _MARK_TYPES)]
    )


def redact_joined_texts(finder: SecretFinder, values: Sequence[Any]) -> tuple[set[int], list[Redaction]]:
    """Clean every text that goes on over events, in their parsed values; which events changed, and the log."""
    texts = join_texts_by_place(values)
    runs = _list_runs(texts)
    steps = [
        [text for text in texts if len(text.parts) > 1 and (text.is_known or _is_varying(text.parts))],
        [run.text for group in runs.values() for run in group if run.places > 1],
        list(_join_neighbours(runs)),
    ]
    changed: set[int] = set()
    log: list[Redaction] = []
    if _may_hold_secret(finder, [text for step in steps for text in step]):
        for text in (text for step in steps for text in step):
            _redact_text(finder, text, changed, log)
    return changed, log


def _is_varying(parts: Sequence[TextPart]) -> bool:
    """Whether a member is not the same in every event, as an id or the name of a model is."""
    first = parts[0].text
    return any(part.text != first for part in parts)


def _may_hold_secret(finder: SecretFinder, texts: Sequence[JoinedText]) -> bool:
    """Whether a scan of all texts at once finds anything; the user's expressions may say anything about borders."""
    if not texts or not finder.has_only_built_ins:
        return bool(texts)
    return bool(finder.find_secrets(b"\0".join(encode(text.joined) for text in texts)))


def _redact_text(finder: SecretFinder, text: JoinedText, changed: set[int], log: list[Redaction]) -> None:
    pieces = [encode(part.look_up_text()) for part in text.parts]
    spans = finder.find_secrets(b"".join(pieces))
    if not text.is_known:
        spans = [item for item in spans if item.type not in CHANCE_TYPES]
    if not spans:
        return
    change, cleaned = _replace_in_parts(finder, pieces, spans)
    log += [Redaction(_place_text(text.place), *secret) for secret in change.secrets]
    for part, new in zip(text.parts, cleaned, strict=True):
        if part.event >= 0 and part.look_up_text() != new:
            part.container[part.key] = new
            changed.add(part.event)


def _replace_in_parts(
    finder: SecretFinder, pieces: list[bytes], spans: list[SecretSpan]
) -> tuple[Replacement, list[str]]:
    """Clean a text that came in parts; JSON that would become invalid is written again, in the first part."""
    joined = b"".join(pieces)
    secrets = [
        (len(decode(joined[: item.start])), item.type, decode(joined[item.start : item.end])) for item in spans
    ]
    cleaned = [decode(piece) for piece in replace_and_split(finder, pieces, spans)]
    change = keep_valid_json(finder, decode(joined), Replacement("".join(cleaned), secrets))
    if change.value != "".join(cleaned):
        cleaned = [str(change.value), *([""] * (len(pieces) - 1))]
    return change, cleaned


class _Run(NamedTuple):
    """A text of the second step, and of how many places its parts are."""

    text: JoinedText
    places: int


def _list_runs(texts: Sequence[JoinedText]) -> dict[tuple[str, tuple[int, ...]], list[_Run]]:
    """The texts with the same numbers, in the order of their events.

    A text that begins with all that came before it repeats it and begins a new run.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[JoinedText]] = {}
    for text in texts:
        kind = _kind(text.place) if text.is_known else f".{text.place[-1]}"
        groups.setdefault((kind, text.numbers), []).append(text)
    return {
        key: [_Run(group[0], 1)] if len(group) == 1 else list(_divide_group(group))
        for key, group in sorted(groups.items())
    }


def _divide_group(group: list[JoinedText]) -> Iterator[_Run]:
    place, numbers, is_known, _ = group[0]
    ordered = sorted(
        [(part.event, number, part) for number, text in enumerate(group) for part in text.parts], key=itemgetter(0)
    )
    parts: list[TextPart] = []
    places: set[int] = set()
    size = 0
    last = -1
    for _, number, part in ordered:
        text = part.text
        if parts and number != last and len(text) >= size and text.startswith("".join([p.text for p in parts])):
            yield _Run(JoinedText(place, numbers, is_known, parts), len(places))
            parts, places, size = [], set(), 0
        parts.append(part)
        places.add(number)
        size += len(text)
        last = number
    yield _Run(JoinedText(place, numbers, is_known, parts), len(places))


def _join_neighbours(runs: dict[tuple[str, tuple[int, ...]], list[_Run]]) -> Iterator[JoinedText]:
    """The ends and beginnings of texts with neighbouring numbers."""
    for kind in ("text", "thought"):
        groups = [group for (group_kind, _), group in runs.items() if group_kind == kind]
        for generation in range(min(REPEATS_MAX, max(map(len, groups), default=0)) if len(groups) > 1 else 0):
            texts = [group[generation].text for group in groups if generation < len(group)]
            if len(texts) > 1:
                yield texts[0]._replace(parts=[part for text in texts for part in _ends(text.parts)])


def _ends(parts: list[TextPart]) -> list[TextPart]:
    """The first and the last parts of a text, with a border between them where others were left out."""
    first = _count_parts(parts)
    last = len(parts) - _count_parts(parts[::-1])
    return parts if first >= last else [*parts[:first], _GAP, *parts[last:]]


def _count_parts(parts: Sequence[TextPart]) -> int:
    """How many of the parts make up BORDER_CHARACTERS."""
    size = 0
    for number, part in enumerate(parts):
        size += len(part.text)
        if size >= BORDER_CHARACTERS:
            return number + 1
    return len(parts)


def _kind(place: Place) -> str:
    """What a text is, by the names and types on the way to it. A text of one kind does not continue another."""
    words = " ".join(step for step in place if isinstance(step, str))
    if any(word in words for word in _TOOL_WORDS):
        return "tool"
    return "thought" if any(word in words for word in _THOUGHT_WORDS) else "text"


def _place_text(place: Place) -> str:
    return "$[*]." + ".".join(step for step in place if isinstance(step, str))
