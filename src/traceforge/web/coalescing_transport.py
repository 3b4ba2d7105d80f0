"""A connection whose answers leave in one piece.

In: what uvicorn writes, the head and the body of an answer by themselves. Out: one write for both. Never: holds
anything but a head, or that beyond the turn of the loop in which it was written.

Two writes are two calls of the system here and two awakenings there, which is a tenth of what an append takes. A body
takes its head along and leaves at once: what a request leaves to do is done while the client reads.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1."  # A body that begins like this waits as a head does, which is for a turn of the loop.


class CoalescingProtocol(HttpToolsProtocol):
    """uvicorn's, on such a connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(cast("asyncio.Transport", CoalescingTransport(transport, self.loop)))


class CoalescingTransport:
    """A transport that holds a head until its body comes; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever it is)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it, and the head that waits for it; a head waits until this turn ends."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush_head)
            return
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held, then close."""
        self._flush_head()
        self._transport.close()

    def _flush_head(self) -> None:
        if self._head:
            self.write(b"")
