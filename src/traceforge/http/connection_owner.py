"""Which user has the other end of a connection on this machine.

In: the two addresses of a connection. Out: whether its client runs as our own user. Never: guesses: where
the system does not tell (Linux does), the client counts as a stranger.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

_TCP_FILES = ("/proc/net/tcp", "/proc/net/tcp6")  # Java connects to IPv4 with sockets of IPv6.


def can_tell_owners() -> bool:
    """Whether the system tells which user has a connection."""
    return hasattr(os, "geteuid") and os.access(_TCP_FILES[0], os.R_OK)


def is_own_client(peer: tuple[str, int] | None, server: tuple[str, int] | None) -> bool:
    """Whether the client at `peer` of the connection to `server` is a process of our user; None: it has gone."""
    if peer is None or server is None or not hasattr(os, "geteuid"):
        return False
    try:
        ends = _kernel_address(peer), _kernel_address(server)
    except OSError:  # An address with a zone, of another machine.
        return False
    for path in _TCP_FILES:
        with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                    # A socket that its process has closed has no inode, and the user 0.
                    return fields[9] != "0" and int(fields[7]) == os.geteuid()
    return False


def _kernel_address(address: tuple[str, int]) -> str:
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, address[0])
    words = (int.from_bytes(packed[place : place + 4], sys.byteorder) for place in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{address[1]:04X}"
