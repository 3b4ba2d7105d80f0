"""What all servers share: a bound socket, its URL, an event loop, and stop signals."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from traceforge.errors import CannotListen

Result = TypeVar("Result")


def bind_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind without listening; with `shared`, other processes of this server may bind the same port.

    Raises:
        CannotListen: the address is in use, or does not belong to this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as exc:
        raise CannotListen(host, port, (exc.strerror or str(exc)).lower()) from None
    except UnicodeError:
        raise CannotListen(host, port, "this is not the name of a host") from None
    try:
        if os.name == "posix":  # On Windows it would let two servers share a port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError as exc:
        sock.close()
        raise CannotListen(host, port, (exc.strerror or str(exc)).lower()) from None
    sock.setblocking(False)
    return sock


def socket_url(sock: socket.socket) -> str:
    """The base URL under which a client reaches a bound socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_event_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run on uvloop where it is installed, otherwise on asyncio's own loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # Windows has no uvloop.
        from uvloop import new_event_loop  # Deferred: 15 ms, and `traceforge test` binds sockets without it.

        factory = new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def set_on_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Set `stop` at the first SIGTERM or SIGINT and `hurry` at the second.

    Windows loops take no signal handlers: there Ctrl-C arrives as a cancellation.
    """

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    if os.name != "nt":
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
