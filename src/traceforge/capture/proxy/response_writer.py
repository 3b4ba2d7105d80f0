"""Writes a recorded response as HTTP/1.1, in one piece.

The bytes of the latest responses are cached, because a load test asks for the same ones again and again. It shows in
the benchmark row "replay through the proxy".
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.capture.hook.replayed_response import BODILESS_STATUSES
from traceforge.exchange import Headers
from traceforge.http.plain_response import LAST_CHUNK, frame_chunk, reason_phrase
from traceforge.replay.recorded_response import RecordedResponse

REMEMBERED_MAX = 512
REMEMBERED_BYTES_MAX = 64 << 10  # A longer response is not cached.


class ResponseFraming(NamedTuple):
    """How a response is sent over its connection."""

    chunked: bool
    bodiless: bool
    close: bool = False  # The connection closes after it.
    added: Headers = ()


class SerializedResponse(NamedTuple):
    """A complete response as bytes, with its counts."""

    response: RecordedResponse
    data: bytes
    body_bytes: int
    chunks: int


SIZED, CHUNKED = ResponseFraming(False, False), ResponseFraming(True, False)


class ResponseWriter:
    """Serializes complete responses as HTTP/1.1, and remembers the bytes of each recording that was played."""

    def __init__(self) -> None:
        self._remembered: dict[tuple[str, bool], SerializedResponse] = {}

    def serialize(self, name: str, response: RecordedResponse, framing: ResponseFraming) -> SerializedResponse:
        """All bytes of a response. `name` is that of its recording, under which another response may come later."""
        is_common = framing is SIZED or framing is CHUNKED
        remembered = self._remembered.get((name, framing.chunked)) if is_common else None
        if remembered is not None and remembered.response is response:
            return remembered
        serialized = _serialize(response, framing)
        # A response with echoes was filled with values of one request.
        if is_common and not response.echoes and len(serialized.data) <= REMEMBERED_BYTES_MAX:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[name, framing.chunked] = serialized
        return serialized


def _serialize(response: RecordedResponse, framing: ResponseFraming) -> SerializedResponse:
    chunks = [] if framing.bodiless else [chunk.data for chunk in response.chunks if chunk.data]
    size = sum(map(len, chunks))
    body = map(frame_chunk, chunks) if framing.chunked else chunks
    end = LAST_CHUNK if framing.chunked and not response.cut else b""
    return SerializedResponse(response, b"".join((write_head(response, framing), *body, end)), size, len(chunks))


def write_head(response: RecordedResponse, framing: ResponseFraming) -> bytes:
    """The head of a response, with the empty line."""
    headers: list[tuple[str, str]] = [*response.headers, *framing.added]
    if framing.chunked:
        headers.append(("Transfer-Encoding", "chunked"))
    elif not (framing.bodiless or response.streamed or response.cut):
        headers.append(("Content-Length", str(sum(len(chunk.data) for chunk in response.chunks))))
    if framing.close:
        headers.append(("Connection", "close"))
    lines = [f"{name}: {value}" for name, value in headers]
    first_line = f"HTTP/1.1 {response.status} {reason_phrase(response.status)}"
    return "\r\n".join([first_line, *lines, "", ""]).encode("latin-1")


def is_bodiless(method: str, status: int) -> bool:
    """Whether a response to this method with this status has no body."""
    return method == "HEAD" or status in BODILESS_STATUSES
