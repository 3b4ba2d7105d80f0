"""A connection of a client of the context server or of the web view: uvicorn's HTTP protocol behind our limits.

In: bytes of the client. Out: to uvicorn, one request at a time, each with a head that was validated and has no
hop-by-hop headers. Never: gives uvicorn a request before the response to the one before is written, reads on where
the start of the next request is ambiguous, or waits for ever for a client.

Uvicorn has no limit on heads, on the time a head or a client may take, or on the requests that are sent ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, cast

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.http.access import AccessDenied
from traceforge.http.body_framing import InvalidBody, MessageBody, open_body
from traceforge.http.message_head import HeadReader, InvalidHead, RequestHead, split_target
from traceforge.http.plain_response import reason_phrase
from traceforge.http.server_limits import (
    DISCARDED_BYTES_MAX,
    PIPELINED_BYTES_MAX,
    RETRY_SECONDS,
    ClientConnections,
    RequestPhase,
    ServerLimits,
    TooManyCalls,
    peer_address,
)

SET_AUTHENTICATED = "traceforge.set_authenticated"  # In the scope of a request: a function of a bool.


class HostCheck(Protocol):
    """The access rules of an application, as far as they concern the head of a request."""

    def check(self, headers: Mapping[str, str], authority: str = "") -> None:
        """Check the headers, by lower-case name, and the authority of the target.

        Raises:
            AccessDenied: this request is not accepted.
        """


class LimitedApplication(Protocol):
    """An ASGI application, with what its connections have to know of it."""

    @property
    def access(self) -> HostCheck:
        """Checks the authority of a target, which uvicorn drops."""

    @property
    def connections(self) -> ClientConnections[UvicornConnection]:
        """The connections that are open to it."""

    @property
    def limits(self) -> ServerLimits:
        """What one client may take of it."""

    def refuse_connection(self, error: ErrorResponse) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The headers and the body of the response to a request that the application never sees."""

    def end_streams(self) -> None:
        """The server stops: end the responses that go on for as long as it runs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a connection."""


class UvicornConnection(HttpToolsProtocol):
    """One connection; its requests are served in turn."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._application = cast("LimitedApplication", config.app)
        self._limits = self._application.limits
        self._reader: HeadReader | None = None  # Of a head that has not arrived completely.
        self._request_body: MessageBody | None = None  # Until all of it has arrived.
        self._pipelined = b""
        self._discarded_bytes = 0
        self._is_refused = False
        self.peer = ""
        self.deadline = 0.0  # 0: none.
        self.active_at = 0.0
        self.is_authenticated = False
        self._has_sent_head = False
        self._is_call = True  # The request waits for more than us.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = peer_address(transport.get_extra_info("peername"))
        self.active_at = self.loop.time()
        self._set_deadline(self._limits.head_seconds)
        if not self._application.connections.admit(self):
            self._refuse(_busy_error(503, "there are too many connections; try again later"))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._application.connections.discard(self)
        self.deadline = 0.0
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Let the application say whether the key of the request is valid."""
        super().on_message_begin()
        self.scope[SET_AUTHENTICATED] = self._set_authenticated  # type: ignore[literal-required]

    def _set_authenticated(self, is_authenticated: bool) -> None:
        self.is_authenticated = is_authenticated

    # -- reading requests

    def data_received(self, data: bytes) -> None:
        """Read bytes of a body, of the next head, or of a request that was sent ahead."""
        if self._is_refused:
            self._discard(len(data))
            return
        if self._reader is None:
            self.active_at = self.loop.time()
        if self._request_body is not None:
            data = self._read_body(self._request_body, data)
        if data:
            self._read_heads(data)

    def _read_heads(self, data: bytes) -> None:
        while data and not self._is_answering and not self.flow.write_paused and not self._is_refused:
            data = self._read_head(data)
        if data and not self._is_refused:
            self._pipelined += data
            if len(self._pipelined) > PIPELINED_BYTES_MAX:
                self.flow.pause_reading()

    def _read_head(self, data: bytes) -> bytes:
        """Read one head and give its request to uvicorn; return the bytes after the request."""
        if self._reader is None:
            data = data.lstrip(b"\r\n")  # HTTP allows empty lines before a request.
            if not data:
                return b""
            self._reader = HeadReader.for_request()
            self._set_deadline(self._limits.head_seconds)
        try:
            head_bytes = self._reader.feed(data)
            if head_bytes is None:
                return b""
            remainder, self._reader = self._reader.remainder, None
            head = RequestHead(head_bytes)
            authority, target = split_target(head.target)
            if authority:  # Uvicorn drops it.
                self._application.access.check(head.inspected, authority)
            self._is_call = target.partition("?")[0] != "/healthz"
            self._check_call()
        except (InvalidHead, AccessDenied, TooManyCalls) as exc:
            self._refuse(_head_error(exc))
            return b""
        self._has_sent_head = True
        closing = () if head.keep_alive else (b"Connection: close",)
        super().data_received(b"\r\n".join((head.first_line, *head.lines, *closing, b"", b"")))
        if self._is_refused:  # By uvicorn.
            return b""
        self._set_deadline(self._limits.body_seconds)
        body = self._request_body = open_body(head.length)
        return self._read_body(body, remainder)

    def _read_body(self, body: MessageBody, data: bytes) -> bytes:
        """Give uvicorn the bytes of the body; return those after it."""
        if not body.is_complete:
            try:
                data = body.feed(data)
            except InvalidBody as exc:
                self._refuse(ErrorResponse(400, "not_http", str(exc)))
                return b""
            if not self._is_answering:
                self._discard(len(body.raw))
            elif body.is_complete:
                try:
                    self._check_call()  # Others may have come while the body was on its way.
                except TooManyCalls as exc:
                    self._refuse(_head_error(exc))
                    return b""
            super().data_received(body.raw)  # After the response, uvicorn only looks for the end of the body.
        if body.is_complete:
            self._request_body = None
            if self._is_answering and self._is_call:
                self.deadline = 0.0
            else:
                self._set_deadline(self._limits.idle_seconds)
        return data

    def _check_call(self) -> None:
        if self._is_call:
            self._application.connections.check_call(self)

    @property
    def _is_answering(self) -> bool:
        """Whether uvicorn has a request whose response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Discard the rest of the request, or read the next one."""
        super().on_response_complete()
        self._unset_keepalive_if_required()  # `deadline` covers it.
        if self.transport.is_closing() or self._request_body is not None:
            self._discarded_bytes = 0
            self._set_deadline(self._limits.discard_seconds)
        else:
            if not self._pipelined:
                self.active_at = self.loop.time()
            self._set_deadline(self._limits.idle_seconds)
            self._read_pipelined()

    def _read_pipelined(self) -> None:
        data, self._pipelined = self._pipelined, b""
        if data:
            self._read_heads(data)

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > DISCARDED_BYTES_MAX:
            self.transport.abort()

    # -- our own responses

    def send_400_response(self, msg: str) -> None:
        """Respond to a head that only uvicorn refuses, such as one with a malformed target."""
        self._refuse(ErrorResponse(400, "not_http", "this is not an HTTP request"))

    def _refuse(self, error: ErrorResponse) -> None:
        """Respond, if no response has begun, and close: the start of the next request is unknown."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._pipelined = b""
        self._set_deadline(self._limits.discard_seconds)
        headers, body = self._application.refuse_connection(error)
        cycle = self.cycle if self._is_answering else None
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        if cycle is None or not cycle.response_started:
            lines = [f"HTTP/1.1 {error.status} {reason_phrase(error.status)}".encode()]
            lines += [b"%b: %b" % header for header in (*self.server_state.default_headers, *headers)]
            self.transport.write(b"\r\n".join([*lines, b"", body]))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # -- time limits

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds

    @property
    def phase(self) -> RequestPhase:
        """How far the client has come."""
        if not self._has_sent_head:
            return RequestPhase.FIRST_HEAD
        is_served = self._is_answering and not self._pipelined
        is_idle = self._request_body is None and not is_served and not self.flow.write_paused
        return RequestPhase.IDLE if is_idle else RequestPhase.IN_REQUEST

    def close_if_expired(self, now: float) -> None:
        """Close if the deadline has passed; a client that sent a part of a request gets a response."""
        if not self.deadline or now <= self.deadline:
            return
        if self._is_refused or self.flow.write_paused or self.transport.is_closing():
            self.transport.abort()
        elif self._reader is not None:
            seconds = self._limits.head_seconds
            message = f"the request head did not arrive within {seconds:g} seconds"
            self._refuse(ErrorResponse(408, "head_timeout", message))
        elif self._request_body is not None and self._is_answering:
            if self.flow.read_paused:  # We are slow, not the client.
                self._set_deadline(self._limits.body_seconds)
                return
            message = f"the body did not arrive within {self._limits.body_seconds:g} seconds"
            self._refuse(ErrorResponse(408, "body_timeout", message))
        else:
            self.transport.close()
            self._set_deadline(self._limits.discard_seconds)

    def make_room(self) -> None:
        """Close now, because all connections are taken and this one waits for its client."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """The client takes the response slowly."""
        super().pause_writing()
        self._set_deadline(self._limits.write_seconds)

    def resume_writing(self) -> None:
        """The client can take more."""
        super().resume_writing()
        self.active_at = self.loop.time()
        if self._is_answering and self._is_call:
            self.deadline = 0.0
        else:
            self._set_deadline(self._limits.idle_seconds)
        if not self._is_answering:
            self._read_pipelined()


def _busy_error(status: int, message: str) -> ErrorResponse:
    error = ErrorResponse(503, "too_busy", message)
    if status == 429:
        error = ErrorResponse(429, "too_many_calls", message)
    error.headers = {"Retry-After": str(RETRY_SECONDS)}
    return error


def _head_error(exc: InvalidHead | AccessDenied | TooManyCalls) -> ErrorResponse:
    match exc.status:
        case 429 | 503:
            return _busy_error(exc.status, str(exc))
        case 403:
            return ErrorResponse(403, "other_origin", str(exc))
        case 421:
            return ErrorResponse(421, "other_host", str(exc))
        case 431:
            return ErrorResponse(431, "head_too_large", str(exc))
        case 505:
            return ErrorResponse(505, "http_version", str(exc))
    return ErrorResponse(400, "not_http", str(exc))
