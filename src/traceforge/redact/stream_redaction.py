"""Redact texts and responses that come in pieces.

In: the chunks of a response, or the fragments of one text. Out: as many pieces, borders kept as near as can be, in
which a secret that crossed a border is `[REDACTED]` in its first piece and removed from the others. Never: releases
bytes that may still turn out to be a part of a secret.

A model's answer comes as events (SSE or a JSON document a line), each with a few characters of a text. Texts that
continue from event to event are told apart by their place: the same path in the event, with the same `index`, `type`,
`item_id` and so on around it. They are joined, cleaned as one text and cut again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from traceforge.canon import DEPTH_MAX, is_deeper_than, json_bytes, try_parse_json
from traceforge.redact.json_redaction import Replacement, keep_valid_json, redact_json
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.redactions import Redacted, Redaction
from traceforge.redact.scanner import SecretSpan
from traceforge.redact.secret_finder import SecretFinder, decode, encode
from traceforge.wire.json_streams import ArrayParser

PENDING_BYTES_MAX = 8_192  # How much a text stream holds back: longer than any token but a large JWT or a key block.
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
_IDENTITY_FIELDS = ("index", "output_index", "content_index", "summary_index", "item_id", "type")
_JSON_LINE = LazyPattern(rb"(?:\xef\xbb\xbf)?[ \t]*(?:data:)?[ \t]*([\[{][^\r\n]*)")


class ByteEdit(NamedTuple):
    """Bytes from `start` to `end` become `new`."""

    start: int
    end: int
    new: bytes


def redact_fragments(finder: SecretFinder, fragments: Sequence[str]) -> list[str]:
    """Clean the pieces of one text: as many pieces, joined they are the cleaned text."""
    pieces = [encode(fragment) for fragment in fragments]
    spans = finder.find_secrets(b"".join(pieces))
    return [decode(piece) for piece in _replace_and_split(finder, pieces, spans)] if spans else list(fragments)


def _replace_and_split(finder: SecretFinder, pieces: Sequence[bytes], spans: Sequence[SecretSpan]) -> list[bytes]:
    """Replace the secrets of the joined pieces, and cut at the same borders."""
    return apply_edits(pieces, _span_edits(finder, b"".join(pieces), spans), keep_together=True)


def _span_edits(finder: SecretFinder, data: bytes, spans: Sequence[SecretSpan]) -> list[ByteEdit]:
    return [
        ByteEdit(item.start, item.end, finder.replace_secrets(data[item.start : item.end], [_relative_span(item)]))
        for item in spans
    ]


def _relative_span(item: SecretSpan) -> SecretSpan:
    return SecretSpan(0, item.end - item.start, item.type)


def apply_edits(chunks: Sequence[bytes], edits: Sequence[ByteEdit], *, keep_together: bool = False) -> list[bytes]:
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
        index = bisect_right(olds, border) - 1
        if index < len(edits) and border > edits[index].start:
            new = len(edits[index].new)
            into = new if keep_together else min(border - edits[index].start, new)
            return news[index] + edits[index].start - olds[index] + into
        return news[index] + border - olds[index]

    borders, place = [0], 0
    for chunk in chunks[:-1]:
        place += len(chunk)
        borders.append(move(place))
    borders.append(len(changed))
    return [changed[first:second] for first, second in pairwise(borders)]


class StreamEvent(NamedTuple):
    """A JSON value of a stream, and the range of its text."""

    start: int
    end: int
    value: Any


class TextPart(NamedTuple):
    """One string of one event that is a part of a longer text."""

    event: int
    container: Any
    key: str | int
    text: str


def redact_events(finder: SecretFinder, chunks: Sequence[bytes]) -> Redacted[list[bytes]]:
    """Clean a stream of events (SSE, NDJSON); lines that hold no JSON are cleaned as text.

    Three scans for the whole stream: of the texts that go on, of every value, and of the bytes as they are.
    """
    return _redact_events(finder, chunks, list(find_events(b"".join(chunks))))


def _redact_events(
    finder: SecretFinder, chunks: Sequence[bytes], events: Sequence[StreamEvent]
) -> Redacted[list[bytes]]:
    data = b"".join(chunks)
    edited, log = _redact_joined_texts(finder, events)
    cleaned = redact_json(finder, [event.value for event in events])
    log += cleaned.log
    raw = finder.find_secrets(data)
    if not log and not raw:
        return Redacted(list(chunks), [])
    edits = _text_edits(finder, data, _spans_outside_events(raw, events), log)
    assert isinstance(cleaned.value, list)
    for number, (event, value) in enumerate(zip(events, cleaned.value, strict=True)):
        if number in edited or value != event.value or _has_hidden_secret(finder, data, event, raw):
            edits.append(ByteEdit(event.start, event.end, json_bytes(value)))
    return Redacted(apply_edits(chunks, sorted(edits)), log)


def redact_array(finder: SecretFinder, chunks: Sequence[bytes]) -> Redacted[list[bytes]] | None:
    """Clean a stream that is one JSON array, an event an element; None if it is not an array of objects.

    One that was cut off is cleaned element by element as far as it came, and what is left of the last as text.
    """
    data = b"".join(chunks)
    events = list(_find_array_events(data))
    if not events:
        return None
    values = try_parse_json(data)
    if isinstance(values, list) and len(values) != len(events):
        return None
    return _redact_events(finder, chunks, events)


def _find_array_events(data: bytes) -> Iterator[StreamEvent]:
    place = 0
    for item in ArrayParser().feed(data):
        place = data.index(item, place)
        value = _parse_event(item)
        if value is not None:
            yield StreamEvent(place, place + len(item), value)
        place += len(item)


def _spans_outside_events(raw: Sequence[SecretSpan], events: Sequence[StreamEvent]) -> list[SecretSpan]:
    """The secrets in lines that are not JSON."""
    starts = [event.start for event in events]
    return [item for item in raw if not _overlaps_event(item, starts, events)]


def _overlaps_event(item: SecretSpan, starts: list[int], events: Sequence[StreamEvent]) -> bool:
    index = bisect_right(starts, item.start) - 1
    return (index >= 0 and item.start < events[index].end) or (
        index + 1 < len(events) and item.end > events[index + 1].start
    )


def _has_hidden_secret(finder: SecretFinder, data: bytes, event: StreamEvent, raw: Sequence[SecretSpan]) -> bool:
    """Whether the bytes hold a secret that the value lacks: a member that a second one of its name replaced."""
    if not any(event.start <= item.start < event.end for item in raw):
        return False
    return bool(finder.find_secrets(data[event.start : event.end])) and not finder.find_secrets(
        json_bytes(event.value)
    )


def find_events(data: bytes) -> Iterator[StreamEvent]:
    """The JSON values of a stream of lines: SSE, NDJSON."""
    for line in re.finditer(rb"[^\r\n]+", data):
        match = _JSON_LINE.match(line[0])
        if match is None:
            continue
        value = _parse_event(match[1])
        if value is not None:
            yield StreamEvent(line.start() + match.start(1), line.end(), value)


def _parse_event(data: bytes) -> Any:  # noqa: ANN401 (any JSON)
    """The JSON value of an event; None where it is not JSON, or nests deeper than DEPTH_MAX."""
    value = try_parse_json(data)
    return None if data.count(b"[") + data.count(b"{") > DEPTH_MAX and is_deeper_than(value) else value


def _text_edits(
    finder: SecretFinder, data: bytes, spans: Sequence[SecretSpan], log: list[Redaction]
) -> list[ByteEdit]:
    for item in spans:
        log.append(Redaction("$", item.start, item.type, data[item.start : item.end].decode(errors="replace")))
    return _span_edits(finder, data, spans)


def _redact_joined_texts(finder: SecretFinder, events: Sequence[StreamEvent]) -> tuple[set[int], list[Redaction]]:
    """Clean every text that goes on over events, in their parsed values; which events changed, and the log."""
    texts: dict[tuple[object, ...], list[TextPart]] = {}
    for number, event in enumerate(events):
        collect_texts(event.value, (), number, texts)
    changed: set[int] = set()
    log: list[Redaction] = []
    longer = {place: parts for place, parts in texts.items() if len(parts) > 1}
    everything = b"\0".join(encode("".join(part.text for part in parts)) for parts in longer.values())
    if not everything or not (finder.find_secrets(everything) or not finder.has_only_built_ins):
        return changed, log
    for place, parts in longer.items():
        change, pieces = _redact_joined_text(finder, [part.text for part in parts])
        log += [Redaction(_place_text(place), *secret) for secret in change.secrets]
        for part, text in zip(parts, pieces, strict=True):
            if part.text != text:
                part.container[part.key] = text
                changed.add(part.event)
    return changed, log


def _redact_joined_text(finder: SecretFinder, texts: list[str]) -> tuple[Replacement, list[str]]:
    """Clean a text that came in parts; JSON that would become invalid is written again, in the first part."""
    pieces = [encode(text) for text in texts]
    joined = b"".join(pieces)
    spans = finder.find_secrets(joined)
    if not spans:
        return Replacement("", []), texts
    secrets = [
        (len(decode(joined[: item.start])), item.type, decode(joined[item.start : item.end])) for item in spans
    ]
    cleaned = [decode(piece) for piece in _replace_and_split(finder, pieces, spans)]
    change = keep_valid_json(finder, decode(joined), Replacement("".join(cleaned), secrets))
    if change.value != "".join(cleaned):
        cleaned = [str(change.value), *([""] * (len(texts) - 1))]
    return change, cleaned


def collect_texts(
    value: Any,  # noqa: ANN401 (any JSON)
    place: tuple[object, ...],
    event: int,
    texts: dict[tuple[object, ...], list[TextPart]],
) -> None:
    """Gather the texts below `value`; `place` is what tells them apart."""
    if isinstance(value, dict):
        marks = (value.get(mark) for mark in _IDENTITY_FIELDS)
        place = (*place, *(mark for mark in marks if isinstance(mark, int | str) and mark != "function"))
        for key, child in value.items():
            if isinstance(child, str):
                if key in TEXT_NAMES:
                    texts.setdefault((*place, key), []).append(TextPart(event, value, key, child))
            else:
                collect_texts(child, (*place, key), event, texts)
    elif isinstance(value, list):
        for number, child in enumerate(value):
            collect_texts(child, (*place, number), event, texts)


def _place_text(place: tuple[object, ...]) -> str:
    return "$[*]." + ".".join(str(step) for step in place if isinstance(step, str))


class TextStreamRedactor:
    """Cleans plain text as it arrives. What may be the start of a secret is held back until more is known."""

    def __init__(self, finder: SecretFinder) -> None:
        self._finder = finder
        self._context = b""  # The last bytes that were released: a detector looks at what precedes a secret.
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        """Take in some bytes; give out those that are certain."""
        self._pending += data
        border = self._safe_end()
        if border < STEP_BYTES:
            return b""
        spans = self._find_pending()
        for item in spans:
            if item.start < border < item.end or (item.end == len(self._pending) and item.start < border):
                border = item.start
        return self._release(border, spans)

    def close(self) -> bytes:
        """The end of the text: everything that was held back."""
        return self._release(len(self._pending), self._find_pending())

    def _find_pending(self) -> list[SecretSpan]:
        shift = len(self._context)
        spans = self._finder.find_secrets(self._context + self._pending)
        return [
            SecretSpan(max(item.start - shift, 0), item.end - shift, item.type) for item in spans if item.end > shift
        ]

    def _safe_end(self) -> int:
        """How far everything is certain: before what is held back, and before a key block that is still open."""
        border = len(self._pending) - PENDING_BYTES_MAX
        opened = self._pending.rfind(b"-----BEGIN", max(0, len(self._pending) - BLOCK_BYTES_MAX))
        if opened >= 0 and b"-----END" not in self._pending[opened:]:
            return min(opened, border)
        return border

    def _release(self, border: int, spans: list[SecretSpan]) -> bytes:
        released = self._finder.replace_secrets(
            self._pending[:border], [item for item in spans if item.end <= border]
        )
        self._context = (self._context + self._pending[:border])[-CONTEXT_BYTES:]
        self._pending = self._pending[border:]
        return released
