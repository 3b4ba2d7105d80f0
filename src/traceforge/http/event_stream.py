"""Server-sent events: bytes in, events out.

In: the bytes of a stream, split anywhere, inside a line or a UTF-8 character too. Out: events in order, each
as soon as it is complete. Never: decodes the data of an event, or loses an event that the stream did not finish:
`finish` returns its part.

The rules are those of the HTML standard (CR, LF or CRLF end a line, a blank line ends an event, `:` starts a
comment), with one exception that recordings need: an unterminated last event counts.
"""

from __future__ import annotations

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event: its name, empty if it has none, and its data lines joined by LF."""

    name: str
    data: bytes


class EventStreamParser:
    """Parses server-sent events from chunks of bytes."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []  # what came after the last event, line ends already LF
        self._ended_with_cr = False  # the last byte was CR: LF may follow and belongs to it
        self._started = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take more bytes; return the events they complete."""
        if not data:
            return []
        if self._ended_with_cr or b"\r" in data:
            data = self._normalise(data)
        self._pending.append(data)
        if self._started and b"\n" not in data:  # Only a line end can end an event: a long one is joined once.
            return []
        text = b"".join(self._pending)
        if not self._started:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                return []
            self._started = True
            text = text.removeprefix(_BOM)
        *blocks, incomplete = text.split(b"\n\n")
        self._pending = [incomplete]
        events = [_read_block(block) for block in blocks]
        return [event for event in events if event is not None]

    def finish(self) -> list[ServerSentEvent]:
        """The stream has ended: return the event that was not terminated, if there is one."""
        block, self._pending = b"".join(self._pending), []
        event = _read_block(block)
        return [] if event is None else [event]

    def _normalise(self, data: bytes) -> bytes:
        """Make every line end LF. A CR at the very end already ends its line; an LF that follows it is dropped."""
        if self._ended_with_cr and data.startswith(b"\n"):
            data = data[1:]
        self._ended_with_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _read_block(block: bytes) -> ServerSentEvent | None:
    block = block.lstrip(b"\n")
    if block.startswith(b"data: ") and b"\n" not in block:  # by far the most common event
        return ServerSentEvent("", block[6:])
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return ServerSentEvent(name.decode(errors="replace"), b"\n".join(data)) if data else None
