"""A connection of a client, and the requests that come over it, one after the other.

In: bytes of the client. Out: one response to each request. Never: accepts a page of another origin, reads on where
the start of the next request is ambiguous, waits for ever for the rest of a request, or continues a turn whose
client has left: the model's answer is then dropped, and the session does not remember it.

It uses the `http` room: a web framework would be the only dependency of the base install that just serves pages.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import cast

from traceforge.chat.chat_errors import ChatError, ChatErrorCode
from traceforge.exchange import find_header
from traceforge.http.access import AccessDenied, AccessPolicy, is_json_content_type
from traceforge.http.body_framing import InvalidBody, MessageBody, open_body
from traceforge.http.message_head import HeadReader, InvalidHead, RequestHead, split_target
from traceforge.http.plain_response import CONTINUE, PlainResponse
from traceforge.http.server_limits import (
    CHAT_LIMITS,
    DISCARDED_BYTES_MAX,
    PIPELINED_BYTES_MAX,
    RETRY_SECONDS,
    ClientConnections,
    RequestPhase,
    ServerLimits,
    TooManyCalls,
    peer_address,
)

ROUTES = {"/": "GET", "/chat.css": "GET", "/chat.js": "GET", "/healthz": "GET", "/chat": "POST"}
_REFUSAL_HEADERS = {
    401: ("WWW-Authenticate: Bearer",),
    405: ("Allow: " + ", ".join(sorted({*ROUTES.values(), "HEAD"})),),
    429: (f"Retry-After: {RETRY_SECONDS}",),
    503: (f"Retry-After: {RETRY_SECONDS}",),
}

BODY_BYTES_MAX = cast("int", CHAT_LIMITS.body_bytes)

_HEAD_CODES = {431: ChatErrorCode.HEAD_TOO_LARGE, 505: ChatErrorCode.HTTP_VERSION}

Serve = Callable[[str, bytes], Awaitable[PlainResponse]]


class ChatConnection(asyncio.Protocol):
    """One connection; its requests are served in turn."""

    transport: asyncio.Transport

    def __init__(
        self,
        serve: Serve,
        access: AccessPolicy,
        connections: ClientConnections[ChatConnection],
        report_failure: Callable[[Exception], None],
        limits: ServerLimits,
        token: str = "",
    ) -> None:
        self._serve = serve
        self._access = access
        self._connections = connections
        self._report_failure = report_failure
        self._limits = limits
        self._token = token  # "": none is required.
        self.peer = ""
        self.active_at = 0.0
        self.is_authenticated = False
        self._has_sent_head = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._reader: HeadReader | None = None
        self._head: RequestHead | None = None
        self._path = ""
        self._is_head_request = False
        self._body: MessageBody | None = None
        self._payload = bytearray()
        self._task: asyncio.Task[None] | None = None  # The request that is being served.
        self._is_call = False  # It waits for the model.
        self._pipelined = b""
        self._reading_paused = False
        self._lingered_bytes = -1  # Of a refused request; -1: none was refused.
        self._closes_after_response = False
        self._is_client_full = False  # The client has not taken what was written.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.peer = peer_address(transport.get_extra_info("peername"))
        self.active_at = self._loop.time()
        self._set_timer(self._limits.head_seconds)
        if not self._connections.admit(self):
            self._refuse(ChatError(ChatErrorCode.TOO_BUSY, "there are too many connections", hint="Try again later."))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left; a turn in flight is cancelled."""
        self._connections.discard(self)
        self._set_timer(0)
        if self._task is not None:
            self._task.cancel()

    def close_when_idle(self) -> None:
        """The server stops: close now, or after the response in flight."""
        self._closes_after_response = True
        if self._task is None:
            self.transport.close()

    # -- reading requests

    def data_received(self, data: bytes) -> None:
        """Read a request, or keep bytes for later while one is served."""
        if self._reader is None:
            self.active_at = self._loop.time()
        if self._lingered_bytes >= 0:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > DISCARDED_BYTES_MAX:
                self.transport.abort()
        elif self._task is not None or self._is_client_full:
            self._pipelined += data
            self._update_reading()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        try:
            if self._head is None:
                data = self._read_head(data)
            if self._head is not None:
                self._read_body(data)
        except InvalidHead as exc:
            self._refuse(ChatError(_HEAD_CODES.get(exc.status, ChatErrorCode.MALFORMED_HTTP), str(exc)))
        except InvalidBody as exc:
            self._refuse(ChatError(ChatErrorCode.MALFORMED_HTTP, str(exc)))
        except ChatError as exc:
            self._refuse(exc)

    def _read_head(self, data: bytes) -> bytes:
        """Read a head, and admit its request; return the bytes after it."""
        if self._reader is None:
            data = data.lstrip(b"\r\n")  # HTTP allows empty lines before a request.
            if not data:
                return b""
            self._reader = HeadReader.for_request()
            self._is_head_request = False
            self._set_timer(self._limits.head_seconds)
        head_bytes = self._reader.feed(data)
        if head_bytes is None:
            return b""
        remainder, self._reader = self._reader.remainder, None
        head = RequestHead(head_bytes)
        self._closes_after_response = self._closes_after_response or not head.keep_alive
        self._is_head_request = head.method == "HEAD"
        self._path = admit(self._access, head)
        if self._token and self._path == "/chat":
            self._check_token(head)
        self._has_sent_head = True
        self._head, self._body, self._payload = head, open_body(head.length), bytearray()
        self._set_timer(self._limits.body_seconds)
        wants_continue = head.inspected.get("expect", "").lower() == "100-continue"
        if wants_continue and not remainder and head.length and head.http_minor:
            self.transport.write(CONTINUE)
        return remainder

    def _check_token(self, head: RequestHead) -> None:
        authorization = find_header(tuple(head.headers), "authorization")
        self.is_authenticated = hmac.compare_digest(
            authorization.encode("latin-1", "replace"), f"Bearer {self._token}".encode()
        )
        if not self.is_authenticated:
            hint = "Open the URL that the server has printed, or send the token as Authorization: Bearer."
            raise ChatError(ChatErrorCode.WRONG_TOKEN, "the token is missing or wrong", hint=hint)

    def _read_body(self, data: bytes) -> None:
        body = self._body
        assert body is not None
        if data and not body.is_complete:
            data = body.feed(data)
            self._payload += b"".join(body.payload)
            if len(self._payload) > BODY_BYTES_MAX:
                raise _body_too_large()
        if body.is_complete:
            self._is_call = self._path == "/chat"
            if self._is_call:
                self._check_call()
                self._set_timer(0)  # Other requests take no time: who sends many of them ahead can make room.
            self._pipelined, self._head, self._body = data, None, None
            self._task = self._loop.create_task(self._respond(self._path, bytes(self._payload)))

    def _check_call(self) -> None:
        try:
            self._connections.check_call(self)
        except TooManyCalls as exc:
            code = ChatErrorCode.TOO_MANY_CALLS if exc.status == 429 else ChatErrorCode.TOO_BUSY
            raise ChatError(code, str(exc), hint=f"Try again in {RETRY_SECONDS} seconds.") from None

    # -- responses

    async def _respond(self, path: str, body: bytes) -> None:
        try:
            response = await self._serve(path, body)
        except ChatError as exc:
            response = exc.to_response()
        except Exception as exc:  # noqa: BLE001 (a bug of the chat fails one request; its message may quote the request)
            self._report_failure(exc)
            message = f"internal error: {type(exc).__name__}"
            response = ChatError(ChatErrorCode.INTERNAL_ERROR, message).to_response()
        self._task = None
        if not self._pipelined:
            self.active_at = self._loop.time()
        self._set_timer(self._limits.idle_seconds)
        self._write(response)
        if self._closes_after_response:
            self.transport.close()
        elif not self._is_client_full:
            self._read_next_request()

    def _read_next_request(self) -> None:
        data, self._pipelined = self._pipelined, b""
        if data:
            self._read(data)
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause reading while too much was sent ahead."""
        pause = len(self._pipelined) > PIPELINED_BYTES_MAX
        if pause is not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _refuse(self, error: ChatError) -> None:
        """Respond and close: the start of the next request is unknown, or far away."""
        self._closes_after_response = True
        self._write(error.to_response(*_REFUSAL_HEADERS.get(error.status, ())))
        self._lingered_bytes = len(self._pipelined)
        self._pipelined = b""
        self._set_timer(self._limits.discard_seconds)
        if not self.transport.is_closing():
            self.transport.write_eof()

    def _write(self, response: PlainResponse) -> None:
        if not self.transport.is_closing():
            self.transport.write(response.to_bytes(close=self._closes_after_response, bodiless=self._is_head_request))

    def pause_writing(self) -> None:
        """The client takes its responses slowly: read no further request."""
        self._is_client_full = True
        self._set_timer(self._limits.write_seconds)

    def resume_writing(self) -> None:
        """The client has taken its responses."""
        self._is_client_full = False
        self.active_at = self._loop.time()
        if self._task is not None and self._is_call:
            self._set_timer(0)
        elif self._lingered_bytes < 0:
            self._set_timer(self._limits.idle_seconds)
        if self._task is None and self._lingered_bytes < 0 and not self.transport.is_closing():
            self._read_next_request()

    # -- time limits

    @property
    def deadline(self) -> float:
        """When the client's time is over; 0 while it waits for the model."""
        return self._timer.when() if self._timer is not None else 0.0

    @property
    def phase(self) -> RequestPhase:
        """How far the client has come."""
        if not self._has_sent_head:
            return RequestPhase.FIRST_HEAD
        is_served = self._task is not None and not self._pipelined
        is_idle = self._head is None and not is_served and not self._is_client_full
        return RequestPhase.IDLE if is_idle else RequestPhase.IN_REQUEST

    def make_room(self) -> None:
        """Close now, because all connections are taken and this one waits for its client."""
        self.transport.abort()

    def _set_timer(self, seconds: float) -> None:
        """Expire in so many seconds; 0: never."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._expire) if seconds else None

    def _expire(self) -> None:
        if self._lingered_bytes >= 0 or self._is_client_full or self.transport.is_closing():
            self.transport.abort()  # The client does not read its response.
        elif self._head is not None:
            message = f"the request body did not arrive within {self._limits.body_seconds:g} seconds"
            self._refuse(ChatError(ChatErrorCode.TOO_SLOW, message))
        elif self._reader is not None:
            message = f"the request head did not arrive within {self._limits.head_seconds:g} seconds"
            self._refuse(ChatError(ChatErrorCode.TOO_SLOW, message))
        else:
            self.transport.close()


def admit(access: AccessPolicy, head: RequestHead) -> str:
    """Check a request before its body is read; return its path, one of ROUTES.

    Raises:
        ChatError: the request is not allowed, or its path or method is wrong.
        InvalidHead: its target is not a URL.
    """
    authority, target = split_target(head.target)
    try:
        access.check(head.inspected, authority)
    except AccessDenied as exc:
        code = ChatErrorCode.OTHER_HOST if exc.status == 421 else ChatErrorCode.OTHER_ORIGIN
        raise ChatError(code, str(exc)) from None
    path, query_mark, _ = target.partition("?")
    method = ROUTES.get(path)
    if method is None:
        hint = "POST /chat, or open / in a browser."
        raise ChatError(ChatErrorCode.NO_SUCH_PATH, "there is nothing at this path", hint=hint)
    if head.method != method and (head.method, method) != ("HEAD", "GET"):
        raise ChatError(ChatErrorCode.WRONG_METHOD, f"{path} takes {method} only")
    if path == "/chat":
        if query_mark:
            message = "/chat takes no query: send the fields in the body"
            raise ChatError(ChatErrorCode.UNKNOWN_FIELD, message, field="?")
        _check_body_headers(head)
    if head.length > BODY_BYTES_MAX:
        raise _body_too_large()
    return path


def _check_body_headers(head: RequestHead) -> None:
    headers = tuple(head.headers)
    if not is_json_content_type(find_header(headers, "content-type")):
        hint = "Send it with Content-Type: application/json."
        message = "the body must be application/json in UTF-8"
        raise ChatError(ChatErrorCode.WRONG_CONTENT_TYPE, message, hint=hint)
    if find_header(headers, "content-encoding").lower() not in ("", "identity"):
        message = "the body must not be compressed"
        raise ChatError(ChatErrorCode.WRONG_CONTENT_TYPE, message, hint="Send it without Content-Encoding.")
    if not head.length:
        raise ChatError(ChatErrorCode.NOT_JSON, "the body is not JSON: it is empty")


def _body_too_large() -> ChatError:
    message = f"the body is larger than {BODY_BYTES_MAX} bytes"
    return ChatError(ChatErrorCode.BODY_TOO_LARGE, message, hint="Send a shorter message.")
