"""The proxy of a run: for programs that cannot be instrumented.

In: an engine and where the user wants each provider to be. Out: the base URL of a proxy on loopback, which serves in
a thread of this process until the run is over. Never: a reason for a run to fail: without a proxy, other programs are
not recorded.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from traceforge.capture.engine import Engine
from traceforge.capture.proxy.effective_upstreams import find_run_upstreams
from traceforge.capture.proxy.proxy_server import ProxyServer
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.capture.proxy.worker_state import WorkerState
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.config import LoadedConfig
from traceforge.errors import CannotListen
from traceforge.http.access import AccessPolicy
from traceforge.http.bound_socket import bind_socket, socket_url

HOST = "127.0.0.1"
START_SECONDS_MAX = 10.0
DRAIN_SECONDS = 2.0  # For calls in flight when the command has ended: its children may still be reading.


class RunProxy:
    """One proxy, for one run."""

    def __init__(self, engine: Engine, loaded: LoadedConfig, replay: ReplayResponder | None = None) -> None:
        self._engine = engine
        self._replay = replay
        self._loaded = loaded
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.calls: Counter[str] = Counter()  # by host, once it is closed

    def start(self, environ: Mapping[str, str]) -> str:
        """Begin to serve the upstreams of this environment; the base URL, or "" where no address is free.

        The URL has a token that only the command's environment holds: every user of the machine can reach the port.
        """
        try:
            sock = bind_socket(HOST, 0)
        except CannotListen:
            return ""
        routes = UpstreamRoutes(find_run_upstreams(self._loaded, environ).urls)
        hosts = {upstream.name: upstream.authority for upstream in routes.upstreams}
        path_token = secrets.token_hex(16)
        access = AccessPolicy(HOST, path_token=path_token)
        ready = threading.Event()

        async def serve() -> None:
            state = WorkerState(routes, access, None, engine=self._engine, replay=self._replay)
            server = ProxyServer(state)
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            await server.start(sock)
            ready.set()
            await self._stop.wait()
            await server.drain(DRAIN_SECONDS, asyncio.Event())
            for (name, _), times in state.metrics.calls.items():
                self.calls[hosts.get(name, name)] += times

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), name="traceforge-proxy", daemon=True)
        self._thread.start()
        return f"{socket_url(sock)}/{path_token}" if ready.wait(START_SECONDS_MAX) else ""

    def close(self) -> None:
        """Stop serving; calls in flight have a little time to end."""
        if self._loop is not None and self._stop is not None and self._thread is not None:
            with suppress(RuntimeError):  # The loop is gone already.
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(DRAIN_SECONDS + 2)
