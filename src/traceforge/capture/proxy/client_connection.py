"""A connection of a client, and the requests that come over it, one after the other.

In: bytes of the client. Out: a call for each admitted request, otherwise our own response. Never: reads on where the
start of the next request is ambiguous, or waits for ever for the rest of a head.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from traceforge.capture.proxy.admission import admit, error_response
from traceforge.capture.proxy.direct_write import find_descriptor, write_directly
from traceforge.capture.proxy.prepared_request import PreparedRequest, RepeatedHead, prepare_request, remember_head
from traceforge.capture.proxy.proxy_metrics import increment
from traceforge.http.body_framing import InvalidBody, MessageBody, open_body
from traceforge.http.connection_owner import is_own_client
from traceforge.http.message_head import HeadReader, InvalidHead, RequestHead
from traceforge.http.plain_response import PlainResponse
from traceforge.http.server_limits import (
    DISCARDED_BYTES_MAX,
    PIPELINED_BYTES_MAX,
    RequestPhase,
    TooManyCalls,
    peer_address,
)

if TYPE_CHECKING:
    from traceforge.capture.proxy.relayed_call import RelayedCall
    from traceforge.capture.proxy.relayed_websocket import RelayedWebSocket
    from traceforge.capture.proxy.replayed_call import ReplayedCall
    from traceforge.capture.proxy.worker_state import WorkerState

REQUESTS_PER_TURN_MAX = 16  # Of one connection, so that requests sent ahead do not keep the other clients waiting.
REMEMBER_HEAD_TRIES_MAX = 3  # After so many heads in a row that did not repeat, no further one is remembered.

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 seconds.


class ClientConnection(asyncio.Protocol):
    """One connection; its requests are served in turn."""

    __slots__ = (
        "_body", "_call", "_descriptor", "_discarded_bytes", "_has_sent_head", "_has_yielded", "_is_client_full",
        "_is_closing", "_is_upstream_full", "_keep_alive", "_limits", "_pipelined", "_reader", "_reading_paused",
        "_remember_tries", "_repeated_head", "_state", "_websocket", "active_at", "deadline",
        "is_authenticated", "peer", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._limits = state.limits
        self._reader: HeadReader | None = None  # Of a head that has not arrived completely.
        self._repeated_head: RepeatedHead | None = None
        self._remember_tries = 0
        self._call: RelayedCall | ReplayedCall | None = None
        self._body: MessageBody | None = None  # Of the request, until all of it has arrived.
        self._websocket: RelayedWebSocket | None = None  # That is open: every byte belongs to it.
        self._pipelined = b""
        self._keep_alive = True
        self._is_closing = False
        self._discarded_bytes = 0
        self._is_upstream_full = False  # The upstream cannot take more of the request.
        self._reading_paused = False
        self._is_client_full = False  # The client has not taken what was written.
        self._has_yielded = False  # The next request is read in the loop's next turn.
        self.deadline = 0.0  # 0: none.
        self.active_at = 0.0
        self.is_authenticated = False
        self._has_sent_head = False
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._descriptor = find_descriptor(self.transport)
        self.peer = peer_address(transport.get_extra_info("peername"))
        self._state.metrics.connections += 1
        self.active_at = self._state.loop.time()
        self._set_deadline(self._limits.head_seconds)
        if not self._state.connections.admit(self):
            self._refuse(503, "too_busy", "there are too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected; a call in flight ends."""
        self._state.connections.discard(self)
        self._state.metrics.connections -= 1
        self._is_closing = True
        call, self._call = self._call, None
        if call is not None:
            call.on_client_disconnected()

    # -- reading requests

    def data_received(self, data: bytes) -> None:
        """Read bytes of a body, of the next head, or of a request that was sent ahead."""
        if self._reader is None:
            self.active_at = self._state.loop.time()
        if self._websocket is not None:
            self._websocket.receive_frames(data)
            return
        if self._body is not None:
            data = self._read_body(self._body, data)
        if data:
            self._read_heads(data)

    def _read_heads(self, data: bytes) -> None:
        if self._call is not None and self._call.is_finished:
            # Its response was malformed, so we could not tell its end. The client could: it sends the next request.
            self._call.on_client_disconnected()
            self._call = None
        for _ in range(REQUESTS_PER_TURN_MAX):
            if not data or self._call is not None or self._body is not None or self._is_blocked:
                break
            data = self._read_head(data)
        else:  # Let the other connections have their turn.
            if data and self._call is None and self._body is None and not self._is_blocked:
                self._has_yielded = True
                self._state.resume_later(self)
        if data and not self._is_closing:
            self._pipelined += data
            self._update_reading()

    @property
    def _is_blocked(self) -> bool:
        """Whether no request may be read now, although none is served."""
        return self._is_closing or self._is_client_full or self._has_yielded

    def resume(self) -> None:
        """Read on in the requests that were sent ahead."""
        self._has_yielded = False
        if not self._is_blocked:
            self._read_next_request()

    def _read_head(self, data: bytes) -> bytes:
        """Read one head and serve its request; return the bytes after the request."""
        if self._reader is None:
            if self._repeated_head is not None and (match := self._repeated_head.match(data)) is not None:
                request, head_end = match
                self._remember_tries = 0
                return self._start_call(request, data[head_end:])
            data = data.lstrip(b"\r\n")  # HTTP allows empty lines before a request.
            if not data:
                return b""
            self._reader = HeadReader.for_request()
            self._set_deadline(self._limits.head_seconds)
        try:
            head = self._reader.feed(data)
            if head is None:
                return b""
            remainder, self._reader = self._reader.remainder, None
            return self._serve(head, remainder)
        except InvalidHead as exc:
            self._refuse(exc.status, "bad_request", str(exc))
        except InvalidBody as exc:
            self._refuse(400, "bad_request", str(exc))
        return b""

    def _serve(self, data: bytes, remainder: bytes) -> bytes:
        """Serve the request with this head; return the bytes after the request."""
        head = RequestHead(data)
        self._has_sent_head = True
        admitted, is_authenticated = admit(self._state, head, self._is_own_user)
        self.is_authenticated |= is_authenticated
        if not isinstance(admitted, PlainResponse):
            request = prepare_request(head, admitted)
            if self._remember_tries < REMEMBER_HEAD_TRIES_MAX:
                self._remember_tries += 1
                self._repeated_head = remember_head(data, request)
            return self._start_call(request, remainder)
        self.deadline = 0.0
        self._keep_alive = head.keep_alive
        _, _, remainder = self._open_body(head.length, remainder)
        self._respond(admitted, head.method)
        return remainder

    def _is_own_user(self) -> bool:
        peer, server = map(self.transport.get_extra_info, ("peername", "sockname"))
        return is_own_client(peer, server)

    def _start_call(self, request: PreparedRequest, remainder: bytes) -> bytes:
        if self._is_call_refused():
            return b""
        self.deadline = 0.0
        self._keep_alive = request.keep_alive
        if request.length == len(remainder):  # The body came with the head, as most do.
            raw, payload, remainder = remainder, [remainder] if remainder else [], b""
        else:
            raw, payload, remainder = self._open_body(request.length, remainder)
        call = self._call = self._state.open_call(self, request)
        call.start(request, raw, payload, self._body is None)
        return remainder

    def _is_call_refused(self) -> bool:
        """Refuse a call that would take the proxy from the other clients."""
        try:
            self._state.connections.check_call(self)
        except TooManyCalls as exc:
            call, self._call = self._call, None
            if call is not None:
                call.on_client_disconnected(str(exc))
            self._refuse(exc.status, "too_many_calls" if exc.status == 429 else "too_busy", str(exc))
            return True
        return False

    def _open_body(self, length: int, data: bytes) -> tuple[bytes, list[bytes], bytes]:
        """The raw bytes of a body that came with its head, their payload, and the bytes after the request."""
        body = open_body(length)
        raw: bytes = b""
        payload: list[bytes] = []
        if data and not body.is_complete:
            data = body.feed(data)
            raw, payload = body.raw, body.payload
        self._body = None if body.is_complete else body
        if self._body is not None:
            self._set_deadline(self._limits.body_seconds)
        return raw, payload, data

    def _read_body(self, body: MessageBody, data: bytes) -> bytes:
        try:
            remainder = body.feed(data)
        except InvalidBody as exc:
            call, self._call = self._call, None
            if call is not None:
                call.on_client_disconnected(f"the client sent a malformed body: {exc}")
            self._refuse(400, "bad_request", str(exc))
            return b""
        if body.is_complete:
            self._body = None
            if self._call is not None and self._is_call_refused():  # Others may have come while the body was coming.
                return b""
        if self._call is not None:
            self._extend_body_deadline(len(body.raw))
            self._call.receive_body(body.raw, body.payload, body.is_complete)
        else:
            self._discard(len(body.raw))
        return remainder

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > DISCARDED_BYTES_MAX or (self._body is None and not self._keep_alive):
            self._close()
        elif self._body is None:
            self._read_next_request()

    # -- our own responses

    def _respond(self, response: PlainResponse, method: str) -> None:
        if response.status != 200:
            increment(self._state.metrics.refused, str(response.status))
        self._write_response(response, bodiless=method == "HEAD")
        if self._body is not None:
            self._discard_rest_of_body()
        elif not self._keep_alive:
            self._close()
        else:  # The caller reads on.
            self._set_deadline(self._limits.idle_seconds)

    def _write_response(self, response: PlainResponse, *, bodiless: bool = False) -> None:
        close = self.decide_close(until_close=False)
        self.transport.write(response.to_bytes(close=close, bodiless=bodiless))

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Respond and close, because the start of the next request is not known."""
        increment(self._state.metrics.refused, str(status))
        self._keep_alive = False
        self._write_response(error_response(status, code, message))
        self._close()

    # -- time limits

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = self._state.loop.time() + seconds

    @property
    def phase(self) -> RequestPhase:
        """How far the client has come."""
        if not self._has_sent_head:
            return RequestPhase.FIRST_HEAD
        is_idle = self._call is None and self._body is None and not self._is_client_full
        return RequestPhase.IDLE if is_idle else RequestPhase.IN_REQUEST

    def _extend_body_deadline(self, size: int) -> None:
        """Give a body more time for the bytes that arrived, so that a large one may take long and a slow one not."""
        limits = self._limits
        if self._body is None:
            self.deadline = 0.0
        else:
            latest = self._state.loop.time() + limits.body_seconds
            self.deadline = min(latest, self.deadline + size / limits.body_rate)

    def close_if_expired(self, now: float) -> None:
        """Close if the deadline has passed; a client that sent a part of a request gets a response."""
        if not self.deadline or now <= self.deadline:
            return
        if self._is_closing or self._is_client_full:
            self._abort("the client did not read its response")
        elif self._reader is not None:
            seconds = self._limits.head_seconds
            self._refuse(408, "too_slow", f"the request head did not arrive within {seconds:g} seconds")
        elif self._call is None:
            self._close()
        elif self._reading_paused:  # The upstream is slow, not the client.
            self._set_deadline(self._limits.body_seconds)
        else:
            self._refuse_slow_body(self._call)

    def _refuse_slow_body(self, call: RelayedCall | ReplayedCall) -> None:
        self._call = None
        has_response = call.has_response
        call.on_client_disconnected("the client sent its body too slowly")
        if has_response:
            self._close()
        else:
            seconds, rate = self._limits.body_seconds, self._limits.body_rate
            message = f"the request body took {seconds:g} seconds longer than {rate} bytes a second take"
            self._refuse(408, "too_slow", message)

    def make_room(self) -> None:
        """Close now, because all connections are taken and this one waits for its client."""
        self._abort("the proxy needed the connection for another client")

    def _abort(self, reason: str) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.on_client_disconnected(reason)
        self._is_closing = True
        self.transport.abort()

    # -- called by the call in flight

    def write(self, data: bytes) -> None:
        """Send bytes of the response at once."""
        write_directly(self.transport, self._descriptor, data)

    def decide_close(self, *, until_close: bool) -> bool:
        """Whether the connection closes after this response. Called once, when the head is written."""
        if until_close or self._state.draining:
            self._keep_alive = False
        return not self._keep_alive

    def set_upstream_full(self, is_full: bool) -> None:
        """Stop reading the request while the upstream cannot take more of it."""
        self._is_upstream_full = is_full
        self._update_reading()

    def replace_call(self, call: RelayedCall) -> None:
        """Continue with a relayed call, because no recording matches the request."""
        self._call = call

    def on_websocket_open(self, websocket: RelayedWebSocket) -> None:
        """The upstream has switched protocols: what the client sends from here on are frames."""
        self._websocket = websocket
        data, self._pipelined = self._pipelined, b""
        self._update_reading()
        if data:
            websocket.receive_frames(data)

    def on_call_finished(self) -> None:
        self._call = None
        self._is_upstream_full = False
        if self._body is not None:
            self._discard_rest_of_body()
        elif self._keep_alive and not self._state.draining:
            self._read_next_request()
        else:
            self._close()

    def on_call_failed(self, status: int, code: str, message: str) -> None:
        """Send the proxy's own error, because the upstream sent no response."""
        if self._body is not None:
            self._keep_alive = False
        self._write_response(error_response(status, code, message))
        self.on_call_finished()

    def break_off(self, data: bytes = b"", *, reset: bool) -> None:
        """Send `data`, then break the connection as the upstream did."""
        self._call = None
        if data:
            self.transport.write(data)
        if reset:
            sock = self.transport.get_extra_info("socket")
            with suppress(OSError, AttributeError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._close()

    # -- between calls

    def _read_next_request(self) -> None:
        if not self._pipelined:
            self.active_at = self._state.loop.time()
        self._set_deadline(self._limits.idle_seconds)
        self._discarded_bytes = 0
        data, self._pipelined = self._pipelined, b""
        if self._reading_paused:
            self._update_reading()
        if data:
            self._read_heads(data)

    def _discard_rest_of_body(self) -> None:
        """The response came before the end of the request; read the rest of the request, within limits."""
        self._discarded_bytes = 0
        self._set_deadline(self._limits.discard_seconds)
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause or resume reading, as the upstream and the limit for requests sent ahead demand."""
        pause = self._is_upstream_full or len(self._pipelined) > PIPELINED_BYTES_MAX
        if pause is not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _close(self) -> None:
        self._is_closing = True
        self._pipelined = b""
        self._set_deadline(self._limits.discard_seconds)  # For the client to read what was written.
        self.transport.close()

    def close_if_idle(self) -> None:
        """The proxy stops: close now, or after the call in flight."""
        if self._call is None:
            self._close()

    def abort(self) -> None:
        """The proxy stops now: cut the call in flight."""
        call, self._call = self._call, None
        if call is not None:
            call.abort()
        self.transport.abort()

    def pause_writing(self) -> None:
        """The client takes the response slowly."""
        self._is_client_full = True
        self._set_deadline(self._limits.write_seconds)
        if self._call is not None:
            self._call.on_client_full()

    def resume_writing(self) -> None:
        """The client can take more."""
        self._is_client_full = False
        self.active_at = self._state.loop.time()
        if self._call is not None:
            self.deadline = 0.0
            if self._body is not None:
                self._set_deadline(self._limits.body_seconds)
            self._call.on_client_ready()
        elif self._body is None and not self._is_blocked:
            self._read_next_request()
