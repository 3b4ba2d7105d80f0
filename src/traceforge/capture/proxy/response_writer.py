"""A recorded answer as it is written over HTTP/1.

In: an answer, and what is known of the connection. Out: its head, its chunks, or all of it at once. Never: two writes
where one is enough: most of what an answer costs is the system's.

A load asks for the same answers again and again, so a few are remembered as they were written.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from traceforge.capture.hook.replayed_response import BODILESS
from traceforge.exchange import Headers
from traceforge.replay.recorded_response import RecordedResponse

REMEMBERED = 512
REMEMBERED_BYTES_MAX = 64 << 10  # A longer one is written anew.
LAST_CHUNK = b"0\r\n\r\n"


class Framing(NamedTuple):
    """How an answer is sent over a connection."""

    chunked: bool
    bodiless: bool
    close: bool = False  # Is the connection closed behind it?
    added: Headers = ()


class Written(NamedTuple):
    """An answer, whole, and what is counted of it."""

    answer: RecordedResponse
    data: bytes
    body_bytes: int
    chunks: int


SIZED, CHUNKED = Framing(False, False), Framing(True, False)


class Writer:
    """Writes whole answers."""

    def __init__(self) -> None:
        self._remembered: dict[tuple[str, bool], Written] = {}

    def whole(self, name: str, answer: RecordedResponse, framing: Framing) -> Written:
        """All of an answer. `name` is what it is remembered by; another answer may come by the same name."""
        usual = framing is SIZED or framing is CHUNKED
        found = self._remembered.get((name, framing.chunked)) if usual else None
        if found is not None and found.answer is answer:
            return found
        found = _write(answer, framing)
        if usual and not answer.echoes and len(found.data) <= REMEMBERED_BYTES_MAX:  # else it is one caller's
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            self._remembered[name, framing.chunked] = found
        return found


def _write(answer: RecordedResponse, framing: Framing) -> Written:
    pieces = [] if framing.bodiless else [chunk.data for chunk in answer.chunks if chunk.data]
    size = sum(map(len, pieces))
    chunks = map(frame_chunk, pieces) if framing.chunked else pieces
    end = LAST_CHUNK if framing.chunked and not answer.cut else b""
    return Written(answer, b"".join((write_head(answer, framing), *chunks, end)), size, len(pieces))


def frame_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def write_head(answer: RecordedResponse, framing: Framing) -> bytes:
    """The head of an answer."""
    about: list[tuple[str, str]] = [*answer.headers, *framing.added]
    if framing.chunked:
        about.append(("Transfer-Encoding", "chunked"))
    elif not (framing.bodiless or answer.streamed or answer.cut):
        about.append(("Content-Length", str(sum(len(chunk.data) for chunk in answer.chunks))))
    if framing.close:
        about.append(("Connection", "close"))
    lines = [f"{name}: {value}" for name, value in about]
    return "\r\n".join([f"HTTP/1.1 {answer.status} {_phrase(answer.status)}", *lines, "", ""]).encode("latin-1")


def is_bodiless(method: str, status: int) -> bool:
    """Has the answer to this no body?"""
    return method == "HEAD" or status in BODILESS


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
