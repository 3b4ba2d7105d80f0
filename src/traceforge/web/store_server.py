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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from traceforge.http.serving import run_event_loop, set_on_signals
from traceforge.web.store_application import StoreApplication

DRAIN_SECONDS = 10
BACKLOG = 1024
IDLE_SECONDS = 75  # Of a connection between two requests: longer than most clients keep one.


_SILENT = logging.CRITICAL + 1  # Uvicorn would write tracebacks with the texts of errors, which may quote anybody.


class StoreProtocol(HttpToolsProtocol):
    """HTTP on one connection."""

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the shape of every refusal."""
        headers, body = cast("StoreApplication", self.config.app).build_bad_request()
        head = [b"HTTP/1.1 400 Bad Request", *(b"%b: %b" % header for header in self.server_state.default_headers)]
        head += [b"%b: %b" % header for header in headers]
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()


class StoreServer(uvicorn.Server):
    """A site that listens. It leaves signals to others, and says when it is ready."""

    def __init__(self, site: StoreApplication, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                site, lifespan="off", http=StoreProtocol, ws="none", log_config=None, log_level=_SILENT,
                access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=IDLE_SECONDS,
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


def serve(site: StoreApplication, sock: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal comes; requests in flight may end, a second signal stops at once."""
    run_event_loop(_serve(site, sock, ready))


async def _serve(site: StoreApplication, sock: socket.socket, ready: Callable[[], None]) -> None:
    server = StoreServer(site, ready)
    asyncio.get_running_loop().set_exception_handler(_ignore_loop_error)
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    tasks = [asyncio.create_task(_set_when(stop, server, "should_exit"))]
    tasks.append(asyncio.create_task(_set_when(hurry, server, "force_exit")))
    tasks.append(asyncio.create_task(site.delete_expired_periodically()))
    try:
        await server.serve(sockets=[sock])
    except asyncio.CancelledError:  # Ctrl-C, where a loop knows no signals.
        server.should_exit = True
    finally:
        for task in tasks:
            task.cancel()


async def _set_when(event: asyncio.Event, server: StoreServer, name: str) -> None:
    await event.wait()
    setattr(server, name, True)


def _ignore_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop would log may quote what somebody sent."""
