"""Connections to upstreams: opened, kept while they are idle, and closed.

In: an upstream that a call wants to speak to. Out: a connection that is ready, or the reason why there is none.
Never: keeps more idle connections than it may, or gives one to two calls at once.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

from traceforge.capture.proxy.proxy_metrics import Metrics
from traceforge.capture.proxy.upstream_connection import UpstreamConnection
from traceforge.capture.proxy.upstream_routes import Upstream

if TYPE_CHECKING:
    from traceforge.capture.proxy.relayed_call import Relay

CONNECT_SECONDS_MAX = 10.0  # TLS included. Beyond it the client is told, with 504.
IDLE_SECONDS_MAX = 60.0  # Shorter than most upstreams allow; one that closes earlier is noticed.
IDLE_MAX = 256  # Of one upstream; a connection beyond this is closed after its call.

Key = tuple[bool, str, int]


class Pool:
    """The connections of one worker to all upstreams."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> None:
        self._loop = loop
        self._metrics = metrics
        self._idle: dict[Key, list[UpstreamConnection]] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._tls: ssl.SSLContext | None = None
        self.addresses: list[tuple[str, int]] = []  # Our own: a connection to one of them is a loop.

    def find_idle(self, upstream: Upstream) -> UpstreamConnection | None:
        """The idle connection that was used last, if there is one."""
        idle = self._idle.get((upstream.tls, upstream.host, upstream.port))
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    def open(self, upstream: Upstream, relay: Relay) -> asyncio.Task[None]:
        """Connect; the relay is told of the connection, or of the reason why there is none."""
        task = self._loop.create_task(self._open(upstream, relay))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return task

    async def _open(self, upstream: Upstream, relay: Relay) -> None:
        connection = UpstreamConnection(self, (upstream.tls, upstream.host, upstream.port))
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                tls = self._tls_context() if upstream.tls else None
                name = upstream.host if tls else None
                await self._loop.create_connection(
                    lambda: connection, upstream.host, upstream.port, ssl=tls, server_hostname=name
                )
        except TimeoutError:
            relay.unreachable(504, "connect-timeout", f"no connection within {CONNECT_SECONDS_MAX:g} seconds")
        except (OSError, UnicodeError) as exc:
            relay.unreachable(502, *connect_problem(exc))
        except asyncio.CancelledError:
            connection.drop()
            raise
        else:
            self._metrics.upstream_connections += 1
            if self._is_ours(connection):
                connection.drop()
                relay.unreachable(508, "loop", "this upstream is the proxy itself")
            else:
                relay.connected(connection)

    def _tls_context(self) -> ssl.SSLContext:
        """Trust what the system trusts; SSL_CERT_FILE and SSL_CERT_DIR count."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _is_ours(self, connection: UpstreamConnection) -> bool:
        peer = connection.transport.get_extra_info("peername")[:2]
        own = connection.transport.get_extra_info("sockname")[0]
        return any(
            peer[1] == port and (peer[0] == host or (host in ("0.0.0.0", "::") and peer[0] == own))  # noqa: S104
            for host, port in self.addresses
        )

    def release(self, connection: UpstreamConnection) -> None:
        """A call is over and its connection can serve another."""
        idle = self._idle.setdefault(connection.key, [])
        if len(idle) >= IDLE_MAX:
            connection.transport.close()
            return
        connection.reused = True
        connection.idle_since = self._loop.time()
        idle.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection was lost."""
        idle = self._idle.get(connection.key)
        if idle and connection in idle:
            idle.remove(connection)

    def sweep(self) -> None:
        """Close what has been idle for too long."""
        oldest = self._loop.time() - IDLE_SECONDS_MAX
        for idle in self._idle.values():
            for connection in [one for one in idle if one.idle_since < oldest]:
                idle.remove(connection)
                connection.transport.close()

    def close(self) -> None:
        """Close every idle connection, and stop opening others."""
        for task in list(self._opening):
            task.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.transport.abort()
            idle.clear()


def connect_problem(exc: Exception) -> tuple[str, str]:
    """A kind to count, and a sentence for the client."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return "tls", f"its certificate cannot be trusted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return "tls", f"TLS failed: {exc.reason or 'no reason given'}"
    if isinstance(exc, (socket.gaierror, UnicodeError)):
        return "name", "its name cannot be resolved"
    return "connect", (getattr(exc, "strerror", None) or type(exc).__name__).lower()
