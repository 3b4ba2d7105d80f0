"""An answer that was recorded, on its way to a client without a connection.

In: an answer. Out: its pieces, each in its time, or the bytes of HTTP/1.1 that a client's own parser reads. Never:
joins or cuts a piece, or ends an answer well that was cut.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from .guarded_call import Pairs

REFUSED = 418  # No SDK tries it again, and no provider sends it: as `traceforge.replay.unmatched` has it.
KIND = "traceforge_replay_refused"
BODILESS = (204, 304)


class _Answer(NamedTuple):
    status: int
    headers: Pairs
    chunks: Sequence[tuple[float, bytes]]
    cut: bool = False  # it breaks off after the last piece
    pace: float = 0.0  # how many times as fast as they came pieces are handed over; 0: at once


class Answer(_Answer):
    """What a client gets. A piece is its time in milliseconds, and its bytes."""

    @cached_property
    def made(self) -> dict[Any, Any]:
        """What clients have made of it: the same answer is often sent again."""
        return {}


def refusal(why: str) -> Answer:
    """A call that must not go to the network, and was not replayed, in a shape that every provider's SDK shows."""
    message = f"TraceForge replay: {why}"
    error = {"type": KIND, "code": KIND, "status": "FAILED_PRECONDITION", "message": message, "param": None}
    body = json.dumps({"type": "error", "error": error}).encode()
    length = ("Content-Length", str(len(body)))
    return Answer(REFUSED, (("content-type", "application/json"), ("x-should-retry", "false"), length), [(0.0, body)])


def in_time(answer: Answer) -> Iterator[bytes]:
    """The pieces of the body, each when it is due."""
    if not answer.pace:
        yield from [data for _, data in answer.chunks if data]
        return
    began = time.monotonic()
    for due, data in _due(answer):
        time.sleep(max(0.0, began + due - time.monotonic()))
        yield data


async def in_time_async(answer: Answer) -> AsyncIterator[bytes]:
    """The same, awaited."""
    began = time.monotonic()
    for due, data in _due(answer):
        left = began + due - time.monotonic()
        if left > 0:
            await _rest(left)
        yield data


def _due(answer: Answer) -> Iterator[tuple[float, bytes]]:
    """Pieces, and after how many seconds each is due."""
    for t_ms, data in answer.chunks:
        if data:
            yield (t_ms / 1000 / answer.pace if answer.pace else 0.0), data


async def _rest(seconds: float) -> None:
    """Sleep in whichever event loop this is."""
    import asyncio  # is there already, where a client awaits; others need not pay for it

    trio: Any = sys.modules.get("trio")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if trio is None:
            raise
        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


def wire_pieces(method: str, answer: Answer) -> list[tuple[float, bytes]]:
    """The answer in HTTP/1.1: its head, then each piece as a chunk of its own, with the seconds after which it is
    due. One that is cut lacks its end.
    """
    from http.client import responses

    sized = any(name.lower() == "content-length" for name, _ in answer.headers)
    bodiless = method.upper() == "HEAD" or answer.status in BODILESS
    framing = () if sized or bodiless else (("Transfer-Encoding", "chunked"),)
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}"]
    lines += [f"{name}: {value}" for name, value in (*answer.headers, *framing)]
    pieces = [(0.0, "\r\n".join([*lines, "", ""]).encode("latin-1"))]
    if bodiless:
        return pieces
    if sized:
        return [*pieces, *_due(answer)]
    pieces += [(due, b"%x\r\n%b\r\n" % (len(data), data)) for due, data in _due(answer)]
    return pieces if answer.cut else [*pieces, (pieces[-1][0], b"0\r\n\r\n")]
