"""One call in flight between a client and an upstream.

In: what the client sends and what the upstream responds, as it comes. Out: the same bytes on the other side at once,
then every event to the recording. Never: buffers a response, waits, or finishes a call twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traceforge.capture.hook.guarded_call import GuardedCall
from traceforge.capture.proxy.call_recording import UNRECORDED
from traceforge.capture.proxy.prepared_request import PreparedRequest
from traceforge.capture.proxy.proxy_metrics import increment
from traceforge.exchange import CallOutcome
from traceforge.http.body_framing import CHUNKED, UNTIL_CLOSE
from traceforge.http.message_head import ResponseHead

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.upstream_connection import UpstreamConnection
    from traceforge.capture.proxy.worker_state import WorkerState

RESEND_BYTES_MAX = 1 << 20  # A request up to this size is sent again when a kept connection turns out to be closed.
AHEAD_BYTES_MAX = 256 << 10  # What a client may send before the upstream is connected.


class RelayedCall:
    """A call, from the moment when the head of its request is known."""

    __slots__ = (
        "_client",
        "_connecting",
        "_dechunk",
        "_http_minor",
        "_method",
        "_recorded",
        "_resend_buffer",
        "_resend_bytes",
        "_retried",
        "_route",
        "_state",
        "_status",
        "_upstream",
        "is_finished",
        "is_request_complete",
    )  # fmt: skip

    opens_websocket = False

    def __init__(self, state: WorkerState, client: ClientConnection, request: PreparedRequest) -> None:
        self._state = state
        self._client = client
        self._route = request.route
        self._method = request.method
        self._http_minor = request.http_minor
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._resend_buffer: list[bytes] | None = []  # What was sent, while it may have to be sent again.
        self._resend_bytes = 0
        self._retried = False
        self._dechunk = False
        self._status = 0
        self.is_finished = False  # A finished call may still forward bytes of a malformed response.
        self.is_request_complete = False
        self._recorded: GuardedCall = UNRECORDED
        state.metrics.in_flight += 1

    @property
    def has_response(self) -> bool:
        """Whether the client has got a part of the response."""
        return self._status != 0

    # -- the client's side

    def start(self, request: PreparedRequest, raw: bytes, payload: list[bytes], is_complete: bool) -> None:
        """Send the head and the part of the body that came with it; then begin the recording."""
        self.is_request_complete = is_complete
        self._upstream = self._state.pool.find_idle(self._route.upstream)
        if self._upstream is None:
            self._connecting = self._state.pool.connect(self._route.upstream, self)
        else:
            self._upstream.start_call(self, self._method)
        self._send(request.head + raw)
        self._recorded = self._state.recording.begin(request)
        self._record_request(payload)

    def receive_body(self, raw: bytes, payload: list[bytes], is_complete: bool) -> None:
        """Forward more of the request's body."""
        self.is_request_complete = is_complete
        self._send(raw)
        self._record_request(payload)

    def _record_request(self, payload: list[bytes]) -> None:
        if payload:  # Joined: a million chunks of a byte each would take fifty times their size.
            chunk = payload[0] if len(payload) == 1 else b"".join(payload)
            self._state.metrics.request_bytes += len(chunk)
            self._recorded.add_request_chunk(chunk)

    def _send(self, data: bytes) -> None:
        if self._resend_buffer is not None:
            self._resend_buffer.append(data)
            self._resend_bytes += len(data)
            if self._upstream is None:
                if self._resend_bytes > AHEAD_BYTES_MAX:
                    self._client.set_upstream_full(True)
            elif self._resend_bytes > RESEND_BYTES_MAX:
                self._resend_buffer = None
        if self._upstream is not None:
            self._upstream.write(data)

    def on_client_disconnected(self, reason: str = "the client left") -> None:
        """Close the upstream's connection at once: its response has no reader."""
        self._drop_upstream()
        self._finish(CallOutcome.CLIENT_LEFT, reason)

    def on_client_full(self) -> None:
        """Stop reading the response while the client cannot take more of it."""
        if self._upstream is not None:
            self._upstream.set_reading(False)

    def on_client_ready(self) -> None:
        """Resume reading the upstream's response."""
        if self._upstream is not None:
            self._upstream.set_reading(True)

    # -- the upstream's side

    def on_connected(self, upstream: UpstreamConnection) -> None:
        """Send what the client has sent so far over a new connection."""
        self._connecting = None
        self._upstream = upstream
        upstream.start_call(self, self._method)
        data = b"".join(self._resend_buffer or [])
        self._resend_buffer = None  # A new connection is not closed already, so nothing needs to be sent again.
        self._client.set_upstream_full(False)
        upstream.write(data)

    def on_connect_failed(self, status: int, kind: str, reason: str) -> None:
        """The upstream cannot be reached."""
        self._connecting = None
        self._fail(status, kind, reason)

    def on_lost_before_head(self, reason: str, received: bytes, *, was_idle: bool, reset: bool) -> None:
        """The connection was lost before a complete head. Send again if it was `was_idle`, otherwise break off."""
        self._upstream = None
        if was_idle and self._resend_buffer is not None and not self._retried:
            self._retried = True
            self._state.metrics.upstream_retries += 1
            self._connecting = self._state.pool.connect(self._route.upstream, self)
        else:
            increment(self._state.metrics.upstream_errors, "no-answer")
            self._finish(CallOutcome.FAILED, reason)
            self._client.break_off(received, reset=reset)

    def on_upstream_full(self) -> None:
        """The upstream takes the request slowly."""
        self._client.set_upstream_full(True)

    def on_upstream_ready(self) -> None:
        """The upstream can take more of the request."""
        self._client.set_upstream_full(False)

    def forward_interim_head(self, head: bytes) -> None:
        """Forward a 1xx head; clients of HTTP/1.0 do not know any."""
        if self._http_minor:
            self._client.write(head)

    def forward_head(self, head: ResponseHead, raw: bytes, payload: list[bytes]) -> None:
        """Forward the head of the response, and the part of its body that came with it."""
        self._resend_buffer = None
        self._status = head.status
        if head.length == CHUNKED and not self._http_minor:
            self._dechunk = True
            raw = b"".join(payload)
        is_last = self._client.decide_close(until_close=head.length == UNTIL_CLOSE)
        is_changed = is_last or self._dechunk or self._recorded.extra_response_headers
        head_bytes = self._change_head(head, is_last) if is_changed else head.forwarded
        self._client.write(b"".join((head_bytes, b"\r\n", raw)))
        self._recorded.start_response(head.status, head.header_pairs)
        if payload:
            self._record_response(payload)

    def _change_head(self, head: ResponseHead, is_last: bool) -> bytes:
        """The head for a client of HTTP/1.0, for one that asked for TraceForge's headers, or before a close."""
        first_line, *lines = head.forwarded.split(b"\r\n")[:-1]
        if self._dechunk:
            lines = [line for line in lines if not line.lower().startswith((b"transfer-encoding:", b"trailer:"))]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in self._recorded.extra_response_headers]
        if is_last:
            lines.append(b"Connection: close")
        return b"\r\n".join((first_line, *lines, b""))

    def forward_upgrade(self, head: ResponseHead) -> None:
        """Never called: this call did not ask for another protocol."""
        raise NotImplementedError

    def forward_body(self, raw: bytes, payload: list[bytes]) -> None:
        """Forward more of the response's body."""
        data = b"".join(payload) if self._dechunk else raw
        if data:
            self._client.write(data)
        self._record_response(payload)

    def _record_response(self, payload: list[bytes]) -> None:
        metrics = self._state.metrics
        for chunk in payload:
            metrics.response_bytes += len(chunk)
            self._recorded.add_response_chunk(chunk)
        metrics.response_chunks += len(payload)

    def on_response_complete(self) -> None:
        self._upstream = None
        self._finish(CallOutcome.ANSWERED)
        self._client.on_call_finished()

    def on_response_cut(self, reason: str, *, reset: bool) -> None:
        """The response broke off. The client's connection breaks off too: it gets no end that was not sent."""
        self._upstream = None
        if not self.is_finished:
            increment(self._state.metrics.upstream_errors, "cut")
        self._finish(CallOutcome.CUT, reason)
        self._client.break_off(reset=reset)

    def on_response_malformed(self, reason: str, raw: bytes, payload: list[bytes]) -> None:
        """The rest of the response cannot be parsed: finish the recording, and forward its bytes as they come."""
        increment(self._state.metrics.upstream_errors, "malformed")
        self._resend_buffer = None
        self._dechunk = False
        self._record_response(payload)
        self._finish(CallOutcome.CUT if self._status else CallOutcome.FAILED, reason)
        self._client.write(raw)

    # -- the end

    def _fail(self, status: int, kind: str, reason: str) -> None:
        self._upstream = None
        self._status = status
        increment(self._state.metrics.upstream_errors, kind)
        self._finish(CallOutcome.FAILED, reason)
        name = self._route.upstream.name
        self._client.on_call_failed(status, f"upstream_{kind}".replace("-", "_"), f"upstream {name}: {reason}")

    def abort(self) -> None:
        """The proxy stops, and waits no longer for this call."""
        self._drop_upstream()
        self._finish(CallOutcome.CUT if self._status else CallOutcome.FAILED, "the proxy was stopped")

    def _drop_upstream(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._upstream is not None:
            self._upstream.drop_call()
            self._upstream = None

    def _finish(self, outcome: CallOutcome, error: str = "") -> None:
        if self.is_finished:  # Its response was malformed, and only bytes were forwarded since.
            return
        self.is_finished = True
        self._resend_buffer = None
        self._state.metrics.in_flight -= 1
        self._state.metrics.call_ended(self._route.upstream.name, self._status, outcome)
        self._recorded.end(outcome, error)
