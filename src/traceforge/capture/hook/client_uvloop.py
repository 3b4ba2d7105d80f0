"""The event loop of uvloop, in a test: it connects where the tripwire does not see it.

In: the module of uvloop. Out: connections that the tripwire checks. Never: reads what they carry.
"""

from __future__ import annotations

from typing import Any

from . import tripwire
from .patches import Patches


def hook(module: Any, patches: Patches) -> None:
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
