"""The proxy on its socket: accepts clients, closes expired connections, drains at the end.

Never: accepts a client after the stop, or cuts a call that could have ended in time.
"""

from __future__ import annotations

import asyncio
import socket

from traceforge.capture.hook.guarded_call import stop_conversations
from traceforge.capture.proxy.client_connection import ClientConnection
from traceforge.capture.proxy.worker_state import WorkerState
from traceforge.http.accept_loop import Listening, listen

EXPIRY_CHECK_SECONDS = 1.0


class ProxyServer:
    """Accepts clients on one socket."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._listener: Listening | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, sock: socket.socket) -> None:
        """Listen on a bound socket."""
        state = self._state
        host, port = sock.getsockname()[:2]
        state.add_own_address(host, port)
        self._listener = await listen(sock, lambda: ClientConnection(state), state.connections.connections_max)
        self._close_expired()

    def _close_expired(self) -> None:
        now = self._state.loop.time()
        for connection in list(self._state.connections):
            connection.close_if_expired(now)
        self._state.pool.close_expired()
        self._timer = self._state.loop.call_later(EXPIRY_CHECK_SECONDS, self._close_expired)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> int:
        """Stop accepting, and let calls end within `seconds` or until `hurry`. Returns how many had to be cut."""
        state = self._state
        state.draining = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(state.connections):
            connection.close_if_idle()
        deadline = state.loop.time() + seconds
        while state.connections and state.loop.time() < deadline and not hurry.is_set():
            await asyncio.sleep(0.01)
        cut = state.metrics.in_flight
        await self._close()
        return cut

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._state.connections):
            connection.abort()
        self._state.pool.close()
        while self._state.connections:
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # Let closed connections report that they are.
        if self._state.replay_watcher is not None:  # They look up what was sent, each in a thread of its own.
            await asyncio.to_thread(stop_conversations, self._state.replay_watcher)
        self._state.recording.flush()
