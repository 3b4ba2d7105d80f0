"""Responses that are sent while a model answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress

from starlette.responses import StreamingResponse

from traceforge.context.model.objects import Response
from traceforge.context.responses.response_generation import RunningResponse
from traceforge.web.project_calls import ModelCallSlot


class TextPump:
    """Reads a response in a thread, to its end; its texts are iterated on the loop.

    The thread continues when the client has left, because the answer is paid for and must be stored.
    """

    def __init__(
        self,
        running: RunningResponse,
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
        slot: ModelCallSlot,
    ) -> None:
        """`slot` is released when the thread has read all."""
        self._running = running
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(in_thread(self._read))
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())  # Seen, if never awaited.
        self._task.add_done_callback(lambda _: slot.release())

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        text = await self._queue.get()
        if text is None:
            await self._task
            raise StopAsyncIteration
        return text

    async def end(self) -> Response:
        """Wait for the final response; texts that were not read are dropped."""
        await self._task
        return self._running.response

    def _read(self) -> None:
        try:
            for text in self._running:
                self._enqueue(text)
        finally:
            self._enqueue(None)

    def _enqueue(self, text: str | None) -> None:
        with suppress(RuntimeError):  # The loop has ended: no client reads.
            self._loop.call_soon_threadsafe(self._queue.put_nowait, text)


def stream_response(
    chunks: AsyncIterator[bytes], status: int = 200, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """A response of server-sent events; proxies are told not to buffer it."""
    return StreamingResponse(chunks, status, {"X-Accel-Buffering": "no", **(headers or {})}, "text/event-stream")


async def iterate_once(body: bytes) -> AsyncIterator[bytes]:
    """The chunks of a stream that is complete already."""
    yield body
