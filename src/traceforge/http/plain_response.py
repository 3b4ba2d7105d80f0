"""Short responses that a server writes itself, as bytes of HTTP/1.1."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

JSON_TYPE = "application/json"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class PlainResponse(NamedTuple):
    """A response with a complete body. It is never cached."""

    status: int
    content_type: str
    body: bytes
    header_lines: tuple[str, ...] = ()

    def to_bytes(self, *, close: bool, bodiless: bool = False) -> bytes:
        """The response on the wire; `close` announces the end of the connection, `bodiless` answers HEAD."""
        lines = [
            f"HTTP/1.1 {self.status} {reason_phrase(self.status)}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Cache-Control: no-store",
            *self.header_lines,
            *(["Connection: close"] if close else []),
        ]
        return "\r\n".join((*lines, "\r\n")).encode() + (b"" if bodiless else self.body)


def reason_phrase(status: int) -> str:
    """The standard phrase of a status, "" for a status that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def frame_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
