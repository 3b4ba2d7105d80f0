"""Cleaning what comes in pieces.

In: the chunks of a response, or the fragments of one text. Out: as many pieces, borders kept as near as can be, in
which a secret that crossed a border is `[REDACTED]` where it began and gone where it went on. Never: gives out bytes
that may still turn out to be a part of a secret.

A model's answer comes as events (SSE or a JSON document a line), each with a few characters of a text. Texts that go
on from event to event are told apart by where they stand: the same path in the event, with the same `index`, `type`,
`item_id` and so on around it. They are joined, cleaned as one text and cut again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from traceforge.canon import DEPTH_MAX, is_deeper_than, json_bytes
from traceforge.redact.json_redaction import Change, clean_json, settle_json
from traceforge.redact.redactions import Redacted, Redaction
from traceforge.redact.scanner import Found
from traceforge.redact.secret_finder import Finder, decode, encode
from traceforge.wire.json_streams import ArrayParser

HELD_BYTES_MAX = 8_192  # How much a text stream holds back: longer than any token but a large JWT or a key block.
STEP_BYTES = 4_096  # It gives out no less at a time, so that many small pieces do not cost a scan each.
CONTEXT_BYTES = 640  # What a detector looks back at most: the command line before `-u user:password`.
BLOCK_BYTES_MAX = 65_536  # A private key that was opened is held back as far as this.

# Members that carry a part of a longer text. Others (ids, names, times) repeat, and are not joined.
TEXT_NAMES = frozenset(
    {
        "content", "text", "delta", "arguments", "partial_json", "thinking", "reasoning", "reasoning_content",
        "reasoning_text", "refusal", "response", "transcript", "completion", "input", "output", "code", "summary",
    }
)  # fmt: skip
_MARKS = ("index", "output_index", "content_index", "summary_index", "item_id", "type")
_JSON_LINE = re.compile(rb"(?:\xef\xbb\xbf)?[ \t]*(?:data:)?[ \t]*([\[{][^\r\n]*)")


class Edit(NamedTuple):
    """Bytes from `start` to `end` become `new`."""

    start: int
    end: int
    new: bytes


def clean_fragments(finder: Finder, fragments: Sequence[str]) -> list[str]:
    """Clean the pieces of one text: as many pieces, joined they are the cleaned text."""
    pieces = [encode(fragment) for fragment in fragments]
    found = finder.find(b"".join(pieces))
    return [decode(piece) for piece in _cut(finder, pieces, found)] if found else list(fragments)


def _cut(finder: Finder, pieces: Sequence[bytes], found: Sequence[Found]) -> list[bytes]:
    """Replace what was found in the joined pieces, and cut at the same borders."""
    return apply_edits(pieces, _edits(finder, b"".join(pieces), found), whole=True)


def _edits(finder: Finder, data: bytes, found: Sequence[Found]) -> list[Edit]:
    return [Edit(item.start, item.end, finder.replace(data[item.start : item.end], [_all(item)])) for item in found]


def _all(item: Found) -> Found:
    return Found(0, item.end - item.start, item.type)


def apply_edits(chunks: Sequence[bytes], edits: Sequence[Edit], *, whole: bool = False) -> list[bytes]:
    """Make edits in the joined chunks and cut at the old borders.

    A border inside an edit moves: behind the new bytes if they are `whole`, else as far into them as it was into the
    old ones.
    """
    data = b"".join(chunks)
    parts: list[bytes] = []
    olds, news = [0], [0]  # where unchanged bytes go on, before and after
    last = size = 0
    for edit in edits:
        parts += (data[last : edit.start], edit.new)
        size += edit.start - last + len(edit.new)
        last = edit.end
        olds.append(edit.end)
        news.append(size)
    parts.append(data[last:])
    changed = b"".join(parts)

    def move(border: int) -> int:
        which = bisect_right(olds, border) - 1
        if which < len(edits) and border > edits[which].start:
            new = len(edits[which].new)
            into = new if whole else min(border - edits[which].start, new)
            return news[which] + edits[which].start - olds[which] + into
        return news[which] + border - olds[which]

    borders, place = [0], 0
    for chunk in chunks[:-1]:
        place += len(chunk)
        borders.append(move(place))
    borders.append(len(changed))
    return [changed[first:second] for first, second in pairwise(borders)]


class Event(NamedTuple):
    """A JSON value of a stream, and where its text stands."""

    start: int
    end: int
    value: Any


class Part(NamedTuple):
    """One string of one event that is a part of a longer text."""

    event: int
    container: Any
    key: str | int
    text: str


def clean_events(finder: Finder, chunks: Sequence[bytes]) -> Redacted[list[bytes]]:
    """Clean a stream of events (SSE, NDJSON); lines that hold no JSON are cleaned as text.

    Three scans for the whole stream: of the texts that go on, of every value, and of the bytes as they are.
    """
    return _clean_parts(finder, chunks, list(find_events(b"".join(chunks))))


def _clean_parts(finder: Finder, chunks: Sequence[bytes], events: Sequence[Event]) -> Redacted[list[bytes]]:
    data = b"".join(chunks)
    edited, log = _join_and_clean(finder, events)
    cleaned = clean_json(finder, [event.value for event in events])
    log += cleaned.log
    raw = finder.find(data)
    if not log and not raw:
        return Redacted(list(chunks), [])
    edits = _text_edits(finder, data, _outside(raw, events), log)
    assert isinstance(cleaned.value, list)
    for number, (event, value) in enumerate(zip(events, cleaned.value, strict=True)):
        if number in edited or value != event.value or _hides_more(finder, data, event, raw):
            edits.append(Edit(event.start, event.end, json_bytes(value)))
    return Redacted(apply_edits(chunks, sorted(edits)), log)


def clean_array(finder: Finder, chunks: Sequence[bytes]) -> Redacted[list[bytes]] | None:
    """Clean a stream that is one JSON array, an event an element; None where it is no array of objects.

    One that was cut off is cleaned element by element as far as it came, and what is left of the last as text.
    """
    data = b"".join(chunks)
    events = list(_elements(data))
    if not events:
        return None
    try:
        values = orjson.loads(data)
    except orjson.JSONDecodeError:
        values = None
    if values is not None and len(values) != len(events):
        return None
    return _clean_parts(finder, chunks, events)


def _elements(data: bytes) -> Iterator[Event]:
    place = 0
    for item in ArrayParser().feed(data):
        place = data.index(item, place)
        value = _value(item)
        if value is not None:
            yield Event(place, place + len(item), value)
        place += len(item)


def _outside(raw: Sequence[Found], events: Sequence[Event]) -> list[Found]:
    """What was found in lines that hold no JSON."""
    starts = [event.start for event in events]
    return [item for item in raw if not _within(item, starts, events)]


def _within(item: Found, starts: list[int], events: Sequence[Event]) -> bool:
    which = bisect_right(starts, item.start) - 1
    return (which >= 0 and item.start < events[which].end) or (
        which + 1 < len(events) and item.end > events[which + 1].start
    )


def _hides_more(finder: Finder, data: bytes, event: Event, raw: Sequence[Found]) -> bool:
    """Is there a secret in the bytes that the value does not have: a member that another of its name replaced?"""
    if not any(event.start <= item.start < event.end for item in raw):
        return False
    return bool(finder.find(data[event.start : event.end])) and not finder.find(json_bytes(event.value))


def find_events(data: bytes) -> Iterator[Event]:
    """The JSON values of a stream of lines: SSE, NDJSON."""
    for line in re.finditer(rb"[^\r\n]+", data):
        found = _JSON_LINE.match(line[0])
        if found is None:
            continue
        value = _value(found[1])
        if value is not None:
            yield Event(line.start() + found.start(1), line.end(), value)


def _value(data: bytes) -> Any:  # noqa: ANN401 (any JSON)
    """The JSON value of an event; None where it is none, or nests so deep that nobody reads it as one."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return None if data.count(b"[") + data.count(b"{") > DEPTH_MAX and is_deeper_than(value) else value


def _text_edits(finder: Finder, data: bytes, found: Sequence[Found], log: list[Redaction]) -> list[Edit]:
    for item in found:
        log.append(Redaction("$", item.start, item.type, data[item.start : item.end].decode(errors="replace")))
    return _edits(finder, data, found)


def _join_and_clean(finder: Finder, events: Sequence[Event]) -> tuple[set[int], list[Redaction]]:
    """Clean every text that goes on over events, in their parsed values; which events changed, and the log."""
    texts: dict[tuple[object, ...], list[Part]] = {}
    for number, event in enumerate(events):
        gather_texts(event.value, (), number, texts)
    changed: set[int] = set()
    log: list[Redaction] = []
    longer = {place: parts for place, parts in texts.items() if len(parts) > 1}
    everything = b"\0".join(encode("".join(part.text for part in parts)) for parts in longer.values())
    if not everything or not (finder.find(everything) or not finder.is_plain):
        return changed, log
    for place, parts in longer.items():
        change, pieces = _clean_run(finder, [part.text for part in parts])
        log += [Redaction(_place_text(place), *secret) for secret in change.secrets]
        for part, text in zip(parts, pieces, strict=True):
            if part.text != text:
                part.container[part.key] = text
                changed.add(part.event)
    return changed, log


def _clean_run(finder: Finder, texts: list[str]) -> tuple[Change, list[str]]:
    """Clean a text that came in parts; JSON that would be broken by it is written anew, in the first part."""
    pieces = [encode(text) for text in texts]
    joined = b"".join(pieces)
    found = finder.find(joined)
    if not found:
        return Change("", []), texts
    secrets = [
        (len(decode(joined[: item.start])), item.type, decode(joined[item.start : item.end])) for item in found
    ]
    cleaned = [decode(piece) for piece in _cut(finder, pieces, found)]
    change = settle_json(finder, decode(joined), Change("".join(cleaned), secrets))
    if change.value != "".join(cleaned):
        cleaned = [str(change.value), *([""] * (len(texts) - 1))]
    return change, cleaned


def gather_texts(
    value: Any,  # noqa: ANN401 (any JSON)
    place: tuple[object, ...],
    event: int,
    texts: dict[tuple[object, ...], list[Part]],
) -> None:
    """Gather the texts below `value`; `place` is what tells them apart."""
    if isinstance(value, dict):
        marks = (value.get(mark) for mark in _MARKS)
        place = (*place, *(mark for mark in marks if isinstance(mark, int | str) and mark != "function"))
        for key, child in value.items():
            if isinstance(child, str):
                if key in TEXT_NAMES:
                    texts.setdefault((*place, key), []).append(Part(event, value, key, child))
            else:
                gather_texts(child, (*place, key), event, texts)
    elif isinstance(value, list):
        for number, child in enumerate(value):
            gather_texts(child, (*place, number), event, texts)


def _place_text(place: tuple[object, ...]) -> str:
    return "$[*]." + ".".join(str(step) for step in place if isinstance(step, str))


class TextStream:
    """Cleans plain text as it arrives. What may be the start of a secret is held back until more is known."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._before = b""  # The last bytes that were given out: what stands before a secret can give it away.
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take in some bytes; give out those that are certain."""
        self._held += data
        border = self._border()
        if border < STEP_BYTES:
            return b""
        found = self._find()
        for item in found:
            if item.start < border < item.end or (item.end == len(self._held) and item.start < border):
                border = item.start
        return self._give(border, found)

    def close(self) -> bytes:
        """The end of the text: everything that was held back."""
        return self._give(len(self._held), self._find())

    def _find(self) -> list[Found]:
        shift = len(self._before)
        found = self._finder.find(self._before + self._held)
        return [Found(max(item.start - shift, 0), item.end - shift, item.type) for item in found if item.end > shift]

    def _border(self) -> int:
        """How far everything is certain: before what is held back, and before a key block that is still open."""
        border = len(self._held) - HELD_BYTES_MAX
        opened = self._held.rfind(b"-----BEGIN", max(0, len(self._held) - BLOCK_BYTES_MAX))
        if opened >= 0 and b"-----END" not in self._held[opened:]:
            return min(opened, border)
        return border

    def _give(self, border: int, found: list[Found]) -> bytes:
        given = self._finder.replace(self._held[:border], [item for item in found if item.end <= border])
        self._before = (self._before + self._held[:border])[-CONTEXT_BYTES:]
        self._held = self._held[border:]
        return given
