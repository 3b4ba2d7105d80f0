"""A connection whose answers leave in one piece.

In: what uvicorn writes, the head and the body of an answer by themselves. Out: one write for all that comes in one
turn of the loop. Never: holds anything back beyond that turn, or more than HELD_BYTES_MAX.

Two writes are two calls of the system here and two awakenings there, which is a tenth of what an append takes.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HELD_BYTES_MAX = 1 << 16


class Protocol(HttpToolsProtocol):
    """uvicorn's, on such a connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(cast("asyncio.Transport", Held(transport, self.loop)))


class Held:
    """A transport that waits for the end of a turn with what is written; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever it is)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it when this turn ends, or at once where it is much."""
        if not self._held:
            self._loop.call_soon(self._let_go)
        self._held.append(data)
        self._size += len(data)
        if self._size > HELD_BYTES_MAX:
            self._let_go()

    def close(self) -> None:
        """Send what is held, then close."""
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        if self._held and not self._transport.is_closing():
            self._transport.write(b"".join(self._held))
        self._held.clear()
        self._size = 0
