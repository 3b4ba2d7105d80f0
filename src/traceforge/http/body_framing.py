"""Where a body ends, and what it holds without its framing.

In: the bytes after a head, in pieces of any size. Out: for each piece, its bytes unchanged (to be forwarded),
its content without transfer framing (to be recorded), and the bytes beyond the body. Never: changes a byte, or
guesses. Framing that two readers could read differently is refused, because that is how requests are smuggled.

Each kind of body has `feed`. After a call, `raw`, `payload` and `is_complete` describe the piece that was fed; `feed`
returns the bytes beyond the end.
"""

from __future__ import annotations

import re

CHUNKED = -1  # In place of a length, as UNTIL_CLOSE is.
UNTIL_CLOSE = -2

LINE_BYTES_MAX = 16 << 10  # Of a chunk size with its extensions, or of one trailer.
TRAILERS_BYTES_MAX = 64 << 10
EXTENSIONS_BYTES_MAX = 64 << 10  # Of all chunks of a body.

_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})(?:;[^\r\n\0]*)?\r\n")
_SIZE_PADDED = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n\0]*)?\r\n")  # Old servers pad with spaces.
_PLAIN_SIZE_BYTES_MAX = 17  # Of a size line without padding and extensions.
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n")


class InvalidBody(Exception):
    """The framing is malformed or ambiguous. The message holds nothing of the body."""


class SizedBody:
    """A body with a Content-Length."""

    __slots__ = ("_remaining", "is_complete", "payload", "raw")

    def __init__(self, length: int) -> None:
        self._remaining = length
        self.is_complete = length == 0
        self.raw = b""
        self.payload: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take the bytes that belong to the body."""
        size = min(self._remaining, len(data))
        self._remaining -= size
        self.is_complete = not self._remaining
        self.raw = data[:size]
        self.payload = [self.raw] if size else []
        return data[size:]


class _UnsizedBody:
    """A body without an end of its own."""

    __slots__ = ("is_complete", "payload", "raw")

    def __init__(self) -> None:
        self.is_complete = False
        self.raw = b""
        self.payload: list[bytes] = []


class UntilCloseBody(_UnsizedBody):
    """A body that ends with its connection."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        self.raw = data
        self.payload = [data]
        return b""


class UnparsedBody(_UnsizedBody):
    """The bytes after something malformed: they are forwarded, but neither their content nor their end is known."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """Take all bytes as raw ones."""
        self.raw = data
        return b""


class ChunkedBody:
    """A chunked body, including its trailers and the empty line at the end."""

    __slots__ = (
        "_extension_bytes", "_line", "_remaining", "_size", "_state", "_trailer_bytes", "is_complete", "payload",
        "raw",
    )  # fmt: skip

    def __init__(self, *, allow_padding: bool = False) -> None:
        self._size = _SIZE_PADDED if allow_padding else _SIZE
        self._state = _SIZE_LINE
        self._remaining = 0
        self._line = b""  # The start of a line whose end has not arrived.
        self._trailer_bytes = 0
        self._extension_bytes = 0
        self.is_complete = False
        self.raw = b""
        self.payload: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take the bytes that belong to the body.

        Raises:
            InvalidBody: a chunk size, the end of a chunk or a trailer is malformed.
        """
        if self._state == _SIZE_LINE and not self._line and self._is_one_chunk(data):
            return b""
        self.payload = []
        position, end = 0, len(data)
        while position < end and not self.is_complete:
            take = self._take_data if self._state == _DATA else self._take_line
            position = take(data, position)
        self.raw = data[:position]
        return data[position:]

    def _is_one_chunk(self, data: bytes) -> bool:
        """Take `data` if it is exactly one chunk, as the pieces of most streams are."""
        size = self._size.match(data)
        if size is None or size.end() > _PLAIN_SIZE_BYTES_MAX:
            return False
        start = size.end()
        end = start + int(size[1], 16)
        if end == start or len(data) != end + 2 or not data.endswith(b"\r\n"):
            return False
        self.raw = data
        self.payload = [data[start:end]]
        return True

    def _take_data(self, data: bytes, position: int) -> int:
        chunk = data[position : position + self._remaining]
        self.payload.append(chunk)
        self._remaining -= len(chunk)
        if not self._remaining:
            self._state = _DATA_END
        return position + len(chunk)

    def _take_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position) + 1 or len(data)
        self._line += data[position:end]
        if len(self._line) > LINE_BYTES_MAX:
            raise InvalidBody("a line of the chunked body is too long")
        if self._line.endswith(b"\n"):
            line, self._line = self._line, b""
            self._end_line(line)
        return end

    def _end_line(self, line: bytes) -> None:
        if self._state == _DATA_END:
            if line != b"\r\n":
                raise InvalidBody("a chunk is longer than its size says")
            self._state = _SIZE_LINE
        elif self._state == _SIZE_LINE:
            size = self._size.fullmatch(line)
            if size is None:
                raise InvalidBody("a chunk size is malformed")
            self._extension_bytes += max(0, len(line) - _PLAIN_SIZE_BYTES_MAX)
            if self._extension_bytes > EXTENSIONS_BYTES_MAX:
                raise InvalidBody("the chunk extensions are too long")
            self._remaining = int(size[1], 16)
            self._state = _DATA if self._remaining else _TRAILERS
        elif line == b"\r\n":
            self.is_complete = True
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > TRAILERS_BYTES_MAX or not _TRAILER.fullmatch(line):
                raise InvalidBody("a trailer is malformed or too long")


_SIZE_LINE, _DATA, _DATA_END, _TRAILERS = range(4)

MessageBody = SizedBody | ChunkedBody | UntilCloseBody | UnparsedBody


def open_body(length: int, *, allow_padding: bool = False) -> MessageBody:
    """A reader for the body that a head announces: `length` bytes, `CHUNKED` or `UNTIL_CLOSE`."""
    if length >= 0:
        return SizedBody(length)
    return ChunkedBody(allow_padding=allow_padding) if length == CHUNKED else UntilCloseBody()
