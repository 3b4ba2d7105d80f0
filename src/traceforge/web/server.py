"""The server on its socket, from listening to its end.

In: a site and a bound socket. Out: answers, until a signal comes. Never: accepts after it was told to stop, or cuts a
request that could have ended in time; and no word in the log but the site's own, which has no words of errors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from traceforge.http.serving import run_event_loop, set_on_signals
from traceforge.web import wire
from traceforge.web.app import Site

DRAIN_SECONDS = 10
BACKLOG = 1024
IDLE_SECONDS = 75  # Of a connection between two requests: longer than most clients keep one.


_SILENT = logging.CRITICAL + 1  # Uvicorn would write tracebacks with the texts of errors, which may quote anybody.


class Protocol(wire.Protocol):
    """HTTP on one connection."""

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the shape of every refusal."""
        headers, body = cast("Site", self.config.app).not_http()
        head = [b"HTTP/1.1 400 Bad Request", *(b"%b: %b" % one for one in self.server_state.default_headers)]
        head += [b"%b: %b" % one for one in headers]
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()


class Server(uvicorn.Server):
    """A site that listens. It leaves signals to others, and says when it is ready."""

    def __init__(self, site: Site, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                site, lifespan="off", http=Protocol, ws="none", log_config=None, log_level=_SILENT, access_log=False,
                server_header=False, proxy_headers=False, timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS, backlog=BACKLOG,
            )
        )  # fmt: skip
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are somebody else's."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._ready()


def serve(site: Site, sock: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal comes; requests in flight may end, a second signal stops at once."""
    run_event_loop(_serve(site, sock, ready))


async def _serve(site: Site, sock: socket.socket, ready: Callable[[], None]) -> None:
    server = Server(site, ready)
    asyncio.get_running_loop().set_exception_handler(_quiet)
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    watching = [asyncio.create_task(_when(stop, server, "should_exit"))]
    watching.append(asyncio.create_task(_when(hurry, server, "force_exit")))
    watching.append(asyncio.create_task(site.tidy()))
    try:
        await server.serve(sockets=[sock])
    except asyncio.CancelledError:  # Ctrl-C, where a loop knows no signals.
        server.should_exit = True
    finally:
        for one in watching:
            one.cancel()


async def _when(event: asyncio.Event, server: Server, name: str) -> None:
    await event.wait()
    setattr(server, name, True)


def _quiet(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop would log may quote what somebody sent."""
