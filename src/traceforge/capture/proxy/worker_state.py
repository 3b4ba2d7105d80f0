"""What all connections of one worker share."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from traceforge.capture.engine import Engine
from traceforge.capture.proxy.call_recording import CallRecording
from traceforge.capture.proxy.proxy_metrics import ProxyMetrics
from traceforge.capture.proxy.relayed_call import RelayedCall
from traceforge.capture.proxy.relayed_websocket import RelayedWebSocket
from traceforge.capture.proxy.replayed_call import ReplayedCall
from traceforge.capture.proxy.replayed_websocket import ReplayedWebSocket, ReplayWatcher
from traceforge.capture.proxy.response_writer import ResponseWriter
from traceforge.capture.proxy.upstream_pool import UpstreamPool
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.http.access import AccessPolicy
from traceforge.http.server_limits import PROXY_LIMITS, ClientConnections, ServerLimits

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.prepared_request import PreparedRequest
    from traceforge.capture.recorder import Recorder
    from traceforge.capture.replay_responder import ReplayResponder

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 (compared with, not listened on)


class WorkerState:
    """Routes, access rules, upstream connections, counters and clients of one worker."""

    def __init__(
        self,
        routes: UpstreamRoutes,
        access: AccessPolicy,
        recorder: Recorder | None,
        *,
        worker: int = 0,
        engine: Engine | None = None,
        replay: ReplayResponder | None = None,
        limits: ServerLimits = PROXY_LIMITS,
    ) -> None:
        """Without a `recorder` and an `engine` nothing is recorded; with a `replay`, calls are answered from it."""
        self.loop = asyncio.get_running_loop()
        self.routes = routes
        self.access = access
        self.limits = limits
        self.recorder = recorder
        self.worker = worker
        self._replay = replay
        is_strict = replay is not None and not replay.allow_upstream
        self.replay_watcher = ReplayWatcher(replay) if replay is not None and is_strict else None
        self.writer = ResponseWriter()
        self.pace = replay.pace if replay else 0.0
        self.metrics = ProxyMetrics()
        if engine is None and recorder is not None:
            engine = Engine(recorder)
        self.recording = CallRecording(engine, self.metrics, loop=self.loop)
        self.pool = UpstreamPool(self.loop, self.metrics)
        self.connections: ClientConnections[ClientConnection] = ClientConnections(limits)
        self._yielded: deque[ClientConnection] = deque()  # Those whose clients sent many requests ahead.
        self.draining = False
        self.looping_upstreams: set[str] = set()  # Names of upstreams that lead back to this proxy.

    def resume_later(self, connection: ClientConnection) -> None:
        """Let a connection read on in a later turn of the loop: one in each turn, so that turns are short."""
        self._yielded.append(connection)
        if len(self._yielded) == 1:
            self.loop.call_soon(self._resume_next)

    def _resume_next(self) -> None:
        self._yielded[0].resume()  # It may go to the end of the queue again.
        self._yielded.popleft()
        if self._yielded:
            self.loop.call_soon(self._resume_next)

    def open_call(self, client: ClientConnection, request: PreparedRequest) -> RelayedCall | ReplayedCall:
        """A call to the upstream, or to the recordings.

        A WebSocket cannot be looked up before it is open: where calls may go upstream, it does.
        """
        if request.opens_websocket:
            if self.replay_watcher is None:
                return RelayedWebSocket(self, client, request)
            return ReplayedWebSocket(self, client, request, self.replay_watcher)
        if self._replay is None:
            return RelayedCall(self, client, request)
        return ReplayedCall(self, client, request, self._replay)

    def count_unmatched(self, reason: str) -> None:
        """Count a request that was refused before it was looked up: in a strict replay it is an unmatched one."""
        if self._replay is not None and not self._replay.allow_upstream:
            self._replay.count_refusal(reason)

    def add_own_address(self, host: str, port: int) -> None:
        """Remember an address that we listen on, and which upstreams lead back to it."""
        self.pool.own_addresses.append((host, port))
        names = (host, *_LOOPBACK) if host in (*_LOOPBACK, *_ANY_ADDRESS) else (host,)
        self.looping_upstreams |= {
            upstream.name for upstream in self.routes.upstreams if upstream.port == port and upstream.host in names
        }

    def metrics_page(self) -> bytes:
        self.recording.flush()
        return self.metrics.render(self._recorder_counts(), self.recording.header_problems, self.worker)

    def totals(self) -> dict[str, int]:
        """The counts that the summary at the end prints."""
        return {**self.metrics.totals(), **self._recorder_counts(), "header_problems": self.recording.header_problems}

    def _recorder_counts(self) -> dict[str, int]:
        return self.recorder.counts.by_result() if self.recorder is not None else {}
