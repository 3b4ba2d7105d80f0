"""A recorded response on its way to a client, without a connection.

In: a response. Out: its chunks, each in its time, or the bytes of HTTP/1.1 that a client's own parser reads. Never:
joins or cuts a chunk, or completes a response that was cut.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from .in_flight_call import HeaderPairs

REFUSED_STATUS = 418  # No SDK tries it again, and no provider sends it; the same as in `traceforge.replay`.
REFUSED_TYPE = "traceforge_replay_refused"
# Of the next frames of a WebSocket: the recording that answers goes on with them, or all frames must be looked up.
SAME_RECORDING_STATUS, SEND_ALL_STATUS = 304, 412
WAITS_ON = "the application waits for a response that it did not wait for when the call was recorded"
BODILESS_STATUSES = (204, 304)
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class ReplayedResponse(NamedTuple):
    """What a client gets instead of a response from the network."""

    status: int
    headers: HeaderPairs
    chunks: Sequence[tuple[float, bytes]]  # each with its time in milliseconds
    is_cut: bool = False  # it breaks off after the last chunk
    pace: float = 0.0  # how many times as fast as recorded chunks are handed over; 0: at once
    is_left_early: bool = False  # it is cut because the application left it there when it was recorded
    hold_s: float = 0.0  # how long the application is given to cancel the call, as it did when it was recorded
    times_out: bool = False  # it did so by a timeout of its client


def make_refusal(reason: str) -> ReplayedResponse:
    """The response to a call that must not go to the network: every provider's SDK shows its message."""
    message = f"TraceForge replay: {reason}"
    error = {
        "type": REFUSED_TYPE,
        "code": REFUSED_TYPE,
        "status": "FAILED_PRECONDITION",
        "message": message,
        "param": None,
    }
    # Clients of AWS read its members at the top, all others those of `error`.
    body = json.dumps({"type": "error", "error": error, "code": REFUSED_TYPE, "message": message}).encode()
    headers = (
        ("content-type", "application/json"), ("x-should-retry", "false"), ("Content-Length", str(len(body))),
    )  # fmt: skip
    return ReplayedResponse(REFUSED_STATUS, headers, [(0.0, body)])


def paced_chunks(response: ReplayedResponse) -> Iterator[bytes]:
    """The chunks of the body, each when it is due."""
    began = time.monotonic()
    for due_s, data in _due_chunks(response):
        wait_s = began + due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        yield data


async def paced_chunks_async(response: ReplayedResponse) -> AsyncIterator[bytes]:
    """The same for a coroutine: its event loop goes on while a chunk is not due."""
    began = time.monotonic()
    for due_s, data in _due_chunks(response):
        wait_s = began + due_s - time.monotonic()
        if wait_s > 0:
            await sleep_async(wait_s)
        yield data


def _due_chunks(response: ReplayedResponse) -> Iterator[tuple[float, bytes]]:
    """Chunks, and after how many seconds each is due."""
    for t_ms, data in response.chunks:
        if data:
            yield (t_ms / 1000 / response.pace if response.pace else 0.0), data


async def sleep_async(seconds: float) -> None:
    """Sleep in the event loop that runs, asyncio's or trio's. It is loaded already; we load neither."""
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        await asyncio.sleep(seconds)
    else:
        trio: Any = sys.modules["trio"]
        await trio.sleep(seconds)


def http1_chunks(method: str, response: ReplayedResponse) -> list[tuple[float, bytes]]:
    """The response in HTTP/1.1: its head, then each chunk as a chunk of its own, with the seconds after which it is
    due. A response that is cut lacks its end.
    """
    has_length = any(name.lower() == "content-length" for name, _ in response.headers)
    is_bodiless = method.upper() == "HEAD" or response.status in BODILESS_STATUSES
    framing = () if has_length or is_bodiless else (("Transfer-Encoding", "chunked"),)
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, '')}"]
    lines += [f"{name}: {value}" for name, value in (*response.headers, *framing)]
    chunks = [(0.0, "\r\n".join([*lines, "", ""]).encode("latin-1"))]
    if is_bodiless:
        return chunks
    if has_length:
        return [*chunks, *_due_chunks(response)]
    chunks += [(due_s, b"%x\r\n%b\r\n" % (len(data), data)) for due_s, data in _due_chunks(response)]
    return chunks if response.is_cut else [*chunks, (chunks[-1][0], b"0\r\n\r\n")]
