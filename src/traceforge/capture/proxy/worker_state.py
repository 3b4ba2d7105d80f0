"""What all connections of one worker share.

In: the settings of the proxy. Out: one value that connections hold on to. Never: a global.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from traceforge.capture.engine import Engine
from traceforge.capture.proxy.call_recording import Watcher
from traceforge.capture.proxy.proxy_metrics import Metrics
from traceforge.capture.proxy.relayed_call import Relay
from traceforge.capture.proxy.upstream_pool import Pool
from traceforge.capture.proxy.upstream_routes import Routes
from traceforge.capture.recorder import Recorder
from traceforge.http.access import Guard

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.prepared_request import Ask
    from traceforge.capture.proxy.replayed_call import Playback
    from traceforge.capture.proxy.response_writer import Writer
    from traceforge.capture.replay_responder import Replay

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY = ("0.0.0.0", "::")  # noqa: S104 (what they mean, not what we listen on)


class Site:
    """The shared parts of a worker: routes, guard, pool, counters, the engine's watcher, and who is connected."""

    writer: Writer  # of what is replayed

    def __init__(
        self,
        routes: Routes,
        guard: Guard,
        sink: Recorder | None,
        *,
        worker: int = 0,
        engine: Engine | None = None,
        replay: Replay | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.routes = routes
        self.guard = guard
        self.sink = sink  # None: nothing is recorded
        self.worker = worker
        self._replay = replay
        self._play = self._open_playback(replay) if replay is not None else None
        self.pace = replay.pace if replay else 0.0
        self.records_misses = replay is not None and replay.relays_misses
        self.metrics = Metrics()
        self.watcher = Watcher(engine or (Engine(sink) if sink is not None else None), self.metrics, loop=self.loop)
        self.pool = Pool(self.loop, self.metrics)
        self.connections: set[ClientConnection] = set()
        self.draining = False
        self.addresses: list[tuple[str, int]] = []  # where we listen
        self.looping: set[str] = set()  # upstreams that are ourselves

    def open_call(self, client: ClientConnection, ask: Ask) -> Relay | Playback:
        """What serves a request: its upstream, or what was recorded."""
        return Relay(self, client, ask) if self._play is None else self._play(client, ask)

    def _open_playback(self, replay: Replay) -> Callable[[ClientConnection, Ask], Playback]:
        from traceforge.capture.proxy.replayed_call import Playback  # Who only records does not load what replays.
        from traceforge.capture.proxy.response_writer import Writer

        self.writer = Writer()
        return lambda client, ask: Playback(self, client, ask, replay)

    def not_replayed(self, why: str) -> None:
        """A request that is refused before it could be looked up: in a strict replay, that is a miss."""
        if self._replay is not None and not self.records_misses:
            self._replay.refused(why)

    def listens_on(self, host: str, port: int) -> None:
        """Remember an address of ours, and which upstreams would lead back to it by the name they have."""
        self.addresses.append((host, port))
        self.pool.addresses.append((host, port))
        names = (host, *_LOOPBACK) if host in (*_LOOPBACK, *_ANY) else (host,)
        self.looping |= {one.name for one in self.routes.upstreams if one.port == port and one.host in names}

    def metrics_page(self) -> bytes:
        """The text of `/metrics`."""
        self.watcher.flush()
        counts = self.sink.counts.by_result() if self.sink is not None else {}
        return self.metrics.text(counts, self.watcher.header_problems, self.worker)

    def totals(self) -> dict[str, int]:
        """What is said at the end."""
        counts = self.sink.counts.by_result() if self.sink is not None else {}
        return {**self.metrics.totals(), **counts, "header_problems": self.watcher.header_problems}
