"""`web/door.py`: a body is read to its end, in so much time and no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.web import request_reading

HEADERS = {"content-length": "6"}


class Client:
    """Sends pieces, each after so many seconds of waiting; 0 is at once."""

    def __init__(self, *pieces: tuple[float, bytes]) -> None:
        self.left = list(pieces)
        self.cancelled = False

    async def receive(self) -> dict[str, Any]:
        """The next piece."""
        seconds, piece = self.left.pop(0)
        try:
            if seconds:
                await asyncio.sleep(seconds / 2)
                await asyncio.sleep(seconds / 2)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return {"type": "http.request", "body": piece, "more_body": bool(self.left)}


@pytest.mark.parametrize("pauses", [(0, 0, 0), (0.01, 0, 0.01), (0, 0.01, 0.01)])
def test_a_body_is_whole_whether_it_was_there_or_is_waited_for(pauses: tuple[float, float, float]) -> None:
    """Pieces that were there and pieces that come later make one body."""
    client = Client(*zip(pauses, (b"ab", b"cd", b"ef"), strict=True))
    assert b"abcdef" == asyncio.run(request_reading.read_body(HEADERS, client.receive))


def test_a_body_that_is_there_sets_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anything that could set one, it is read all the same."""
    monkeypatch.setattr(asyncio, "timeout_at", None)
    assert b"abcdef" == asyncio.run(request_reading.read_body(HEADERS, Client((0, b"abc"), (0, b"def")).receive))


@pytest.mark.parametrize("pieces", [1, 50])
def test_all_pieces_together_have_so_much_time(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece that does not come, and many of which each comes soon enough."""
    monkeypatch.setattr(request_reading, "BODY_SECONDS_MAX", 0.1)
    client = Client(*[(1.0 / pieces, b"a")] * pieces)
    with pytest.raises(ErrorResponse) as refused:
        asyncio.run(request_reading.read_body(HEADERS, client.receive))
    assert (408, "body_timeout") == (refused.value.status, refused.value.code)
    assert client.cancelled


def test_who_is_cancelled_while_a_body_comes_reads_no_more() -> None:
    """What was begun is told too."""
    client = Client((5.0, b"abcdef"))

    async def work() -> None:
        task = asyncio.create_task(request_reading.read_body(HEADERS, client.receive))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert client.cancelled
