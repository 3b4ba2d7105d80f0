"""Run an application on a bound socket until a signal arrives.

Never: accepts connections after a stop signal, cuts off a request that ends in time, or logs anything except the
application's own lines, which hold no texts of errors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from traceforge.http.accept_loop import listen
from traceforge.http.server_limits import raise_descriptor_limit
from traceforge.http.serving import run_event_loop, set_on_signals
from traceforge.web.uvicorn_connection import LimitedApplication, UvicornConnection

BackgroundWork = Callable[[], Coroutine[Any, Any, None]]

DRAIN_SECONDS = 10
_SILENT = logging.CRITICAL + 1  # Uvicorn would log tracebacks with texts of errors, which may quote content.


class UvicornServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the caller and reports when it listens."""

    def __init__(self, application: LimitedApplication, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                application, lifespan="off", http=UvicornConnection, ws="none", log_config=None, log_level=_SILENT,
                access_log=False, server_header=False, proxy_headers=False,
                timeout_graceful_shutdown=DRAIN_SECONDS,
            )
        )  # fmt: skip
        self._application = application
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: `serve` has its own."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then call `ready`. Uvicorn's own startup would leave the accepting to uvloop."""
        assert sockets is not None
        await self.lifespan.startup()
        connections_max = self._application.connections.connections_max
        self.servers = [await listen(sock, self._open_connection, connections_max) for sock in sockets]  # type: ignore[misc]
        self.started = True
        self._ready()

    def _open_connection(self) -> UvicornConnection:
        return UvicornConnection(self.config, self.server_state, self.lifespan.state)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: close the connections whose time is over."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._application.connections):
            connection.close_if_expired(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the responses that would never end, then wait for the others."""
        self._application.end_streams()
        await super().shutdown(sockets)


def serve(
    application: LimitedApplication,
    sock: socket.socket,
    ready: Callable[[], None],
    background: BackgroundWork | None = None,
) -> None:
    """Serve until a signal arrives. Requests in flight may finish; a second signal stops at once.

    `background` runs on the event loop for as long as the server, and is cancelled when the server stops.
    """
    run_event_loop(_serve(application, sock, ready, background))


async def _serve(
    application: LimitedApplication,
    sock: socket.socket,
    ready: Callable[[], None],
    background: BackgroundWork | None,
) -> None:
    raise_descriptor_limit(application.limits.connections)
    server = UvicornServer(application, ready)
    asyncio.get_running_loop().set_exception_handler(_ignore_loop_error)
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    tasks = [asyncio.create_task(_set_when(stop, server, "should_exit"))]
    tasks.append(asyncio.create_task(_set_when(hurry, server, "force_exit")))
    if background is not None:
        tasks.append(asyncio.create_task(background()))
    try:
        await server.serve(sockets=[sock])
    except asyncio.CancelledError:  # Ctrl-C, on a loop without signal handlers (Windows).
        server.should_exit = True
    finally:
        for task in tasks:
            task.cancel()


async def _set_when(event: asyncio.Event, server: UvicornServer, name: str) -> None:
    await event.wait()
    setattr(server, name, True)


def _ignore_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log nothing: the message may quote content."""
