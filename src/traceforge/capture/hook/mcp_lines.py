"""The lines of a stream of MCP messages, however its bytes are cut.

In: bytes as they were read. Out: the same bytes, as whole lines up to `LINE_BYTES_MAX`, and a longer line in parts.
Never: holds more than that of a line in memory, or loses a byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .in_flight_call import BODY_BYTES_MAX

LINE_BYTES_MAX = BODY_BYTES_MAX  # A longer message could not be recorded either.


class Piece(NamedTuple):
    """A line with its end, or a part of one that is too long."""

    data: bytes
    is_line: bool


class MessageLines:
    """The lines of one direction."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of a line whose end has not come yet
        self._size = 0
        self._is_too_long = False

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The lines that end in `data`."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._parts.append(data[start : end + 1])
            yield from self.flush()
            start = end + 1
        if start < len(data):
            self._parts.append(data[start:])
            self._size += len(data) - start
            if self._is_too_long or self._size > LINE_BYTES_MAX:
                yield from self.flush()
                self._is_too_long = True

    def flush(self) -> Iterator[Piece]:
        """What came since the last line, at the end of the stream: programs read it as a line, too."""
        data = b"".join(self._parts)
        is_line = not self._is_too_long and len(data) <= LINE_BYTES_MAX
        self._parts.clear()
        self._size = 0
        self._is_too_long = False
        if data:
            yield Piece(data, is_line)
