"""The proxy on its sockets, from listening to its end.

In: a site, a host and a port. Out: a server that accepts, expires what is due, and drains. Never: accepts after it
was told to stop, or cuts a call that could have ended in time.
"""

from __future__ import annotations

import asyncio
import socket

from traceforge.capture.proxy.client_connection import ClientConnection
from traceforge.capture.proxy.worker_state import Site

BACKLOG = 1024  # A test suite starts with many connections at once.
SWEEP_SECONDS = 1.0


class Server:
    """Accepts clients on one socket."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, sock: socket.socket) -> None:
        """Listen."""
        site = self._site
        host, port = sock.getsockname()[:2]
        site.listens_on(host, port)
        self._server = await site.loop.create_server(lambda: ClientConnection(site), sock=sock, backlog=BACKLOG)
        self._sweep()

    def _sweep(self) -> None:
        now = self._site.loop.time()
        for connection in list(self._site.connections):
            connection.expire(now)
        self._site.pool.sweep()
        self._sweeper = self._site.loop.call_later(SWEEP_SECONDS, self._sweep)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> int:
        """Stop accepting, let calls end within `seconds` or until `hurry`; how many had to be cut."""
        site = self._site
        site.draining = True
        if self._server is not None:
            self._server.close()
        for connection in list(site.connections):
            connection.close_if_idle()
        deadline = site.loop.time() + seconds
        while site.connections and site.loop.time() < deadline and not hurry.is_set():
            await asyncio.sleep(0.01)
        cut = site.metrics.in_flight
        await self._close()
        return cut

    async def _close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._site.connections):
            connection.stop()
        self._site.pool.close()
        while self._site.connections:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # Let the connections that were closed say so.
        self._site.watcher.flush()
