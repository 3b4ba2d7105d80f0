"""A recorded response, ready to be sent again with the same chunks."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSONObject
from traceforge.exchange import Chunk, Headers

HOLD_S_MIN = 30.0  # A client that waits on after it is refused: longer, and a red test takes longer.


class EchoReference(Struct, frozen=True):
    """A `[REDACTED]` in a response whose value was also redacted in the request; it is refilled from there."""

    marker: int  # which `[REDACTED]` of the response body, from 0
    path: str  # where in the request
    nth: int  # which redaction at that path, from 0


class CancelCause(StrEnum):
    """How the application cancelled a call."""

    TIMEOUT = "timeout"  # by a timeout of its HTTP client
    APPLICATION = "application"  # itself, such as by `asyncio.wait_for`; a proxy sees only that the client left


class Cancellation(NamedTuple):
    """What happened in place of a response: the application cancelled the call before one came."""

    cause: CancelCause
    after_ms: float  # after the request was sent

    @property
    def hold_s(self) -> float:
        """How long a replay waits for the application to cancel the call again.

        Longer than it took: calls before it that are answered at once in a replay leave more of a common timeout.
        """
        return HOLD_S_MIN + 2 * self.after_ms / 1000


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
    cancellation: Cancellation | None = None  # There is no response: the status is 0, and the body is empty.

    @property
    def body(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)


def read_echoes(redacted: JSONObject) -> tuple[EchoReference, ...]:
    """The echoes of a response, from the `redacted` field of its trace or snapshot."""
    stored = cast("list[JSONObject]", redacted.get("echoes", []))
    return tuple(EchoReference(int(str(echo["marker"])), str(echo["path"]), int(str(echo["nth"]))) for echo in stored)
