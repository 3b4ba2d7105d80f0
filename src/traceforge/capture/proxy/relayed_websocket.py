"""A WebSocket between a client and an upstream.

In: the bytes of both sides. Out: the same bytes on the other side at once; then the frames in them to the recording.
Never: answers, changes, delays or refuses a frame: what breaks the rules of WebSocket is for the other side to judge.

Until the upstream has switched protocols, it is a call like any other. One that refuses is recorded as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceforge.capture.hook.recorded_conversation import RecordedConversation, WatchedBytes, clean_headers
from traceforge.capture.proxy.prepared_request import PreparedRequest
from traceforge.capture.proxy.relayed_call import RelayedCall
from traceforge.exchange import CallOutcome
from traceforge.http.message_head import ResponseHead

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.worker_state import WorkerState


class RelayedWebSocket(RelayedCall):
    """A WebSocket, from the moment when its handshake is known. It has a connection to the upstream of its own."""

    __slots__ = ("_conversation", "_is_open", "_watched")

    opens_websocket = True

    def __init__(self, state: WorkerState, client: ClientConnection, request: PreparedRequest) -> None:
        super().__init__(state, client, request)
        self._is_open = False  # The upstream has switched protocols.
        self._conversation: RecordedConversation | None = None  # None: it is not recorded.
        self._watched: WatchedBytes | None = None

    def start(self, request: PreparedRequest, raw: bytes, payload: list[bytes], is_complete: bool) -> None:
        """Send the handshake; then begin the recording."""
        self.is_request_complete = True
        self._connecting = self._state.pool.connect(self._route.upstream, self)
        self._send(request.head)
        recorded = self._state.recording.begin(request._replace(headers=clean_headers(request.headers)))
        if recorded.is_open:
            self._recorded = recorded
            self._conversation = RecordedConversation(recorded)

    def forward_head(self, head: ResponseHead, raw: bytes, payload: list[bytes]) -> None:
        """Forward a response that opens no WebSocket."""
        if self._conversation is not None:
            self._conversation.decline()
        super().forward_head(head, raw, payload)

    def forward_upgrade(self, head: ResponseHead) -> None:
        """Forward the head that opens the WebSocket."""
        self._is_open = True
        self._resend_buffer = None
        self._status = head.status
        added = [f"{name}: {value}".encode("latin-1") for name, value in self._recorded.extra_response_headers]
        lines = [head.first_line, *head.lines, b"Connection: Upgrade", b"Upgrade: websocket", *added]
        self._client.write(b"\r\n".join((*lines, b"", b"")))
        if self._conversation is not None:
            self._conversation.accept(head.status, head.header_pairs)
            self._watched = WatchedBytes(self._conversation, head.header_pairs)
        self._client.on_websocket_open(self)

    # -- frames

    def receive_frames(self, data: bytes) -> None:
        """Forward bytes of the client."""
        if self._upstream is not None:
            self._upstream.write(data)
        self._state.metrics.request_bytes += len(data)
        if self._watched is not None:
            self._watched.send(data)

    def forward_body(self, raw: bytes, payload: list[bytes]) -> None:
        """Forward bytes of the upstream; before the WebSocket is open, of the response that refuses it."""
        if not self._is_open:
            super().forward_body(raw, payload)
            return
        self._client.write(raw)
        self._state.metrics.response_bytes += len(raw)
        self._state.metrics.response_chunks += 1
        if self._watched is not None:
            self._watched.receive(raw)

    # -- the end

    def on_client_disconnected(self, reason: str = "the client left") -> None:
        """Close the upstream's connection, once it has all that the client sent."""
        if not self._is_open or self._upstream is None:
            super().on_client_disconnected(reason)
            return
        upstream, self._upstream = self._upstream, None
        upstream.close_call()
        self._end(CallOutcome.CLIENT_LEFT, reason, by_client=True)

    def on_response_complete(self) -> None:
        """The upstream has closed the connection, or has refused the WebSocket."""
        if not self._is_open:
            super().on_response_complete()
            return
        self._upstream = None
        self._end(CallOutcome.ANSWERED)
        self._client.break_off(reset=False)

    def on_response_cut(self, reason: str, *, reset: bool) -> None:
        """The connection of the upstream broke off."""
        if self._conversation is not None and self._is_open:
            self._conversation.end()
        super().on_response_cut(reason, reset=reset)

    def _end(self, outcome: CallOutcome, error: str = "", *, by_client: bool = False) -> None:
        if self._conversation is not None:
            self._conversation.end(by_client=by_client)
        self._finish(outcome, error)
