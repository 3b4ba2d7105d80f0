"""One call in flight, between a client and an upstream.

In: what the client sends and what the upstream answers, as it comes. Out: the same bytes on the other side at once,
and every event to the watch. Never: buffers an answer, waits, or ends a call twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traceforge.capture.proxy.call_recording import UNWATCHED, Watch
from traceforge.capture.proxy.prepared_request import Ask
from traceforge.capture.proxy.proxy_metrics import add
from traceforge.exchange import CallOutcome
from traceforge.http.body_framing import CHUNKED, UNTIL_CLOSE
from traceforge.http.message_head import ResponseHead

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.upstream_connection import UpstreamConnection
    from traceforge.capture.proxy.worker_state import Site

HELD_BYTES_MAX = 1 << 20  # A request up to this can be sent again when a kept connection turns out to be stale.
AHEAD_BYTES_MAX = 256 << 10  # What a client may send before the upstream is connected.


class Relay:
    """A call from the moment its request's head is known."""

    __slots__ = (
        "_client", "_dechunk", "_held", "_held_bytes", "_method", "_minor", "_opening", "_retried", "_route",
        "_site", "_status", "_upstream", "_watch", "over", "request_done",
    )  # fmt: skip

    def __init__(self, site: Site, client: ClientConnection, ask: Ask) -> None:
        self._site = site
        self._client = client
        self._route = ask.route
        self._method = ask.method
        self._minor = ask.minor
        self._upstream: UpstreamConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._held: list[bytes] | None = []  # What was sent, while it may have to be sent again.
        self._held_bytes = 0
        self._retried = False
        self._dechunk = False
        self._status = 0
        self.over = False  # True of a relay that is still there: only bytes are passed on
        self.request_done = False
        self._watch: Watch = UNWATCHED
        site.metrics.in_flight += 1

    # -- what the client does

    def begin(self, ask: Ask, raw: bytes, payload: list[bytes], done: bool) -> None:
        """Send the request's head, and as much of its body as came with it; then tell the engine."""
        site, route = self._site, self._route
        self.request_done = done
        self._upstream = site.pool.find_idle(route.upstream)
        if self._upstream is None:
            self._opening = site.pool.open(route.upstream, self)
        else:
            self._upstream.begin(self, self._method)
        self._send(ask.head + raw)
        self._watch = site.watcher.begin(ask)
        self._count_request(payload)

    def request_piece(self, raw: bytes, payload: list[bytes], done: bool) -> None:
        """More of the request's body."""
        self.request_done = done
        self._send(raw)
        self._count_request(payload)

    def _count_request(self, payload: list[bytes]) -> None:
        for piece in payload:
            self._site.metrics.request_bytes += len(piece)
            self._watch.sent(piece)

    def _send(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._upstream is None:
                if self._held_bytes > AHEAD_BYTES_MAX:
                    self._client.hold(True)
            elif self._held_bytes > HELD_BYTES_MAX:
                self._held = None
        if self._upstream is not None:
            self._upstream.write(data)

    def client_left(self, why: str = "the client left") -> None:
        """The client is gone: the upstream is let go at once."""
        self._let_go()
        self._end(CallOutcome.CLIENT_LEFT, why)

    def client_full(self) -> None:
        """The client takes the answer slowly."""
        if self._upstream is not None:
            self._upstream.read(False)

    def client_ready(self) -> None:
        """It can take more."""
        if self._upstream is not None:
            self._upstream.read(True)

    # -- what the upstream does

    def connected(self, upstream: UpstreamConnection) -> None:
        """A new connection stands; what was held goes out."""
        self._opening = None
        self._upstream = upstream
        upstream.begin(self, self._method)
        held, self._held = self._held or [], None  # It is new: it cannot be stale.
        self._client.hold(False)
        upstream.write(b"".join(held))

    def unreachable(self, status: int, kind: str, reason: str) -> None:
        """There is no connection."""
        self._opening = None
        self.failed(status, kind, reason)

    def unanswered(self, reason: str, begun: bytes, *, stale: bool, reset: bool) -> None:
        """The connection was lost before an answer, perhaps within its head: so it is for the client."""
        self._upstream = None
        if stale and self._held is not None and not self._retried:
            self._retried = True
            self._site.metrics.upstream_retries += 1
            self._opening = self._site.pool.open(self._route.upstream, self)
        else:
            add(self._site.metrics.upstream_errors, "no-answer")
            self._end(CallOutcome.FAILED, reason)
            self._client.cut(begun, reset=reset)

    def upstream_full(self) -> None:
        """The upstream takes the request slowly."""
        self._client.hold(True)

    def upstream_ready(self) -> None:
        """It can take more."""
        self._client.hold(False)

    def interim(self, head: bytes) -> None:
        """A head that only says to go on (1xx); clients of HTTP/1.0 do not know any."""
        if self._minor:
            self._client.write(head)

    def answer(self, head: ResponseHead, raw: bytes, payload: list[bytes]) -> None:
        """The answer begins, perhaps with a piece of its body."""
        self._held = None
        self._status = head.status
        lines = head.lines
        if head.length == CHUNKED and not self._minor:
            self._dechunk = True
            lines = [line for line in lines if not line.lower().startswith((b"transfer-encoding:", b"trailer:"))]
            raw = b"".join(payload)
        if self._watch.reply_headers:
            told = [f"{name}: {value}".encode("latin-1") for name, value in self._watch.reply_headers]
            lines = [*lines, *told]
        if self._client.closes(head.length == UNTIL_CLOSE):
            lines = [*lines, b"Connection: close"]
        first = head.first
        if not first.startswith(b"HTTP/1.1"):  # It speaks HTTP/1.0; we do not.
            first = b"HTTP/1.1" + first[8:]
        self._client.write(b"\r\n".join((first, *lines, b"", raw)))
        self._watch.answered(head)
        if payload:
            self._count_answer(payload)

    def piece(self, raw: bytes, payload: list[bytes]) -> None:
        """More of the answer's body."""
        data = b"".join(payload) if self._dechunk else raw
        if data:
            self._client.write(data)
        self._count_answer(payload)

    def _count_answer(self, payload: list[bytes]) -> None:
        metrics = self._site.metrics
        for piece in payload:
            metrics.response_bytes += len(piece)
        metrics.response_chunks += len(payload)
        self._watch.came(payload)

    def complete(self) -> None:
        """The answer came to its end."""
        self._upstream = None
        self._end(CallOutcome.ANSWERED)
        self._client.call_over()

    def cut(self, reason: str, *, reset: bool) -> None:
        """The answer broke off: the client sees it break off, and no end that nobody sent."""
        self._upstream = None
        if not self.over:
            add(self._site.metrics.upstream_errors, "cut")
        self._end(CallOutcome.CUT, reason)
        self._client.cut(reset=reset)

    def malformed(self, reason: str, raw: bytes, payload: list[bytes]) -> None:
        """The answer cannot be read any further: the call is over for us, and its bytes go on to the client."""
        add(self._site.metrics.upstream_errors, "malformed")
        self._held = None
        self._dechunk = False
        self._count_answer(payload)
        self._end(CallOutcome.CUT if self._status else CallOutcome.FAILED, reason)
        self._client.write(raw)

    def failed(self, status: int, kind: str, reason: str) -> None:
        """There will be no answer; the client is told why."""
        self._upstream = None
        self._status = status
        add(self._site.metrics.upstream_errors, kind)
        self._end(CallOutcome.FAILED, reason)
        name = self._route.upstream.name
        self._client.call_failed(status, f"upstream_{kind}".replace("-", "_"), f"upstream {name}: {reason}")

    # -- the end

    def stopped(self) -> None:
        """The proxy stops, and nobody waits any longer."""
        self._let_go()
        self._end(CallOutcome.CUT if self._status else CallOutcome.FAILED, "the proxy was stopped")

    def _let_go(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._upstream is not None:
            self._upstream.drop()
            self._upstream = None

    def _end(self, outcome: CallOutcome, error: str = "") -> None:
        if self.over:  # It was malformed, and only its bytes went on.
            return
        self.over = True
        self._held = None
        self._site.metrics.in_flight -= 1
        self._site.metrics.call_ended(self._route.upstream.name, self._status, outcome)
        self._watch.ended(outcome, error)
