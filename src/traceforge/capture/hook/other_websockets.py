"""Clients of WebSockets that are not recorded: websocket-client, Tornado, picows, autobahn, and wsproto, on which
trio-websocket and simple-websocket are built. What opens one over httpx, such as httpx-ws, is checked there.

In: connections as they are opened. Out: in a test, a refusal that names the address; where calls are recorded, a note
that names it. Never: reads a frame, or changes a connection that it lets through.

    a WebSocket to                                in a test               where calls are recorded
    a model, or a provider's host                 refused, and counted    noted with its address
    another address, on another machine           refused, and counted    nothing
    another address, on this machine              let through             nothing
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from . import dispatch, tripwire
from .dispatch import ConnectionMode
from .guarded_call import call_safely
from .patches import Patches

_FindUrl = Callable[..., Any]


def hook_websocket_client(module: Any, patches: Patches) -> None:
    """The package `websocket`: all that it has opens a `WebSocket`."""
    _check(patches, module.WebSocket, "connect", "websocket-client", lambda _, url, *__, **___: url)


def hook_tornado(module: Any, patches: Patches) -> None:
    """Tornado's client, which is a request of HTTP."""
    _check(patches, module.WebSocketClientConnection, "__init__", "Tornado", _find_request_url)


def _find_request_url(_: Any, request: Any, *__: Any, **___: Any) -> Any:
    return request.url


def hook_picows(module: Any, patches: Patches) -> None:
    """A client of compiled code."""
    _check(patches, module, "ws_connect", "picows", lambda _, url, *__, **___: url)


def hook_autobahn(module: Any, patches: Patches) -> None:
    """The client for asyncio and for Twisted."""
    _check(patches, module.WebSocketClientProtocol, "startHandshake", "autobahn", lambda self: self.factory.url)


def hook_wsproto(module: Any, patches: Patches) -> None:
    """The protocol alone: its users open the connections."""
    _check(patches, module.WSConnection, "send", "wsproto", _find_handshake)


def _find_handshake(connection: Any, event: Any) -> str:
    """The address of a client's handshake; "" for what follows, and for a server."""
    is_handshake = connection.client and connection.connection is None
    return f"ws://{event.host}{event.target}" if is_handshake else ""


def _check(patches: Patches, owner: Any, name: str, library: str, find_url: _FindUrl) -> None:
    """Check the address of each connection before it is opened by this function."""

    def wrap(connect: Any) -> Any:
        def watched(*args: Any, **options: Any) -> Any:
            url = str(call_safely("", partial(find_url, *args, **options)))
            if url:
                check_socket(library, url)
            return connect(*args, **options)

        return watched

    patches.wrap(owner, name, wrap)


def check_socket(library: str, url: str) -> None:
    """A WebSocket is about to be opened.

    Raises:
        ConnectionRefusedError: nothing may be sent, and it cannot be replayed.
    """
    try:
        parts = urlsplit(url)
        host, netloc = parts.hostname or "", parts.netloc.rpartition("@")[2]
    except ValueError:
        host = netloc = url
    is_model = dispatch.find_websocket_mode(url) is not ConnectionMode.UNWATCHED
    description = f"a WebSocket of {library} to {netloc}"
    dispatch.check_unrecorded(description, netloc, is_model=is_model, is_local=tripwire.is_loopback(host))
