"""A recorded response, ready to be sent again with the same chunks."""

from __future__ import annotations

from typing import NamedTuple, cast

from traceforge.canon import JSONObject
from traceforge.exchange import Chunk, Headers


class EchoReference(NamedTuple):
    """A `[REDACTED]` in a response whose value was also redacted in the request; it is refilled from there."""

    marker: int  # which `[REDACTED]` of the response body, from 0
    path: str  # where in the request
    nth: int  # which redaction at that path, from 0


class RecordedResponse(NamedTuple):
    """What is sent when a request has a recording."""

    status: int
    headers: Headers
    chunks: tuple[Chunk, ...]
    streamed: bool
    echoes: tuple[EchoReference, ...] = ()
    redacted_count: int = 0  # values that cannot be refilled: they replay as `[REDACTED]`
    cut: bool = False  # The recorded response broke off, and breaks off again.
    left_early: bool = False  # The application left it there; nobody approved what comes after.

    @property
    def body(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)


def read_echoes(redacted: JSONObject) -> tuple[EchoReference, ...]:
    """The echoes of a response, from the `redacted` field of its trace or snapshot."""
    stored = cast("list[JSONObject]", redacted.get("echoes", []))
    return tuple(EchoReference(int(str(echo["marker"])), str(echo["path"]), int(str(echo["nth"]))) for echo in stored)
