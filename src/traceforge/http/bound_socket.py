"""The socket that a server is bound to, and the URL of it."""

from __future__ import annotations

import os
import socket

from traceforge.errors import CannotListen


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
