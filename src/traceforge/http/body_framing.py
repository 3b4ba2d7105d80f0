"""Where does a body end, and what does it hold?

In: the bytes behind a head, in whatever pieces they came. Out: for each piece, its bytes as they are (to be passed on
untouched), what they hold without transfer framing (to be recorded), and what lies beyond the body. Never: changes a
byte, or guesses: framing that two readers could read differently is refused, because requests are smuggled that way.

A body is one of three: `Counted` (Content-Length), `Chunked`, `UntilClose`; or it is `Unread`. Each has `feed`, after
which `raw`, `payload` and `done` speak of the piece that was fed; `feed` returns what was beyond the end.
"""

from __future__ import annotations

import re

CHUNKED = -1  # In the place of a length.
UNTIL_CLOSE = -2

LINE_BYTES_MAX = 16 << 10  # Of a chunk's size with its extensions, or of one trailer.
TRAILERS_BYTES_MAX = 64 << 10

_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})(?:;[^\r\n\0]*)?\r\n")
_SIZE_PADDED = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n\0]*)?\r\n")  # Old servers fill up with spaces.
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n")


class BadBody(Exception):
    """The framing cannot be read in one way only. The message says why, and holds nothing of the body."""


class Counted:
    """A body whose length was said."""

    __slots__ = ("_left", "done", "payload", "raw")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0
        self.raw = b""
        self.payload: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body."""
        left = self._left - len(data)
        if left >= 0:
            self._left = left
            self.done = left == 0
            self.raw = data
            self.payload = [data]
            return b""
        end = self._left
        self._left = 0
        self.done = True
        self.raw = data[:end]
        self.payload = [self.raw] if end else []
        return data[end:]


class _Endless:
    """A body without an end of its own."""

    __slots__ = ("done", "payload", "raw")

    def __init__(self) -> None:
        self.done = False
        self.raw = b""
        self.payload: list[bytes] = []


class UntilClose(_Endless):
    """A body that ends with its connection."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """Everything belongs to the body."""
        self.raw = data
        self.payload = [data]
        return b""


class Unread(_Endless):
    """What follows something malformed: it is passed on, and nobody here knows what it holds or where it ends."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """Everything is passed on."""
        self.raw = data
        return b""


class Chunked:
    """A body in chunks, with what follows the last: trailers and an empty line."""

    __slots__ = ("_left", "_line", "_size", "_state", "_trailers", "done", "payload", "raw")

    def __init__(self, *, padded: bool = False) -> None:
        self._size = _SIZE_PADDED if padded else _SIZE
        self._state = _SIZE_LINE
        self._left = 0
        self._line = b""  # The beginning of a line whose end has not come.
        self._trailers = 0
        self.done = False
        self.raw = b""
        self.payload: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body.

        Raises:
            BadBody: a size, the end of a chunk or a trailer is malformed.
        """
        if self._state == _SIZE_LINE and not self._line and self._is_one_chunk(data):
            return b""
        self.payload = []
        at, end = 0, len(data)
        while at < end and not self.done:
            at = self._data(data, at, end) if self._state == _DATA else self._take_line(data, at)
        self.raw = data if at == end else data[:at]
        return b"" if at == end else data[at:]

    def _is_one_chunk(self, data: bytes) -> bool:
        """Is it one whole chunk, and nothing else? Streams come like that."""
        size = self._size.match(data)
        if size is None:
            return False
        start = size.end()
        end = start + int(size[1], 16)
        if end == start or len(data) != end + 2 or not data.endswith(b"\r\n"):
            return False
        self.raw = data
        self.payload = [data[start:end]]
        return True

    def _data(self, data: bytes, at: int, end: int) -> int:
        take = min(self._left, end - at)
        self.payload.append(data[at : at + take])
        self._left -= take
        if not self._left:
            self._state = _DATA_END
        return at + take

    def _take_line(self, data: bytes, at: int) -> int:
        found = data.find(b"\n", at)
        if found < 0:
            self._line += data[at:]
            if len(self._line) > LINE_BYTES_MAX:
                raise BadBody("a line of the chunked body is too long")
            return len(data)
        line = self._line + data[at : found + 1]
        self._line = b""
        if len(line) > LINE_BYTES_MAX:
            raise BadBody("a line of the chunked body is too long")
        self._end_line(line)
        return found + 1

    def _end_line(self, line: bytes) -> None:
        if self._state == _DATA_END:
            if line != b"\r\n":
                raise BadBody("a chunk is longer than it says")
            self._state = _SIZE_LINE
        elif self._state == _SIZE_LINE:
            size = self._size.fullmatch(line)
            if size is None:
                raise BadBody("the size of a chunk is malformed")
            self._left = int(size[1], 16)
            self._state = _DATA if self._left else _TRAILERS
        elif line == b"\r\n":
            self.done = True
        else:
            self._trailers += len(line)
            if self._trailers > TRAILERS_BYTES_MAX or not _TRAILER.fullmatch(line):
                raise BadBody("a trailer is malformed or too long")


_SIZE_LINE, _DATA, _DATA_END, _TRAILERS = range(4)

Body = Counted | Chunked | UntilClose | Unread


def open_body(length: int, *, padded: bool = False) -> Body:
    """The body that a head announced: its length, `CHUNKED` or `UNTIL_CLOSE`."""
    if length >= 0:
        return Counted(length)
    return Chunked(padded=padded) if length == CHUNKED else UntilClose()
