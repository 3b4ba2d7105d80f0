"""Accepts the clients of a server, many in each turn of its event loop.

uvloop accepts one client in a turn. While a flood of connections keeps every turn busy, a newcomer would wait in the
queue of the system for as many turns as there are clients before it.

Never: accepts so many in a turn that the clients it already has wait for long.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

ACCEPTS_PER_TURN_MAX = 256  # Then the clients that are already connected have their turn.
ACCEPTED_SHARES = 8  # A turn takes at most this part of the connections, so that nobody goes before its head is read.
# Clients that wait to be accepted; the system may allow fewer. A full queue is accepted in less than a second.
# Clients that find it full try again only after 1, 3, 7 and 15 seconds.
BACKLOG = 4096
RETRY_SECONDS = 0.1  # Until the next attempt, if no file or no memory is left for another client.

OpenConnection = Callable[[], asyncio.Protocol]


class Listening(Protocol):
    """A server that accepts clients until it is closed."""

    def close(self) -> None:
        """Accept no further client; connections stay."""

    async def wait_closed(self) -> None:
        """Wait until no client is accepted any more."""


async def listen(sock: socket.socket, open_connection: OpenConnection, connections_max: int) -> Listening:
    """Listen on a bound socket, and serve each client, up to `connections_max`, with a protocol of its own."""
    loop = asyncio.get_running_loop()
    if os.name == "nt":  # Its event loop has no readers, and accepts many clients in a turn.
        return await loop.create_server(open_connection, sock=sock, backlog=BACKLOG)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    accepts_max = max(1, min(ACCEPTS_PER_TURN_MAX, connections_max // ACCEPTED_SHARES))
    return _Listener(loop, sock, open_connection, accepts_max)


class _Listener:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, open_connection: OpenConnection, accepts_max: int
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._open_connection = open_connection
        self._accepts_max = accepts_max  # In a turn.
        self._opening: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._resume()

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(self._accepts_max):
            try:
                client, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # The client has left the queue.
                continue
            except OSError:
                self._loop.remove_reader(self._socket.fileno())
                self._retry = self._loop.call_later(RETRY_SECONDS, self._resume)
                return
            client.setblocking(False)
            task = self._loop.create_task(self._open(client))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, client: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._open_connection, client)
        except OSError:
            client.close()

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    async def wait_closed(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._opening)
