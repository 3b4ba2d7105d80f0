"""Connections to upstreams: opened, kept while idle, and closed.

Never: keeps more idle connections than allowed, or gives one connection to two calls at once.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

from traceforge.capture.proxy.proxy_metrics import ProxyMetrics
from traceforge.capture.proxy.upstream_connection import UpstreamConnection
from traceforge.capture.proxy.upstream_routes import Upstream

if TYPE_CHECKING:
    from traceforge.capture.proxy.relayed_call import RelayedCall

CONNECT_SECONDS_MAX = 10.0  # TLS included. Beyond it the client gets 504.
IDLE_SECONDS_MAX = 60.0  # Less than most upstreams allow; one that closes earlier is noticed.
IDLE_MAX = 256  # Of one upstream; a connection beyond this is closed after its call.

PoolKey = tuple[bool, str, int]


class UpstreamPool:
    """The connections of one worker to all upstreams."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: ProxyMetrics) -> None:
        self._loop = loop
        self._metrics = metrics
        self._idle: dict[PoolKey, list[UpstreamConnection]] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._tls: ssl.SSLContext | None = None
        self.own_addresses: list[tuple[str, int]] = []  # A connection to one of them would be a loop.

    def find_idle(self, upstream: Upstream) -> UpstreamConnection | None:
        """The idle connection that was used last, or None."""
        idle = self._idle.get((upstream.tls, upstream.host, upstream.port))
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    def connect(self, upstream: Upstream, call: RelayedCall) -> asyncio.Task[None]:
        """Connect, then give `call` the connection or the reason why there is none."""
        task = self._loop.create_task(self._connect(upstream, call))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return task

    async def _connect(self, upstream: Upstream, call: RelayedCall) -> None:
        connection = UpstreamConnection(self, (upstream.tls, upstream.host, upstream.port))
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                tls = self._tls_context() if upstream.tls else None
                name = upstream.host if tls else None
                await self._loop.create_connection(
                    lambda: connection, upstream.host, upstream.port, ssl=tls, server_hostname=name
                )
        except TimeoutError:
            call.on_connect_failed(504, "connect-timeout", f"no connection within {CONNECT_SECONDS_MAX:g} seconds")
        except (OSError, UnicodeError) as exc:
            call.on_connect_failed(502, *describe_connect_error(exc))
        except asyncio.CancelledError:
            connection.drop_call()
            raise
        else:
            self._metrics.upstream_connections += 1
            if self._is_own_address(connection):
                connection.drop_call()
                call.on_connect_failed(508, "loop", "this upstream is the proxy itself")
            else:
                call.on_connected(connection)

    def _tls_context(self) -> ssl.SSLContext:
        """Trusts what the system trusts; SSL_CERT_FILE and SSL_CERT_DIR are respected."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _is_own_address(self, connection: UpstreamConnection) -> bool:
        peer = connection.transport.get_extra_info("peername")[:2]
        own = connection.transport.get_extra_info("sockname")[0]
        return any(
            peer[1] == port and (peer[0] == host or (host in ("0.0.0.0", "::") and peer[0] == own))  # noqa: S104
            for host, port in self.own_addresses
        )

    def release(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next call."""
        idle = self._idle.setdefault(connection.key, [])
        if len(idle) >= IDLE_MAX:
            connection.transport.close()
            return
        connection.was_used = True
        connection.idle_since = self._loop.time()
        idle.append(connection)

    def remove(self, connection: UpstreamConnection) -> None:
        """Forget a connection that was lost."""
        idle = self._idle.get(connection.key)
        if idle and connection in idle:
            idle.remove(connection)

    def close_expired(self) -> None:
        """Close connections that were idle for too long."""
        oldest = self._loop.time() - IDLE_SECONDS_MAX
        for idle in self._idle.values():
            for connection in [connection for connection in idle if connection.idle_since < oldest]:
                idle.remove(connection)
                connection.transport.close()

    def close(self) -> None:
        """Close every idle connection, and stop connecting."""
        for task in list(self._connecting):
            task.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.transport.abort()
            idle.clear()


def describe_connect_error(exc: Exception) -> tuple[str, str]:
    """A kind to count, and a sentence for the client."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return "tls", f"its certificate cannot be trusted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        return "tls", f"TLS failed: {exc.reason or 'no reason given'}"
    if isinstance(exc, (socket.gaierror, UnicodeError)):
        return "name", "its name cannot be resolved"
    return "connect", (getattr(exc, "strerror", None) or type(exc).__name__).lower()
