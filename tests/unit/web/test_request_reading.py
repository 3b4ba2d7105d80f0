"""A body is read to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.web import request_reading

HEADERS = {"content-length": "6"}


class SlowClient:
    """Sends chunks, each after a pause in seconds."""

    def __init__(self, *chunks: tuple[float, bytes]) -> None:
        self.unsent = list(chunks)
        self.was_cancelled = False

    async def receive(self) -> dict[str, Any]:
        """The next chunk."""
        seconds, chunk = self.unsent.pop(0)
        try:
            if seconds:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return {"type": "http.request", "body": chunk, "more_body": bool(self.unsent)}

    async def read_body(self) -> bytes:
        """The body as the server reads it."""
        return await request_reading.read_body(Request({"type": "http"}, self.receive), HEADERS)


@pytest.mark.parametrize("pauses", [(0, 0, 0), (0.01, 0, 0.01), (0, 0.01, 0.01)])
def test_the_chunks_of_a_body_are_joined_whenever_they_arrive(pauses: tuple[float, float, float]) -> None:
    """Chunks that have arrived and chunks that arrive later make one body."""
    client = SlowClient(*zip(pauses, (b"ab", b"cd", b"ef"), strict=True))
    assert b"abcdef" == asyncio.run(client.read_body())


def test_a_body_larger_than_declared_is_refused_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops with the chunk that exceeds the limit."""
    monkeypatch.setattr(request_reading, "BODY_BYTES_MAX", 8)
    client = SlowClient((0, b"12345"), (0, b"6789"), (0, b"never read"))
    with pytest.raises(ErrorResponse) as refused:
        asyncio.run(client.read_body())
    assert (413, 1) == (refused.value.status, len(client.unsent))


def test_a_client_that_disconnects_during_its_body_ends_the_reading() -> None:
    """No body is made of the chunks that arrived."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        asyncio.run(request_reading.read_body(Request({"type": "http"}, receive), HEADERS))


def test_a_cancelled_reader_stops_waiting_for_the_client() -> None:
    """The cancellation reaches the wait for the next chunk."""
    client = SlowClient((5.0, b"abcdef"))

    async def work() -> None:
        task = asyncio.create_task(client.read_body())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert client.was_cancelled
