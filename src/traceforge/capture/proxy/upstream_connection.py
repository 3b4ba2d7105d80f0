"""A connection to an upstream, and the answers that come over it.

In: bytes of the upstream. Out: events for the relay of the call in flight: the head, pieces, the end, or how it
broke. Never: holds a piece back, or ends an answer that the upstream did not end. What is malformed is passed on, for
the client to judge as it would have.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from httptools import HttpResponseParser

from traceforge.capture.proxy.direct_write import descriptor_of, write_now
from traceforge.http.body_framing import UNTIL_CLOSE, BadBody, Body, Unread, UntilClose, open_body
from traceforge.http.message_head import RESPONSE_BYTES_MAX, BadHead, HeadReader, ResponseHead, find_head

if TYPE_CHECKING:
    from traceforge.capture.proxy.relayed_call import Relay
    from traceforge.capture.proxy.upstream_pool import Key, Pool

AGAIN_BYTES_MAX = 4096  # A longer head is not remembered until the next.
_NOTHING = object()  # llhttp calls nobody back: it only judges.


class UpstreamConnection(asyncio.Protocol):
    """One connection; at most one call at a time."""

    __slots__ = ("_again", "_body", "_descriptor", "_keep", "_method", "_pool", "_reader", "_reading", "_relay",
                 "_silent", "idle_since", "key", "reused", "transport")  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, pool: Pool, key: Key) -> None:
        self._pool = pool
        self.key = key
        self._relay: Relay | None = None
        self._reader: HeadReader | None = None
        self._again: tuple[bytes, str, ResponseHead] | None = (
            None  # The last head: for a second, a server repeats it.
        )
        self._body: Body | None = None
        self._method = ""
        self._keep = False
        self._reading = True
        self._silent = True  # Has no byte of the answer come?
        self.reused = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self.transport = cast("asyncio.Transport", transport)
        self._descriptor = descriptor_of(self.transport)

    def write(self, data: bytes) -> None:
        """A piece of the request, at once."""
        write_now(self.transport, self._descriptor, data)

    def begin(self, relay: Relay, method: str) -> None:
        """The next answer belongs to this relay."""
        self._relay = relay
        self._method = method
        self._reader = None
        self._body = None
        self._silent = True

    def read(self, wanted: bool) -> None:
        """Read the answer, or let it wait at the upstream."""
        if wanted is not self._reading and not self.transport.is_closing():
            self._reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def drop(self) -> None:
        """Nobody wants the answer any more: let the upstream know at once."""
        self._relay = None
        transport = getattr(self, "transport", None)
        if transport is not None:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        relay = self._relay
        if relay is None:
            self.transport.abort()  # Nobody asked.
            return
        self._silent = False
        if self._body is not None:
            self._read_body(relay, self._body, data)
        elif (
            (again := self._again) and self._reader is None and again[1] == self._method and data.startswith(again[0])
        ):
            self._answer(relay, again[2], data[len(again[0]) :])
        else:
            self._read_head(relay, data)

    def _read_head(self, relay: Relay, data: bytes) -> None:
        while data:
            found, came = None, data
            try:
                found, data = self._take_head(data)
                if found is None:
                    return
                head = ResponseHead(found, self._method)
                if head.status == 101:
                    raise BadHead(502, "it switched protocols, and was not asked to")
            except BadHead as exc:
                if found is not None:
                    came = found + data
                elif self._reader is not None:
                    came = self._reader.gathered
                self._stop_reading(relay, exc, came, [])
                return
            if head.status >= 200:
                self._again = (found, self._method, head) if len(found) <= AGAIN_BYTES_MAX else None
                self._answer(relay, head, data)
                return
            relay.interim(found)

    def _stop_reading(self, relay: Relay, exc: BadHead | BadBody, data: bytes, payload: list[bytes]) -> None:
        """It speaks malformed HTTP: all that comes is passed on, and nobody here tries to understand it."""
        self._body = Unread()
        relay.malformed(f"malformed: {exc}", data, payload)

    def _take_head(self, data: bytes) -> tuple[bytes | None, bytes]:
        """A whole head and what is behind it, or None while more must come."""
        if self._reader is None:
            found = find_head(data, HttpResponseParser(_NOTHING), RESPONSE_BYTES_MAX)
            if found is not None:
                return found, data[len(found) :]
            self._reader = HeadReader(HttpResponseParser(_NOTHING), RESPONSE_BYTES_MAX)
        reader = self._reader
        found = reader.feed(data)
        if found is not None:
            self._reader = None
        return found, reader.rest

    def _answer(self, relay: Relay, head: ResponseHead, rest: bytes) -> None:
        self._keep = head.keep_alive and head.length != UNTIL_CLOSE
        if head.length == len(rest):  # All of the body came with the head, as most do.
            relay.answer(head, rest, [rest] if rest else [])
            self._finish(relay, b"")
            return
        body = self._body = open_body(head.length, padded=True)
        if rest and not body.done:
            try:
                beyond = body.feed(rest)
            except BadBody as exc:
                relay.answer(head, b"", [])
                self._stop_reading(relay, exc, rest, body.payload)
                return
            rest = beyond
            relay.answer(head, body.raw, body.payload)
        else:
            relay.answer(head, b"", [])
        if body.done:
            self._finish(relay, rest)

    def _read_body(self, relay: Relay, body: Body, data: bytes) -> None:
        try:
            rest = body.feed(data)
        except BadBody as exc:
            self._stop_reading(relay, exc, data, body.payload)
            return
        relay.piece(body.raw, body.payload)
        if body.done:
            self._finish(relay, rest)

    def _finish(self, relay: Relay, rest: bytes) -> None:
        self._relay = None
        if self._keep and not rest and relay.request_done:
            if not self._reading:
                self.read(True)
            self._pool.release(self)
        else:
            self.transport.abort()
        relay.complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone: an end, a break, or nobody's business."""
        relay, self._relay = self._relay, None
        if relay is None:
            self._pool.forget(self)
        elif self._body is None:
            told = "the connection was reset" if exc else "it closed the connection"
            begun = self._reader.gathered if self._reader is not None else b""
            relay.unanswered(
                f"{told} before it answered", begun, stale=self.reused and self._silent, reset=exc is not None
            )
        elif exc is None and isinstance(self._body, UntilClose):
            relay.complete()
        else:
            told = "reset" if exc else "closed"
            relay.cut(f"the upstream {told} the connection within its answer", reset=exc is not None)

    def pause_writing(self) -> None:
        """The upstream takes the request slowly."""
        if self._relay is not None:
            self._relay.upstream_full()

    def resume_writing(self) -> None:
        """It can take more."""
        if self._relay is not None:
            self._relay.upstream_ready()
