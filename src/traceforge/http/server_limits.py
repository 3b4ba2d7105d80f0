"""What one client may take of a server: the one table of limits of our servers.

Every connection has at most one deadline: the time by which its client must have sent the rest of a head or of a
body, begun the next request, or taken what was written. A connection that waits for us (for a model, a database or an
upstream) has none, so a stream may go on for hours.

Never: refuses a newcomer while a connection that waits for its client could make room, or closes a connection whose
client has sent a valid key while there is another one to close.
"""

from __future__ import annotations

import ipaddress
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

if sys.platform != "win32":
    import resource

HEAD_BYTES_MAX = 64 << 10
HEADERS_MAX = 200  # The largest real request has about 40.
PIPELINED_BYTES_MAX = 64 << 10  # Of requests sent ahead; beyond it the client is not read.
DISCARDED_BYTES_MAX = 4 << 20  # Of a request after its response; beyond it the connection is closed.

CONNECTIONS_RESERVED = 64  # For clients without a call in flight; of a small server, an eighth of the connections.
RETRY_SECONDS = 5  # In `Retry-After`, for a client whose call was refused.
FAIR_SHARES = 16  # An address with at most this part of the connections has no more than others.

_DESCRIPTORS_RESERVED = 64  # For the database, recordings, logs and listening sockets.


class ServerLimits(NamedTuple):
    """The limits of one server. Sizes are in bytes, times in seconds."""

    connections: int  # At once; for the proxy, in each worker.
    calls_per_address: int  # In flight at once, of clients without a key.
    body_bytes: int | None  # None: bodies are forwarded, not collected.
    head_seconds: float = 30.0  # For a complete head.
    body_seconds: float = 60.0  # For a complete body.
    body_rate: int = 0  # Bytes that extend `body_seconds` by a second; 0: nothing extends it.
    idle_seconds: float = 75.0  # Between two requests: longer than most clients keep a connection.
    write_seconds: float = 300.0  # For a client to take what was written.
    discard_seconds: float = 5.0  # For reading the rest of a refused request, so that the client reads the response.


PROXY_LIMITS = ServerLimits(connections=4096, calls_per_address=3072, body_bytes=None, body_rate=1 << 10)
STORE_LIMITS = ServerLimits(connections=1024, calls_per_address=768, body_bytes=2 << 20)
CHAT_LIMITS = ServerLimits(connections=512, calls_per_address=48, body_bytes=256 << 10)  # It has 64 model calls.
# One person with some tabs, each of which may listen for events; bodies are forms, and files to verify.
UI_LIMITS = ServerLimits(connections=256, calls_per_address=192, body_bytes=32 << 20)


class RequestPhase(IntEnum):
    """How far a client has come that we wait for, in the order in which connections make room."""

    FIRST_HEAD = 0  # It has not sent a complete head yet.
    IDLE = 1  # Between two requests, or it has sent further ones ahead.
    IN_REQUEST = 2  # It sends a body, waits for the response to its only request, or reads one.


class LimitedConnection(Protocol):
    """What `ClientConnections` has to know of a connection."""

    @property
    def peer(self) -> str:
        """The address of the client, from `peer_address`."""

    @property
    def deadline(self) -> float:
        """The loop's time at which the client's time is over; 0 while the client waits for us."""

    @property
    def active_at(self) -> float:
        """The loop's time of the last step of the client: it connected, sent a head or a part of a body, or got the
        response that it waited for. Further parts of a head do not count, nor do requests that were sent ahead: a
        client that sends hundreds at once would be active for as long as we answer them."""

    @property
    def phase(self) -> RequestPhase:
        """How far the client has come."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the last request that needs a key or token had a valid one; False if the server requires none."""

    def make_room(self) -> None:
        """Close this connection at once, for a new one."""


ConnectionT = TypeVar("ConnectionT", bound=LimitedConnection)


class TooManyCalls(Exception):
    """A call that may not begin now, with the HTTP status of the refusal."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ClientConnections(set[ConnectionT]):
    """The open connections of a server, as many as its limits allow."""

    def __init__(self, limits: ServerLimits) -> None:
        super().__init__()
        self._limits = limits
        self._planned: deque[_ConnectionState[ConnectionT]] = deque()  # Those that make room next.
        self._planned_admissions = 0  # For which the plan holds.
        self._calls_max = _count_calls(self.connections_max)

    @property
    def connections_max(self) -> int:
        """How many there may be, with as many files as this process may open."""
        return min(self._limits.connections, _count_affordable_connections())

    def admit(self, connection: ConnectionT) -> bool:
        """Add a new connection; False if the server has as many as it may have, and each waits for the server.

        If all are taken, one that waits for its client is closed.
        """
        connections_max = self.connections_max
        self._calls_max = _count_calls(connections_max)  # Here, because a call should not ask the system for a limit.
        self._planned_admissions -= 1
        if len(self) >= connections_max:
            closed = self._choose_to_close(connections_max)
            if closed is None:
                return False
            self.discard(closed)
            closed.make_room()
        self.add(connection)
        return True

    def _choose_to_close(self, connections_max: int) -> ConnectionT | None:
        """The connection that makes room, None if every client waits for us.

        A look at all connections plans for the next newcomers, too: while clients connect as fast as they can, one at
        each newcomer would take most of our time. A planned connection stays if its client has done something since.
        """
        if self._planned_admissions <= 0:
            self._planned.clear()
        while self._planned:
            state = self._planned.popleft()
            if state.connection in self and state == _state_of(state.connection):
                return state.connection
        waiting = [connection for connection in self if connection.deadline]
        count = self._planned_admissions = max(1, connections_max // FAIR_SHARES)
        self._planned.extend(map(_state_of, plan_closes(waiting, connections_max, count)))
        return self._planned.popleft().connection if self._planned else None

    def check_call(self, connection: ConnectionT) -> None:
        """Check that the client may make us work: a connection does not make room while its client waits for us.

        Raises:
            TooManyCalls: 429 if the client's address has its share, 503 if only the reserved connections are left.
        """
        calls_max, address_max = self._calls_max, self._limits.calls_per_address
        if len(self) <= calls_max and len(self) <= address_max:
            return
        calls = [other for other in self if not other.deadline and other is not connection]
        if not connection.is_authenticated:
            own_calls = [other for other in calls if other.peer == connection.peer and not other.is_authenticated]
            if len(own_calls) >= address_max:
                message = f"this address has {address_max} calls in flight; wait for one of them to end"
                raise TooManyCalls(429, message)
        if len(calls) >= calls_max:
            raise TooManyCalls(503, f"the server has {calls_max} calls in flight; try again later")


class _ConnectionState(NamedTuple, Generic[ConnectionT]):
    connection: ConnectionT
    is_waiting: bool
    active_at: float
    phase: RequestPhase
    is_authenticated: bool


def _state_of(connection: ConnectionT) -> _ConnectionState[ConnectionT]:
    is_waiting = bool(connection.deadline)
    return _ConnectionState(
        connection, is_waiting, connection.active_at, connection.phase, connection.is_authenticated
    )


def plan_closes(waiting: Sequence[ConnectionT], connections_max: int, count: int) -> list[ConnectionT]:
    """The next `count` connections that make room: neither many connections nor many addresses push out others.

    They have no valid key, if there is such a connection. Each is of the address with the most, if that is more than
    a fair share. Connections that have not sent a head go first, so that a flood of them closes no request; but those
    that have sent one may not take more than half of all, so that newcomers have the time to send theirs. Of these,
    the one whose client has done nothing for the longest time goes first.
    """
    candidates = [connection for connection in waiting if not connection.is_authenticated] or waiting
    fair_share = max(1, connections_max // FAIR_SHARES)
    by_peer: dict[str, list[ConnectionT]] = defaultdict(list)
    for connection in candidates:
        by_peer[connection.peer].append(connection)
    crowds = {peer: group for peer, group in by_peer.items() if len(group) > fair_share}
    orders = {peer: _ClosingOrder(group, connections_max // 2) for peer, group in crowds.items()}
    planned: list[ConnectionT] = []
    while orders and len(planned) < count:
        peer = max(orders, key=lambda peer: len(orders[peer]))  # At most FAIR_SHARES of them.
        planned.append(orders[peer].pop())
        if len(orders[peer]) <= fair_share:
            del orders[peer]
    others = _ClosingOrder(set(candidates).difference(planned), connections_max // 2)
    return planned + [others.pop() for _ in range(min(count - len(planned), len(others)))]


class _ClosingOrder(Generic[ConnectionT]):
    """Connections in the order in which they make room."""

    def __init__(self, connections: Iterable[ConnectionT], heads_max: int) -> None:
        self._heads_max = heads_max  # Beyond it, connections that have sent a head go first.
        self._by_phase: dict[RequestPhase, list[ConnectionT]] = {phase: [] for phase in RequestPhase}
        for connection in sorted(connections, key=attrgetter("active_at"), reverse=True):
            self._by_phase[connection.phase].append(connection)

    def __len__(self) -> int:
        return sum(map(len, self._by_phase.values()))

    def pop(self) -> ConnectionT:
        """Remove the connection that makes room first, and return it."""
        first_heads = self._by_phase[RequestPhase.FIRST_HEAD]
        if len(self) - len(first_heads) > self._heads_max:
            first_heads = []
        group = first_heads or self._by_phase[RequestPhase.IDLE] or self._by_phase[RequestPhase.IN_REQUEST]
        return group.pop()


def raise_descriptor_limit(connections_max: int) -> None:
    """Let this process open as many files as its connections need, if the system allows it.

    Only for a process that starts no foreign programs, because they would inherit the limit.
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


def _count_calls(connections_max: int) -> int:
    """How many calls may be in flight; the other connections are reserved for clients that have not called yet."""
    return connections_max - max(1, min(CONNECTIONS_RESERVED, connections_max // 8))


def peer_address(peername: object) -> str:
    """The address in a transport's `peername` as connections are counted: of IPv6 its network of 64 bits.

    The owner of such a network has all of its addresses.
    """
    if not isinstance(peername, tuple) or not peername:
        return ""
    host = str(peername[0])
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))
