"""Notice that a client has left while its response is being made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import Receive


@asynccontextmanager
async def watch_for_disconnect(receive: Receive, on_disconnect: Callable[[], object]) -> AsyncIterator[None]:
    """While the block runs, call `on_disconnect` when the client closes the connection."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        on_disconnect()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
