"""A connection of a client, and the requests that come over it, one after the other.

In: bytes of the client. Out: a relay for each request that is let in and has a way, else our own answer. Never: reads
on where the next request could begin in two places, or lets an unfinished head wait for ever.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from httptools import HttpRequestParser

from traceforge.capture.proxy.admission import Own, admit, refusal
from traceforge.capture.proxy.direct_write import descriptor_of, write_now
from traceforge.capture.proxy.prepared_request import Again, Ask, ask_of, find_again
from traceforge.capture.proxy.proxy_metrics import add
from traceforge.http.body_framing import BadBody, Body, open_body
from traceforge.http.message_head import REQUEST_BYTES_MAX, BadHead, HeadReader, RequestHead, find_head
from traceforge.http.plain_response import reply

if TYPE_CHECKING:
    from traceforge.capture.proxy.relayed_call import Relay
    from traceforge.capture.proxy.replayed_call import Playback
    from traceforge.capture.proxy.worker_state import Site

HEAD_SECONDS_MAX = 30.0
IDLE_SECONDS_MAX = 75.0
WAITING_BYTES_MAX = 64 << 10  # Of requests sent ahead; beyond it the client is read no further.
DISCARDED_BYTES_MAX = 1 << 20  # Of a body that nobody wants any more; beyond it the connection is closed.
DISCARD_SECONDS_MAX = 5.0
AGAIN_TRIES_MAX = 3  # A client whose head is never the same again is not asked further.

_NOTHING = object()
_LINGER_NOT = struct.pack("ii", 1, 0)  # Close with a reset.


class ClientConnection(asyncio.Protocol):
    """One connection; requests are served in turn."""

    __slots__ = (
        "_again", "_again_tries", "_body", "_closing", "_descriptor", "_discarded", "_full", "_held", "_keep_alive",
        "_paused", "_reader", "_relay", "_site", "_waiting", "deadline", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, site: Site) -> None:
        self._site = site
        self._reader: HeadReader | None = None
        self._again: Again | None = None  # The last head, which may come again.
        self._again_tries = 0
        self._relay: Relay | Playback | None = None
        self._body: Body | None = None  # Of the request, until all of it has come.
        self._waiting = b""
        self._keep_alive = True
        self._closing = False
        self._discarded = 0
        self._held = False  # The upstream cannot take more of the request.
        self._paused = False
        self._full = False  # The client has not taken what was written.
        self.deadline = 0.0  # 0: nothing is due

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self.transport = cast("asyncio.Transport", transport)
        self._descriptor = descriptor_of(self.transport)
        self._site.connections.add(self)
        self._site.metrics.connections += 1
        self.deadline = self._site.loop.time() + HEAD_SECONDS_MAX

    def connection_lost(self, exc: Exception | None) -> None:
        """It went; a call in flight has nobody left to answer."""
        self._site.connections.discard(self)
        self._site.metrics.connections -= 1
        self._closing = True
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.client_left()

    # -- what comes in

    def data_received(self, data: bytes) -> None:
        """Bytes came: of a body, of the next head, or of a request sent ahead."""
        if self._body is not None:
            data = self._read_body(self._body, data)
        if data:
            self._read_heads(data)

    def _read_heads(self, data: bytes) -> None:
        if self._relay is not None and self._relay.over:  # Who asks again has taken what we could not read for whole.
            self._relay.client_left()
            self._relay = None
        while data and self._relay is None and self._body is None and not (self._closing or self._full):
            data = self._read_head(data)
        if data and not self._closing:
            self._waiting += data
            self._steer()

    def _read_head(self, data: bytes) -> bytes:
        reader = self._reader
        if reader is None:
            if self._again is not None and (again := self._again.match(data)) is not None:
                self._again_tries = 0
                return self._forward(again[0], data[again[1] :])
            data = data.lstrip(b"\r\n")  # Empty lines in front of a request are allowed, and mean nothing.
            if not data:
                return b""
        try:
            if reader is None:
                found = find_head(data, HttpRequestParser(_NOTHING), REQUEST_BYTES_MAX)
                if found is not None:
                    return self._serve(found, data[len(found) :])
                reader = self._reader = HeadReader(HttpRequestParser(_NOTHING), REQUEST_BYTES_MAX)
                self.deadline = self._site.loop.time() + HEAD_SECONDS_MAX
            found = reader.feed(data)
            if found is None:
                return b""
            self._reader = None
            return self._serve(found, reader.rest)
        except BadHead as exc:
            self._refuse(exc.status, "bad_request", str(exc))
        except BadBody as exc:
            self._refuse(400, "bad_request", str(exc))
        return b""

    def _serve(self, data: bytes, rest: bytes) -> bytes:
        """Serve a request whose head is whole; what follows the request is returned."""
        head = RequestHead(data)
        found = admit(self._site, head)
        if not isinstance(found, Own):
            ask = ask_of(head, found)
            if self._again_tries < AGAIN_TRIES_MAX:
                self._again_tries += 1
                self._again = find_again(data, ask)
            return self._forward(ask, rest)
        self.deadline = 0.0
        self._keep_alive = head.keep_alive
        _, _, rest = self._open_body(head.length, rest)
        self._answer(found, head.method)
        return rest

    def _forward(self, ask: Ask, rest: bytes) -> bytes:
        self.deadline = 0.0
        self._keep_alive = ask.keep_alive
        if ask.length == len(rest):  # All of the body came with the head, as most do.
            raw, payload, rest = rest, [rest] if rest else [], b""
        else:
            raw, payload, rest = self._open_body(ask.length, rest)
        call = self._relay = self._site.open_call(self, ask)
        call.begin(ask, raw, payload, self._body is None)
        return rest

    def _open_body(self, length: int, rest: bytes) -> tuple[bytes, list[bytes], bytes]:
        """What came of a body as it is, what it holds, and what follows the request."""
        body = open_body(length)
        raw: bytes = b""
        payload: list[bytes] = []
        if rest and not body.done:
            rest = body.feed(rest)
            raw, payload = body.raw, body.payload
        self._body = None if body.done else body
        return raw, payload, rest

    def _read_body(self, body: Body, data: bytes) -> bytes:
        try:
            rest = body.feed(data)
        except BadBody as exc:
            relay, self._relay = self._relay, None
            if relay is not None:
                relay.client_left(f"the client sent a malformed body: {exc}")
            self._refuse(400, "bad_request", str(exc))
            return b""
        if body.done:
            self._body = None
        if self._relay is not None:
            self._relay.request_piece(body.raw, body.payload, body.done)
        else:
            self._discard(len(body.raw))
        return rest

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > DISCARDED_BYTES_MAX or (self._body is None and not self._keep_alive):
            self._close()
        elif self._body is None:
            self._next()

    # -- our own answers

    def _answer(self, own: Own, method: str) -> None:
        if own.status != 200:
            add(self._site.metrics.refused, str(own.status))
        self._write(own, bodiless=method == "HEAD")
        self._after_reply()

    def _write(self, own: Own, *, bodiless: bool = False) -> None:
        close = self.closes(False)
        self.transport.write(reply(own.status, own.content_type, own.body, close=close, bodiless=bodiless))

    def _after_reply(self) -> None:
        """The caller reads on, unless the connection closes."""
        if self._body is not None:
            self._expect_rest()
        elif not self._keep_alive:
            self._close()
        else:
            self.deadline = self._site.loop.time() + IDLE_SECONDS_MAX

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer and close: where the next request would begin is not known."""
        add(self._site.metrics.refused, str(status))
        self._keep_alive = False
        self._write(refusal(status, code, message))
        self._close()

    # -- what the relay says

    def write(self, data: bytes) -> None:
        """A piece of the answer, at once."""
        write_now(self.transport, self._descriptor, data)

    def closes(self, until_close: bool) -> bool:
        """Does the connection close after this answer? Asked once, when its head is written."""
        if until_close or self._site.draining:
            self._keep_alive = False
        return not self._keep_alive

    def hold(self, held: bool) -> None:
        """Stop reading the request, or go on."""
        self._held = held
        self._steer()

    def call_goes_on(self, relay: Relay) -> None:
        """Nothing recorded answers the call; from here on it is relayed."""
        self._relay = relay

    def call_over(self) -> None:
        """The answer is complete."""
        self._relay = None
        self._held = False
        if self._body is not None:
            self._expect_rest()
        elif self._keep_alive and not self._site.draining:
            self._next()
        else:
            self._close()

    def call_failed(self, status: int, code: str, message: str) -> None:
        """There was no answer: ours stands in."""
        if self._body is not None:
            self._keep_alive = False
        self._write(refusal(status, code, message))
        self.call_over()

    def cut(self, last: bytes = b"", *, reset: bool) -> None:
        """Break off as the upstream did, after what it had sent."""
        self._relay = None
        if last:
            self.transport.write(last)
        if reset:
            raw = self.transport.get_extra_info("socket")
            with suppress(OSError, AttributeError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._close()

    # -- in between

    def _next(self) -> None:
        self.deadline = self._site.loop.time() + IDLE_SECONDS_MAX
        self._discarded = 0
        data, self._waiting = self._waiting, b""
        if self._paused:
            self._steer()
        if data:
            self._read_heads(data)

    def _expect_rest(self) -> None:
        """The request was answered before all of it came; take the rest, within limits."""
        self._discarded = 0
        self.deadline = self._site.loop.time() + DISCARD_SECONDS_MAX
        self._steer()

    def _steer(self) -> None:
        """Read, or do not, as both the upstream and our patience allow."""
        pause = self._held or len(self._waiting) > WAITING_BYTES_MAX
        if pause is not self._paused and not self.transport.is_closing():
            self._paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _close(self) -> None:
        self._closing = True
        self._waiting = b""
        self.transport.close()

    def close_if_idle(self) -> None:
        """The proxy stops: a connection without a call goes now, others after their call."""
        if self._relay is None:
            self._close()

    def stop(self) -> None:
        """The proxy stops now: a call in flight is cut."""
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.stopped()
        self.transport.abort()

    def expire(self, now: float) -> None:
        """Close if something was due."""
        if self.deadline and now > self.deadline and self._relay is None and not self._closing:
            if self._reader is not None:
                self._refuse(408, "too_slow", f"the head did not come within {HEAD_SECONDS_MAX:g} seconds")
            else:
                self._close()

    def pause_writing(self) -> None:
        """The client takes the answer slowly."""
        self._full = True
        if self._relay is not None:
            self._relay.client_full()

    def resume_writing(self) -> None:
        """It can take more."""
        self._full = False
        if self._relay is not None:
            self._relay.client_ready()
        elif self._body is None and not self._closing:
            self._next()
