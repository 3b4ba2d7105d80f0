"""What one client may take of a server: the one table of limits of the proxy, the context server and the chat.

Every connection has at most one deadline: the time by which its client must have sent the rest of a head or of a
body, begun the next request, or taken what was written. A connection that waits for us (for a model, a database or an
upstream) has none, so a stream may go on for hours.

Never: refuses a newcomer while a connection that waits for its client could make room.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import NamedTuple, Protocol, TypeVar

if sys.platform != "win32":
    import resource

HEAD_BYTES_MAX = 64 << 10
HEADERS_MAX = 200  # The largest real request has about 40.
PIPELINED_BYTES_MAX = 64 << 10  # Of requests sent ahead; beyond it the client is not read.
DISCARDED_BYTES_MAX = 4 << 20  # Of a request after its response; beyond it the connection is closed.

_DESCRIPTORS_RESERVED = 64  # For the database, recordings, logs and listening sockets.


class ServerLimits(NamedTuple):
    """The limits of one server. Sizes are in bytes, times in seconds."""

    connections: int  # At once; for the proxy, in each worker.
    body_bytes: int | None  # None: bodies are forwarded, not collected.
    head_seconds: float = 30.0  # For a complete head.
    body_seconds: float = 60.0  # For a complete body.
    body_rate: int = 0  # Bytes that extend `body_seconds` by a second; 0: nothing extends it.
    idle_seconds: float = 75.0  # Between two requests: longer than most clients keep a connection.
    write_seconds: float = 300.0  # For a client to take what was written.
    discard_seconds: float = 5.0  # For reading the rest of a refused request, so that the client reads the response.


PROXY_LIMITS = ServerLimits(connections=4096, body_bytes=None, body_rate=1 << 10)
STORE_LIMITS = ServerLimits(connections=1024, body_bytes=2 << 20)
CHAT_LIMITS = ServerLimits(connections=512, body_bytes=256 << 10)


class LimitedConnection(Protocol):
    """What `ClientConnections` has to know of a connection."""

    @property
    def peer(self) -> str:
        """The address of the client."""

    @property
    def deadline(self) -> float:
        """The loop's time at which the client's time is over; 0 while the client waits for us."""

    def make_room(self) -> None:
        """Close at once."""


ConnectionT = TypeVar("ConnectionT", bound=LimitedConnection)


class ClientConnections(set[ConnectionT]):
    """The open connections of a server, at most `connections_max`."""

    def __init__(self, connections_max: int) -> None:
        super().__init__()
        self._connections_max = connections_max

    def admit(self, connection: ConnectionT) -> bool:
        """Add a new connection; False if there is no room.

        If all are taken, one that waits for its client is closed: of the address with the most connections, the one
        whose deadline is nearest.
        """
        connections_max = min(self._connections_max, _count_affordable_connections())
        if len(self) >= connections_max and not self._close_waiting(connection):
            return False
        self.add(connection)
        return True

    def _close_waiting(self, newcomer: ConnectionT) -> bool:
        waiting = [connection for connection in self if connection.deadline]
        if not waiting:
            return False
        by_peer = Counter(connection.peer for connection in (newcomer, *self))
        closed = max(waiting, key=lambda connection: (by_peer[connection.peer], -connection.deadline))
        self.discard(closed)
        closed.make_room()
        return True


def raise_descriptor_limit(connections_max: int) -> None:
    """Let this process open as many files as its connections need, if the system allows it.

    Only for a process that starts no program of somebody else, because programs inherit the limit.
    """
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * connections_max + _DESCRIPTORS_RESERVED
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _count_affordable_connections() -> int:
    """How many connections the limit on open files allows, if each may need a second one to its upstream."""
    if sys.platform == "win32":
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, (soft - _DESCRIPTORS_RESERVED) // 2)


def peer_address(peername: object) -> str:
    """The address in a transport's `peername`, without the port."""
    return str(peername[0]) if isinstance(peername, tuple) and peername else ""
