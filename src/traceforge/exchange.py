"""One call as capture saw it.

In: the request, the chunks of the response with their times, and what is known about the caller. Out: one value that
capture produces and everything else consumes; `to_bytes` and `from_bytes` carry it to another process. Never:
understands a provider, or is stored: it still holds every secret of the call.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct

from traceforge.conversion import decode_msgpack
from traceforge.shape import OpenObject

Headers = tuple[tuple[str, str], ...]  # In the order in which they came; a name may come twice.


class CallOutcome(StrEnum):
    """How a call ended at the level of HTTP. `wire` decides whether a stream is complete."""

    ANSWERED = "answered"  # the response came to its end
    CUT = "cut"  # it began and did not: the upstream broke off
    CLIENT_LEFT = "left"  # the client went away before the end, or cancelled the call before a response
    TIMED_OUT = "timed_out"  # the client's own timeout passed before a response came
    FAILED = "failed"  # no response, for another reason


class Chunk(NamedTuple):
    """A piece of the response body, and when it came, in milliseconds after the request was sent."""

    t_ms: float
    data: bytes


class Caller(Struct, frozen=True, array_like=True, omit_defaults=True):
    """What is known about the caller. A field is empty where it is not known."""

    source: str = ""  # `file:line:function`
    scope: str = ""  # the test, as its node id, or the run
    session_id: str = ""
    step_index: int | None = None
    parent_trace_id: str = ""
    state: OpenObject | None = None
    worker: str = ""  # of pytest-xdist, where one player answers several


class Exchange(Struct, frozen=True, array_like=True):
    """One call. Bodies are as they were sent: still compressed, but without transfer framing."""

    id: str  # a UUID: the trace will have it
    started_at: str  # a timestamp
    method: str
    url: str  # of the upstream, whole
    request_headers: Headers
    request_body: bytes
    status: int  # 0 where no response came
    response_headers: Headers
    chunks: tuple[Chunk, ...]
    duration_ms: float
    outcome: CallOutcome = CallOutcome.ANSWERED
    error: str = ""  # why it was cut, or failed
    caller: Caller = Caller()
    provider: str = ""  # what the project calls this upstream, where it does
    headers_filtered: bool = False  # whether request headers may be missing that were sent: in an imported call

    def to_bytes(self) -> bytes:
        """The exchange as MessagePack, for another TraceForge process."""
        return _encoder.encode(self)

    def write_to(self, buffer: bytearray) -> None:
        """Append `to_bytes` to a buffer."""
        _encoder.encode_into(self, buffer, len(buffer))

    @classmethod
    def from_bytes(cls, data: bytes) -> Exchange:
        """The exchange that `to_bytes` or `write_to` wrote."""
        return decode_msgpack(data, Exchange)


_encoder = msgspec.msgpack.Encoder()


def find_header(headers: Headers, name: str) -> str:
    """The value of a header; several are joined with commas, and "" means none."""
    length = len(name)  # Few names are as long, and only those are looked at.
    return ", ".join([value for key, value in headers if len(key) == length and key.lower() == name.lower()])
