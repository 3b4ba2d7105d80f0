"""A WebSocket of a client that recordings answer.

In: the bytes of the client. Out: the bytes of a replayed conversation, which a thread of its own answers at the other
end of a socket pair. Never: opens a connection.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from traceforge.capture.hook.guarded_call import GuardedCall
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.hook.replayed_conversation import ReplayedConversation
from traceforge.capture.hook.replayed_response import ReplayedResponse
from traceforge.capture.hook.watcher import Watcher
from traceforge.capture.proxy.prepared_request import PreparedRequest
from traceforge.capture.proxy.relayed_websocket import RelayedWebSocket
from traceforge.capture.proxy.upstream_connection import UpstreamConnection
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.exchange import Caller
from traceforge.http.message_head import Header

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.worker_state import WorkerState

_KEY = (False, "", 0)  # of connections that no pool keeps


class ReplayWatcher(Watcher):
    """Looks up what the clients of one proxy have sent."""

    replays = is_strict = True

    def __init__(self, responder: ReplayResponder) -> None:
        self._responder = responder

    def replay_call(self, call: InFlightCall, body: bytes) -> ReplayedResponse | None:
        return self._responder.respond(
            call.method, call.url, call.client_headers, body, call.caller, conversation=call.conversation
        )

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self._responder.count_refusal(reason, is_deviation, scope)


class ReplayedWebSocket(RelayedWebSocket):
    """A WebSocket, from the moment when its handshake is known; its upstream is a conversation in this process."""

    __slots__ = ("_watcher",)

    def __init__(
        self, state: WorkerState, client: ClientConnection, request: PreparedRequest, watcher: ReplayWatcher
    ) -> None:
        super().__init__(state, client, request)
        self._watcher = watcher

    def start(self, request: PreparedRequest, raw: bytes, payload: list[bytes], is_complete: bool) -> None:
        """Send the handshake to the conversation, with the headers of TraceForge that it has."""
        call = InFlightCall(_discard, request.method, request.route.url, (), caller=Caller())
        conversation = ReplayedConversation(GuardedCall(call, self._watcher))
        self._connecting = self._state.loop.create_task(self._connect(conversation.start()))
        self._send(b"\r\n".join((request.route.request_line, *map(_encode, request.headers), b"", b"")))

    async def _connect(self, client_socket: socket.socket) -> None:
        connection = UpstreamConnection(self._state.pool, _KEY)
        try:
            await self._state.loop.create_connection(lambda: connection, sock=client_socket)
        except asyncio.CancelledError:
            client_socket.close()
            raise
        self.on_connected(connection)


def _encode(header: Header) -> bytes:
    return f"{header[0]}: {header[1]}".encode("latin-1")


def _discard(call: InFlightCall) -> None:
    pass
