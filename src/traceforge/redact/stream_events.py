"""Find the JSON values in a stream: server-sent events, a document a line, or the elements of one array.

In: the bytes of a stream. Out: each value and the range of its text, also of a value that the stream did not finish:
such a value is closed where it ends. Never: yields what is not JSON, or nests deeper than DEPTH_MAX.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from traceforge.canon import DEPTH_MAX, is_deeper_than, parse_json, try_parse_json
from traceforge.errors import NotJSON
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.wire.json_streams import ArrayParser

_JSON_LINE = LazyPattern(rb"(?:\xef\xbb\xbf|\x1e)?[ \t]*(?P<field>data:)?[ \t]*(?P<json>[\[{][^\r\n]*)")
_JSON_LINE_STARTS = frozenset(b"\xef\x1e \td[{")  # the first byte of such a line; that of `event:` is none
_DATA_LINE = LazyPattern(rb"(?:\r\n|\r|\n)data:[ ]?(?P<more>[^\r\n]*)")
_TEXT_LINE = LazyPattern(rb"(?:\A|(?<=[\r\n]))(?:data:[ ]?|(?=\"))(?P<text>[^\r\n]+)")
_TOKEN = LazyPattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<quote>"?)|[{}\[\]]', re.DOTALL)
_CUT_ESCAPE = LazyPattern(rb"(?<!\\)((?:\\\\)*)\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_CUT_WORD = LazyPattern(rb"[-+.A-Za-z0-9]*\Z")  # the beginning of a number, of `true`, `false` or `null`


class StreamEvent(NamedTuple):
    """A JSON value of a stream, and the range of its text."""

    start: int
    end: int
    value: Any
    closing: bytes = b""  # What the text lacks to be JSON, because the stream was cut there.


def find_events(data: bytes) -> Iterator[StreamEvent]:
    """The JSON values of a stream of lines: SSE, NDJSON."""
    event_end = lines_end = 0  # Where the last event ended, and the last lines that belong together.
    for line in re.finditer(rb"[^\r\n]+", data):
        first, end = line.span()
        if first < event_end:
            continue
        if data.startswith(b"data: {", first):  # most lines
            start, is_field = first + 6, True
        elif data[first] in _JSON_LINE_STARTS and (match := _JSON_LINE.match(line[0])) is not None:
            start, is_field = first + match.start("json"), match["field"] is not None
        else:
            continue
        value = parse_event(data[start:end])
        event = None if value is None else StreamEvent(start, end, value)
        if event is None and is_field and end > lines_end:
            event, lines_end = _read_data_lines(data, start, end)
        event = event or _close_event(data, start, end)
        if event is not None:
            event_end = event.end
            yield event


def find_text_lines(data: bytes, events: Sequence[StreamEvent]) -> list[tuple[int, int]]:
    """The ranges of texts outside of the events: SSE data that is not a JSON object, and lines of one string."""
    starts = [event.start for event in events]
    lines: list[tuple[int, int]] = []
    for match in _TEXT_LINE.finditer(data):
        start, end = match.span("text")
        index = bisect_right(starts, start) - 1
        if match["text"] == b"[DONE]" or (index >= 0 and start < events[index].end):
            continue
        is_quoted = end - start >= 2 and data[start] == data[end - 1] == ord('"')
        lines.append((start + 1, end - 1) if is_quoted else (start, end))
    return lines


def _read_range(data: bytes, start: int, end: int) -> StreamEvent | None:
    value = parse_event(data[start:end])
    return None if value is None else StreamEvent(start, end, value)


def _read_data_lines(data: bytes, start: int, end: int) -> tuple[StreamEvent | None, int]:
    """An event whose data is on several lines, which may be the last and unfinished; and where the lines end."""
    lines = [data[start:end]]
    while (match := _DATA_LINE.match(data, end)) is not None:
        lines.append(match["more"])
        end = match.end()
    text = b"\n".join(lines) if len(lines) > 1 else b""
    event = _read_range(text, 0, len(text))
    if event is None and text and not data[end:].strip():
        event = _close_event(text, 0, len(text))
    return None if event is None else event._replace(start=start, end=end), end


def find_array_events(data: bytes) -> Iterator[StreamEvent]:
    """The elements of a stream that is one JSON array of objects."""
    parser = ArrayParser()
    place = 0
    for item in parser.feed(data):
        place = data.index(item, place)
        event = _read_range(data, place, place + len(item))
        if event is not None:
            yield event
        place += len(item)
    for item in parser.finish():
        start = data.index(item, place)
        event = _close_event(data, start, start + len(item))
        if event is not None:
            yield event


def parse_event(data: bytes) -> Any:  # noqa: ANN401 (any JSON)
    """The JSON value of an event; None where it is not JSON, or nests deeper than DEPTH_MAX."""
    value = try_parse_json(data)
    if value is None and b"\\u" in data:  # It may hold half of a character that two events share.
        try:
            return parse_json(data)
        except NotJSON:
            return None
    if len(data) <= DEPTH_MAX or data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return value
    return None if is_deeper_than(value) else value


def _close_event(data: bytes, start: int, end: int) -> StreamEvent | None:
    """The value of a text that was cut off, as far as it came; None where it does not begin like a JSON value."""
    if data.startswith(b"[DONE]", start):
        return None
    for text, closing in _list_endings(data[start:end]):
        value = parse_event(text + closing)
        if value is not None:
            return StreamEvent(start, end, value, closing)
    return None


def _list_endings(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The ways in which a text may be cut back and closed, so that it is JSON."""
    brackets: list[bytes] = []
    is_string_open = False
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            brackets.append(b"}" if token[0] == b"{" else b"]")
        elif token[0] in (b"}", b"]"):
            brackets[-1:] = []
        else:
            is_string_open = not token["quote"]
    closing = b"".join(reversed(brackets))
    if is_string_open:
        text = _CUT_ESCAPE.sub(rb"\1", text).decode("utf-8", "ignore").encode()
        yield text, b'"' + closing
        yield text, b'":null' + closing
        return
    word = _CUT_WORD.sub(b"", text)
    yield text.rstrip(b", \t\r\n"), closing
    yield word, b"null" + closing
    yield text, b":null" + closing
