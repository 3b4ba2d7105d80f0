"""A connection to an upstream, and the responses that come over it.

In: bytes of the upstream. Out: events for the call in flight: the head, body chunks, the end, or how it broke.
Never: holds a chunk back, or ends a response that the upstream did not end. Malformed bytes are forwarded, so that
the client can judge them as it would have without us.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from traceforge.capture.hook.websocket_frames import SWITCHING
from traceforge.capture.proxy.direct_write import find_descriptor, write_directly
from traceforge.http.body_framing import (
    UNTIL_CLOSE,
    InvalidBody,
    MessageBody,
    UnparsedBody,
    UntilCloseBody,
    open_body,
)
from traceforge.http.message_head import HeadReader, InvalidHead, ResponseHead, split_list

if TYPE_CHECKING:
    from traceforge.capture.proxy.relayed_call import RelayedCall
    from traceforge.capture.proxy.upstream_pool import PoolKey, UpstreamPool

REPEATED_HEAD_BYTES_MAX = 4096  # A longer head is not remembered for the next response.


CLOSE_SECONDS_MAX = 5.0  # For an upstream to take the end of a WebSocket.


def _is_wanted(call: RelayedCall, head: ResponseHead) -> bool:
    """Whether the call asked for the protocol that the upstream switches to."""
    return call.opens_websocket and split_list(head.inspected.get("upgrade")) == ["websocket"]


class UpstreamConnection(asyncio.Protocol):
    """One connection; at most one call at a time."""

    __slots__ = (
        "_body",
        "_call",
        "_descriptor",
        "_has_received",
        "_is_reading",
        "_keep_alive",
        "_last_head",
        "_method",
        "_pool",
        "_reader",
        "idle_since",
        "key",
        "transport",
        "was_used",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, pool: UpstreamPool, key: PoolKey) -> None:
        self._pool = pool
        self.key = key
        self._call: RelayedCall | None = None
        self._reader: HeadReader | None = None
        # A server repeats its head for a second, until `Date` changes. Comparing its bytes saves parsing them.
        self._last_head: tuple[bytes, str, ResponseHead] | None = None
        self._body: MessageBody | None = None
        self._method = ""
        self._keep_alive = False
        self._is_reading = True
        self._has_received = False  # Any byte of this response.
        self.was_used = False  # For an earlier call: the upstream may have closed it since.
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._descriptor = find_descriptor(self.transport)

    def write(self, data: bytes) -> None:
        """Send bytes of the request at once."""
        write_directly(self.transport, self._descriptor, data)

    def start_call(self, call: RelayedCall, method: str) -> None:
        """Give the next response to this call."""
        self._call = call
        self._method = method
        self._reader = None
        self._body = None
        self._has_received = False

    def set_reading(self, wanted: bool) -> None:
        """Read the response, or let it wait at the upstream."""
        if wanted is not self._is_reading and not self.transport.is_closing():
            self._is_reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def drop_call(self) -> None:
        """Abort the connection: no client waits for the response."""
        self._call = None
        transport = getattr(self, "transport", None)
        if transport is not None:
            transport.abort()

    def close_call(self) -> None:
        """Close the connection once the upstream has what was sent to it."""
        self._call = None
        self.transport.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS_MAX, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Read bytes of a head or a body."""
        call, last = self._call, self._last_head
        if call is None:
            self.transport.abort()  # The upstream sent bytes without a request.
            return
        self._has_received = True
        if self._body is not None:
            self._read_body(call, self._body, data)
        elif last and self._reader is None and last[1] == self._method and data.startswith(last[0]):
            self._start_response(call, last[2], data[len(last[0]) :])
        else:
            self._read_head(call, data)

    def _read_head(self, call: RelayedCall, data: bytes) -> None:
        while data:
            if self._reader is None:
                self._reader = HeadReader.for_response()
            try:
                head_bytes = self._reader.feed(data)
                if head_bytes is None:
                    return
                head = ResponseHead(head_bytes, self._method)
                if head.status == SWITCHING and not _is_wanted(call, head):
                    raise InvalidHead(502, "the upstream switched protocols without being asked to")
            except InvalidHead as exc:
                self._stop_parsing(call, exc, self._reader.received, [])
                return
            data, self._reader = self._reader.remainder, None
            if head.status == SWITCHING:
                self._keep_alive = False
                self._body = UntilCloseBody()
                call.forward_upgrade(head)
                if data:
                    self._read_body(call, self._body, data)
                return
            if head.status >= 200:
                is_short = len(head_bytes) <= REPEATED_HEAD_BYTES_MAX
                self._last_head = (head_bytes, self._method, head) if is_short else None
                self._start_response(call, head, data)
                return
            call.forward_interim_head(head_bytes)

    def _stop_parsing(
        self, call: RelayedCall, exc: InvalidHead | InvalidBody, data: bytes, payload: list[bytes]
    ) -> None:
        """Forward everything from here on unparsed, because the response is malformed."""
        self._body = UnparsedBody()
        call.on_response_malformed(f"malformed: {exc}", data, payload)

    def _start_response(self, call: RelayedCall, head: ResponseHead, remainder: bytes) -> None:
        self._keep_alive = head.keep_alive and head.length != UNTIL_CLOSE
        if head.length == len(remainder):  # The body came with the head, as most do.
            call.forward_head(head, remainder, [remainder] if remainder else [])
            self._finish(call, b"")
            return
        body = self._body = open_body(head.length, allow_padding=True)
        if remainder and not body.is_complete:
            try:
                beyond = body.feed(remainder)
            except InvalidBody as exc:
                call.forward_head(head, b"", [])
                self._stop_parsing(call, exc, remainder, body.payload)
                return
            remainder = beyond
            call.forward_head(head, body.raw, body.payload)
        else:
            call.forward_head(head, b"", [])
        if body.is_complete:
            self._finish(call, remainder)

    def _read_body(self, call: RelayedCall, body: MessageBody, data: bytes) -> None:
        try:
            remainder = body.feed(data)
        except InvalidBody as exc:
            self._stop_parsing(call, exc, data, body.payload)
            return
        call.forward_body(body.raw, body.payload)
        if body.is_complete:
            self._finish(call, remainder)

    def _finish(self, call: RelayedCall, remainder: bytes) -> None:
        self._call = None
        if self._keep_alive and not remainder and call.is_request_complete:
            self.set_reading(True)
            self._pool.release(self)
        else:
            self.transport.abort()
        call.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed: the end of a response, a break, or the end of an idle connection."""
        call, self._call = self._call, None
        event = "closed" if exc is None else "reset"
        if call is None:
            self._pool.remove(self)
        elif self._body is None:
            received = self._reader.received if self._reader is not None else b""
            call.on_lost_before_head(
                f"the upstream {event} the connection before it responded",
                received,
                was_idle=self.was_used and not self._has_received,
                reset=exc is not None,
            )
        elif exc is None and isinstance(self._body, UntilCloseBody):
            call.on_response_complete()
        else:
            call.on_response_cut(f"the upstream {event} the connection within its response", reset=exc is not None)

    def pause_writing(self) -> None:
        """The upstream takes the request slowly."""
        if self._call is not None:
            self._call.on_upstream_full()

    def resume_writing(self) -> None:
        """The upstream can take more."""
        if self._call is not None:
            self._call.on_upstream_ready()
