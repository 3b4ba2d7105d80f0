"""What carries model calls and is not watched: noted, so that nobody takes silence for absence.

In: modules of gRPC, of websockets and of uvloop. Out: a note to the watcher; in a test, nothing that goes past the
tripwire. Never: looks into what they carry.
"""

from __future__ import annotations

from typing import Any

from . import dispatch, tripwire
from .patches import Patches


def hook_grpc(module: Any, patches: Patches) -> None:
    """Calls through gRPC cannot be seen; that it is there at all is what can be said."""
    dispatch.note("gRPC, which is loaded")
    if tripwire.current() is not None:
        for owner in (module, getattr(module, "aio", None)):
            for name in ("insecure_channel", "secure_channel") if owner is not None else ():
                patches.wrap(owner, name, _make_channel)


def _make_channel(make: Any) -> Any:
    """A channel to a model on loopback; one to another host meets the proxy that refuses, and is named there."""

    def watched(target: Any, *args: Any, **options: Any) -> Any:
        host, _, port = str(target).rpartition("/")[2].rpartition(":")
        if port.isdigit() and tripwire.is_loopback(host.strip("[]")):
            tripwire.current().check(host.strip("[]"), int(port))
        return make(target, *args, **options)

    return watched


def hook_uvloop(module: Any, patches: Patches) -> None:
    """Its loop connects and resolves past the audit events; it is a class of Python around a compiled one."""
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
    """A socket to a provider: the Responses API and the realtime APIs have such a mode."""
    if isinstance(module.connect, type):
        patches.wrap(module.connect, "__init__", _make_method)
    else:
        patches.wrap(module, "connect", _make_function)


def _make_method(init: Any) -> Any:
    def watched(self: Any, uri: Any, *args: Any, **options: Any) -> None:
        dispatch.note_socket(str(uri))
        init(self, uri, *args, **options)

    return watched


def _make_function(connect: Any) -> Any:
    def watched(uri: Any, *args: Any, **options: Any) -> Any:
        dispatch.note_socket(str(uri))
        return connect(uri, *args, **options)

    return watched
