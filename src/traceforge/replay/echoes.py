"""Refill echoes: put redacted values of the live request back into the recorded response.

A value is escaped once for each JSON string around its `[REDACTED]`: not at all in plain text, once in a document,
twice in a text that is itself JSON, such as the arguments of a tool call. This depth is found by parsing, and never
guessed from quotes: prose has quotes, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from traceforge.canon import DEPTH_MAX, json_bytes, try_parse_json
from traceforge.exchange import Chunk
from traceforge.redact.joined_texts import join_texts_by_place
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.redact.stream_events import find_events
from traceforge.redact.text_edits import ByteEdit, apply_edits
from traceforge.replay.recorded_response import RecordedResponse

_MARKER = REDACTED.encode()

# The depths of the markers in one part of a text that several events share, by the part's container and key.
PartDepths = dict[tuple[int, str | int], list[int]]


def refill_echoes(response: RecordedResponse, redactions: Sequence[Redaction]) -> RecordedResponse:
    """Replace the echoes of a response by the redacted values of the live request; chunks keep their boundaries."""
    if not response.echoes:
        return response
    body = response.body
    values = _values_by_place(redactions)
    depths = dict(enumerate(find_marker_depths(body)))
    replacements = {
        echo.marker: escape_for_depth(values[echo.path, echo.nth], depths.get(echo.marker, 1))
        for echo in response.echoes
        if (echo.path, echo.nth) in values
    }
    edits = [
        ByteEdit(marker.start(), marker.end(), replacements[number])
        for number, marker in enumerate(re.finditer(re.escape(_MARKER), body))
        if number in replacements
    ]
    pieces = apply_edits([chunk.data for chunk in response.chunks], edits)
    chunks = (Chunk(chunk.t_ms, data) for chunk, data in zip(response.chunks, pieces, strict=True))
    return response._replace(chunks=tuple(chunks))


def _values_by_place(redactions: Sequence[Redaction]) -> dict[tuple[str, int], str]:
    counts: dict[str, int] = {}
    values: dict[tuple[str, int], str] = {}
    for redaction in redactions:
        nth = counts[redaction.path] = counts.get(redaction.path, -1) + 1
        values[redaction.path, nth] = redaction.reveal()
    return values


def find_marker_depths(data: bytes) -> list[int]:
    """For each `[REDACTED]` in order, the number of JSON strings around it."""
    document = _parse_document(data)
    if document is not None:
        elements = document if isinstance(document, list) else []  # Gemini may stream an array.
        return _checked_depths(_depths_in_value(document, _find_part_depths(elements)), data)
    events = list(find_events(data))
    part_depths = _find_part_depths([event.value for event in events])
    depths: list[int] = []
    position = 0
    for event in events:
        depths += [0] * data.count(_MARKER, position, event.start)
        depths += _checked_depths(_depths_in_value(event.value, part_depths), data[event.start : event.end])
        position = event.end
    return depths + [0] * data.count(_MARKER, position)


def escape_for_depth(value: str, depth: int) -> bytes:
    """A value as it is written inside so many JSON strings."""
    for _ in range(depth):
        value = json_bytes(value).decode()[1:-1]
    return value.encode("utf-8", "replace")


def _parse_document(data: bytes | str) -> Any:  # noqa: ANN401 (any JSON)
    head = data.lstrip()[:1]
    if head not in ("{", "[", b"{", b"["):
        return None
    return try_parse_json(data)


def _checked_depths(depths: Iterator[int], data: bytes) -> list[int]:
    """The depths, if the text has as many markers; a duplicate member is in the text but not in the value."""
    found_depths = list(depths)
    count = data.count(_MARKER)
    return found_depths if len(found_depths) == count else [1] * count


def _find_part_depths(values: list[Any]) -> PartDepths:
    """The depths in texts that several events share: each text is parsed as a whole."""
    part_depths: PartDepths = {}
    for text in join_texts_by_place(values):
        if text.is_known and len(text.parts) > 1 and REDACTED in text.joined:
            depths = iter(list(_depths_in_text(text.joined)))
            for part in text.parts:
                count = part.text.count(REDACTED)
                part_depths[id(part.container), part.key] = [1 + next(depths, 0) for _ in range(count)]
    return part_depths


def _depths_in_value(value: Any, part_depths: PartDepths, level: int = 0) -> Iterator[int]:  # noqa: ANN401 (any JSON)
    """The depths of the markers below a value, in the order of its text."""
    if isinstance(value, str):
        yield from (1 + depth for depth in _depths_in_text(value, level))
        return
    if level > DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, child in value.items():
            yield from [1] * key.count(REDACTED)
            yield from part_depths.get((id(value), key)) or _depths_in_value(child, part_depths, level + 1)
    elif isinstance(value, list):
        for child in value:
            yield from _depths_in_value(child, part_depths, level + 1)


def _depths_in_text(text: str, level: int = 0) -> Iterator[int]:
    """The depths of the markers in a text, which may be JSON."""
    if REDACTED not in text:
        return iter(())
    document = _parse_document(text)
    plain = [0] * text.count(REDACTED)
    if document is None:
        return iter(plain)
    depths = list(_depths_in_value(document, {}, level + 1))
    return iter(depths if len(depths) == len(plain) else plain)
