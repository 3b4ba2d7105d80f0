"""How deep in JSON does a marker stand?

In: the bytes of a kept answer. Out: for each `[REDACTED]` in them how many JSON strings it stands in: 0 in plain
text, 1 in a document, 2 in a text that is itself JSON, such as the arguments of a tool call. A value that is put
there must be escaped as many times. Never: guesses from the quotes around it: prose has quotes, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from traceforge.canon import DEPTH_MAX, json_bytes
from traceforge.redact import REDACTED
from traceforge.redact.streams import Event, Part, find_events, gather_texts

_MARKER = REDACTED.encode()

Known = dict[tuple[int, str | int], list[int]]  # By container and key: the depths of the markers of a part of a text.


def marker_depths(data: bytes) -> list[int]:
    """The depth of every marker, in their order."""
    whole = _document(data)
    if whole is not None:
        elements = whole if isinstance(whole, list) else []  # Gemini may stream an array.
        return _agreed(_walk(whole, _known([Event(0, 0, one) for one in elements])), data)
    events = list(find_events(data))
    known = _known(events)
    depths: list[int] = []
    place = 0
    for event in events:
        depths += [0] * data.count(_MARKER, place, event.start)
        depths += _agreed(_walk(event.value, known), data[event.start : event.end])
        place = event.end
    return depths + [0] * data.count(_MARKER, place)


def escape(value: str, depth: int) -> bytes:
    """A value as it is written at a depth."""
    for _ in range(depth):
        value = json_bytes(value).decode()[1:-1]
    return value.encode("utf-8", "replace")


def _document(data: bytes | str) -> Any:  # noqa: ANN401 (any JSON)
    head = data.lstrip()[:1]
    if head not in ("{", "[", b"{", b"["):
        return None
    try:
        return orjson.loads(data)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None


def _agreed(depths: Iterator[int], data: bytes) -> list[int]:
    """What was found in a value, if its text has as many: a member that another replaced is in the text alone."""
    found = list(depths)
    count = data.count(_MARKER)
    return found if len(found) == count else [1] * count


def _known(events: list[Event]) -> Known:
    """Texts that go on over several events are judged when they are whole."""
    texts: dict[tuple[object, ...], list[Part]] = {}
    for number, event in enumerate(events):
        gather_texts(event.value, (), number, texts)
    known: Known = {}
    for parts in texts.values():
        if len(parts) > 1 and any(REDACTED in part.text for part in parts):
            depths = iter(list(_text("".join(part.text for part in parts))))
            for part in parts:
                count = part.text.count(REDACTED)
                known[id(part.container), part.key] = [1 + next(depths, 0) for _ in range(count)]
    return known


def _walk(value: Any, known: Known, level: int = 0) -> Iterator[int]:  # noqa: ANN401 (any JSON)
    """The depths of the markers below a value, in the order of its text."""
    if isinstance(value, str):
        yield from (1 + depth for depth in _text(value, level))
        return
    if level > DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, child in value.items():
            yield from [1] * key.count(REDACTED)
            yield from known.get((id(value), key)) or _walk(child, known, level + 1)
    elif isinstance(value, list):
        for child in value:
            yield from _walk(child, known, level + 1)


def _text(text: str, level: int = 0) -> Iterator[int]:
    """The depths of the markers in a text, which may be JSON."""
    if REDACTED not in text:
        return iter(())
    document = _document(text)
    plain = [0] * text.count(REDACTED)
    if document is None:
        return iter(plain)
    depths = list(_walk(document, {}, level + 1))
    return iter(depths if len(depths) == len(plain) else plain)
