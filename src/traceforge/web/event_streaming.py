"""A response as it comes, over HTTP.

In: a response on its way. Out: its texts, one after the other, each sent when it is there. Never: reads a model on
the loop's thread, or holds a text back for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

from traceforge.context.model.objects import Response
from traceforge.context.responses.response_generation import RunningResponse
from traceforge.web.request_reading import Receive, Send

T = TypeVar("T")
EVENTS = b"text/event-stream; charset=utf-8"
_HEADERS = [(b"content-type", EVENTS), (b"x-accel-buffering", b"no")]


class TextPump:
    """Reads a response in a thread; its texts come out on the loop."""

    def __init__(
        self, responding: RunningResponse, in_thread: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> None:
        self._responding = responding
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(in_thread(self._read))

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        text = await self._queue.get()
        if text is None:
            await self._task
            raise StopAsyncIteration
        return text

    async def end(self) -> Response:
        """Wait for the end; texts that are left are not wanted."""
        await self._task
        return self._responding.response

    def _read(self) -> None:
        try:
            for text in self._responding:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, text)
        finally:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)


@asynccontextmanager
async def watch_for_disconnect(receive: Receive, on_disconnect: Callable[[], object]) -> AsyncIterator[None]:
    """While the block runs, `left` is called where the client goes away."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        on_disconnect()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


async def open_stream(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """The head of a stream."""
    await send({"type": "http.response.start", "status": status, "headers": [*_HEADERS, *headers]})


async def send_frames(send: Send, frames: Iterable[bytes], *, last: bool = False) -> None:
    """Some of its body."""
    data = b"".join(frames)
    if data or last:
        await send({"type": "http.response.body", "body": data, "more_body": not last})
