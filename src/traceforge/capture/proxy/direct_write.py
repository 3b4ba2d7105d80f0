"""Writing at once.

In: a transport, and bytes for it. Out: the bytes in the socket, before this returns wherever it has room; the rest is
the transport's to send. Never: passes by what the transport still holds, or writes to a descriptor that is not its.

uvloop sends what was written only when everything that happened at the same time was handled, which is when a call
has also been watched and counted. Whoever waits for the bytes need not wait for that.
"""

from __future__ import annotations

import asyncio
import os


def descriptor_of(transport: asyncio.Transport) -> int:
    """Where bytes for this transport can be written at once; -1 where only it can write, as with TLS."""
    if os.name != "posix" or transport.get_extra_info("ssl_object") is not None:
        return -1
    raw = transport.get_extra_info("socket")
    return raw.fileno() if raw is not None else -1


def write_now(transport: asyncio.Transport, descriptor: int, data: bytes) -> None:
    """Write, and leave to the transport what the socket has no room for, and every failure."""
    if descriptor >= 0 and not transport.get_write_buffer_size() and not transport.is_closing():
        try:
            sent = os.write(descriptor, data)
        except OSError:
            sent = 0
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)
