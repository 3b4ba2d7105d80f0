"""Transports that may carry model calls and cannot be watched: reported, so that "no calls" is not misread.

In: modules of gRPC, websockets and uvloop. Out: a note to the watcher; in a test, connections that the tripwire
checks. Never: reads what they carry.
"""

from __future__ import annotations

from typing import Any

from . import dispatch, tripwire
from .patches import Patches


def hook_grpc(module: Any, patches: Patches) -> None:
    """Calls through gRPC cannot be watched; only that it is loaded can be noted."""
    dispatch.note_unseen("gRPC, which is loaded")
    if tripwire.current() is not None:
        for owner in (module, getattr(module, "aio", None)):
            for name in ("insecure_channel", "secure_channel") if owner is not None else ():
                patches.wrap(owner, name, _wrap_channel)


def _wrap_channel(make: Any) -> Any:
    """Check a channel to loopback; one to another host meets the refusing proxy, which names it."""

    def watched(target: Any, *args: Any, **options: Any) -> Any:
        host, _, port = str(target).rpartition("/")[2].rpartition(":")
        if port.isdigit() and tripwire.is_loopback(host.strip("[]")):
            tripwire.current().check(host.strip("[]"), int(port))
        return make(target, *args, **options)

    return watched


def hook_uvloop(module: Any, patches: Patches) -> None:
    """Its event loop connects and resolves without audit events; it is a Python class around a compiled one."""
    wire = tripwire.current()
    if wire is None:
        return
    loop = module.Loop
    connect, resolve = loop.create_connection, loop.getaddrinfo

    async def create_connection(self: Any, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if host is not None:
            wire.check(host, port)
        return await connect(self, factory, host, port, **options)

    async def getaddrinfo(self: Any, host: Any, port: Any, **options: Any) -> Any:
        wire.check_name(host, port)
        return await resolve(self, host, port, **options)

    loop.create_connection, loop.getaddrinfo = create_connection, getaddrinfo


def hook_websockets(module: Any, patches: Patches) -> None:
    """The Responses API and the realtime APIs can be used through WebSockets."""
    if isinstance(module.connect, type):
        patches.wrap(module.connect, "__init__", _wrap_method)
    else:
        patches.wrap(module, "connect", _wrap_function)


def _wrap_method(init: Any) -> Any:
    def watched(self: Any, uri: Any, *args: Any, **options: Any) -> None:
        dispatch.refuse_websocket_in_replay(str(uri))
        init(self, uri, *args, **options)

    return watched


def _wrap_function(connect: Any) -> Any:
    def watched(uri: Any, *args: Any, **options: Any) -> Any:
        dispatch.refuse_websocket_in_replay(str(uri))
        return connect(uri, *args, **options)

    return watched
