"""Redact texts and responses that come in pieces.

In: the chunks of a response, or the fragments of one text. Out: as many pieces, borders kept as near as can be, in
which a secret that crossed a border is `[REDACTED]` in its first piece and removed from the others. Never: releases
bytes that may still turn out to be a part of a secret.

A model's answer comes as events (SSE or a JSON document a line), each with a few characters of a text. Texts that
continue from event to event (`joined_texts`) are joined, cleaned as one text and cut again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from traceforge.canon import json_bytes, try_parse_json
from traceforge.redact.joined_texts import redact_joined_texts
from traceforge.redact.json_redaction import redact_json
from traceforge.redact.redactions import Redacted, Redaction
from traceforge.redact.scanner import CHANCE_TYPES, SecretSpan
from traceforge.redact.secret_finder import SecretFinder, decode, encode
from traceforge.redact.stream_events import StreamEvent, find_array_events, find_events, find_text_lines
from traceforge.redact.text_edits import ByteEdit, apply_edits, edit_spans, replace_and_split

PENDING_BYTES_MAX = 8_192  # How much a text stream holds back: longer than any token but a large JWT or a key block.
STEP_BYTES = 4_096  # It gives out no less at a time, so that many small pieces do not cost a scan each.
CONTEXT_BYTES = 640  # What a detector looks back at most: the command line before `-u user:password`.
BLOCK_BYTES_MAX = 65_536  # A private key that was opened is held back as far as this.


def redact_fragments(finder: SecretFinder, fragments: Sequence[str]) -> list[str]:
    """Clean the pieces of one text: as many pieces, joined they are the cleaned text."""
    pieces = [encode(fragment) for fragment in fragments]
    spans = finder.find_secrets(b"".join(pieces))
    return [decode(piece) for piece in replace_and_split(finder, pieces, spans)] if spans else list(fragments)


def redact_events(finder: SecretFinder, chunks: Sequence[bytes]) -> Redacted[list[bytes]]:
    """Clean a stream of events (SSE, NDJSON); lines that hold no JSON are cleaned as text.

    Three scans for the whole stream: of the texts that go on, of every value, and of the bytes as they are.
    """
    return _redact_events(finder, chunks, list(find_events(b"".join(chunks))))


def _redact_events(
    finder: SecretFinder, chunks: Sequence[bytes], events: Sequence[StreamEvent]
) -> Redacted[list[bytes]]:
    data = b"".join(chunks)
    edited, log = redact_joined_texts(finder, [event.value for event in events])
    cleaned = redact_json(finder, [event.value for event in events])
    log += cleaned.log
    raw = finder.find_secrets(data)
    lines = _redact_text_lines(finder, data, events, log)
    if not log and not raw:
        return Redacted(list(chunks), [])
    spans = _spans_outside(_spans_outside(raw, events), lines)
    edits = [*lines, *_text_edits(finder, data, spans, log)]
    assert isinstance(cleaned.value, list)
    for number, (event, value) in enumerate(zip(events, cleaned.value, strict=True)):
        if number in edited or value != event.value or _has_hidden_secret(finder, data, event, raw):
            edits.append(ByteEdit(event.start, event.end, json_bytes(value).removesuffix(event.closing)))
    return Redacted(apply_edits(chunks, sorted(edits)), log)


def redact_array(finder: SecretFinder, chunks: Sequence[bytes]) -> Redacted[list[bytes]] | None:
    """Clean a stream that is one JSON array, an event an element; None if it is not an array of objects.

    One that was cut off is cleaned element by element as far as it came, and what is left of the last as text.
    """
    data = b"".join(chunks)
    events = list(find_array_events(data))
    if not events:
        return None
    values = try_parse_json(data)
    if isinstance(values, list) and len(values) != len(events):
        return None
    return _redact_events(finder, chunks, events)


def _redact_text_lines(
    finder: SecretFinder, data: bytes, events: Sequence[StreamEvent], log: list[Redaction]
) -> list[ByteEdit]:
    """The edits of keys that are divided over events whose data is text and not JSON, in the order of their lines."""
    if data.count(b"data:") <= len(events) + 1 and data.lstrip()[:1] != b'"':  # One may be `data: [DONE]`.
        return []
    lines = find_text_lines(data, events)
    pieces = [data[start:end] for start, end in lines]
    joined = b"".join(pieces)
    borders = list(accumulate(map(len, pieces)))

    def is_divided(item: SecretSpan) -> bool:
        return bisect_right(borders, item.start) != bisect_right(borders, item.end - 1)

    spans = [item for item in finder.find_secrets(joined) if item.type not in CHANCE_TYPES or not is_divided(item)]
    if not any(map(is_divided, spans)):
        return []  # All others are found in the bytes as they are.
    log += [Redaction("$", 0, item.type, joined[item.start : item.end].decode(errors="replace")) for item in spans]
    cleaned = replace_and_split(finder, pieces, spans)
    return [
        ByteEdit(start, end, new) for (start, end), old, new in zip(lines, pieces, cleaned, strict=True) if old != new
    ]


def _spans_outside(
    spans: Sequence[SecretSpan], ranges: Sequence[StreamEvent] | Sequence[ByteEdit]
) -> list[SecretSpan]:
    """The secrets that overlap none of the ranges, which are cleaned by themselves."""
    starts = [item.start for item in ranges]
    return [item for item in spans if not _overlaps(item, starts, ranges)]


def _overlaps(item: SecretSpan, starts: list[int], ranges: Sequence[StreamEvent] | Sequence[ByteEdit]) -> bool:
    index = bisect_right(starts, item.start) - 1
    return (index >= 0 and item.start < ranges[index].end) or (
        index + 1 < len(ranges) and item.end > ranges[index + 1].start
    )


def _has_hidden_secret(finder: SecretFinder, data: bytes, event: StreamEvent, raw: Sequence[SecretSpan]) -> bool:
    """Whether the bytes hold a secret that the value lacks: a member that a second one of its name replaced."""
    if not any(event.start <= item.start < event.end for item in raw):
        return False
    return bool(finder.find_secrets(data[event.start : event.end])) and not finder.find_secrets(
        json_bytes(event.value)
    )


def _text_edits(
    finder: SecretFinder, data: bytes, spans: Sequence[SecretSpan], log: list[Redaction]
) -> list[ByteEdit]:
    for item in spans:
        log.append(Redaction("$", item.start, item.type, data[item.start : item.end].decode(errors="replace")))
    return edit_spans(finder, data, spans)


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
