"""The engine, seen from a call that must go on whatever happens to its recording.

In: the events of a call. Out: the same events, told to the engine. Never: raises. A failure is counted by kind, said
once on stderr, and the exchange of that call is lost; its bytes travel on.

A loop sends what was written only after everything that happened at the same time was handled, and a client that has
its answer asks again at once: work done then makes somebody wait. Most calls are one piece each way: of those a watch
only remembers what it saw and when, and the engine is told of several together, a moment later. Together they cost
half of what each does alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from traceforge.capture.engine import Call, Engine, this_moment
from traceforge.capture.proxy.prepared_request import PreparedRequest
from traceforge.capture.proxy.proxy_metrics import ProxyMetrics, increment
from traceforge.exchange import CallOutcome, Chunk, Headers
from traceforge.http.message_head import ResponseHead

GATHER_SECONDS = 0.01  # Until calls that ended are told; a process that is killed takes them along.
GATHER_MAX = 32  # How many at most: the loop stands still for as long as it takes to tell them.

Say = Callable[[str], None]


def say(line: str) -> None:
    """Tell the operator, who may not be listening."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"traceforge proxy: {line}\n")
        sys.stderr.flush()


class Watcher:
    """Begins to watch calls; without an engine, it watches none. Without a loop, it tells of each call at once."""

    def __init__(
        self,
        engine: Engine | None,
        metrics: ProxyMetrics,
        tell: Say = say,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.engine = engine
        self._metrics = metrics
        self._tell = tell
        self._loop = loop
        self._over: list[Watch] = []  # calls that ended, and that nobody was told of

    @property
    def header_problems(self) -> int:
        """How many of our headers could not be used."""
        return sum(self.engine.header_problems.values()) if self.engine else 0

    def begin(self, ask: PreparedRequest) -> Watch:
        """A call begins."""
        if self.engine is None:
            return UNWATCHED
        watch = Watch(self, ask)
        if (
            ask.has_traceforge_headers or self.engine.numbers
        ):  # The client is told what becomes of its call, or the order counts.
            watch.start()
        return watch

    def over(self, watch: Watch) -> None:
        """A call has ended; tell of it soon."""
        self._over.append(watch)
        if self._loop is None or len(self._over) >= GATHER_MAX:
            self.flush()
        elif len(self._over) == 1:
            self._loop.call_later(GATHER_SECONDS, self.flush)

    def flush(self) -> None:
        """Tell of every call that has ended."""
        over, self._over = self._over, []
        for watch in over:
            watch.finish()

    def say(self, line: str) -> None:
        """Tell the operator."""
        self._tell(line)

    def failed(self, where: str, exc: Exception) -> None:
        """Count a failure; the first of its kind is said, without its message: that could hold a secret."""
        kind = f"{where}-{type(exc).__name__}"
        increment(self._metrics.recording_failures, kind)
        if self._metrics.recording_failures[kind] == 1:
            self._tell(f"recording failed ({type(exc).__name__} at {where}); calls go through and are not recorded")


class Watch:
    """One call, watched, until watching fails."""

    __slots__ = (
        "_ask", "_began", "_call", "_came", "_end", "_headers", "_request", "_status", "_watcher", "reply_headers",
    )  # fmt: skip

    def __init__(self, watcher: Watcher | None, ask: PreparedRequest | None) -> None:
        self._watcher = watcher  # None: nothing is watched, or not any more
        self._ask = ask
        self._began = this_moment()
        self._call: Call | None = None  # None: what was seen stands here, and the engine was not told
        self._request: bytes | None = None
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._came: tuple[bytes, float] | None = None
        self._end: tuple[CallOutcome, str, float] = (CallOutcome.FAILED, "", 0.0)
        self.reply_headers: Headers = ()  # added to the response

    def start(self) -> None:
        """Tell the engine what was seen so far."""
        watcher, ask = self._watcher, self._ask
        if watcher is None or ask is None or watcher.engine is None:
            return
        where = "begin"
        try:
            route = ask.route
            call = watcher.engine.begin(
                ask.method,
                route.url,
                ask.headers,
                provider=route.upstream.name,
                ours=ask.has_traceforge_headers,
                moment=self._began,
            )
            self._call, self.reply_headers = call, call.reply_headers
            if self._request is not None:
                where = "sent"
                call.sent(self._request)
            if self._status:
                where = "answered"
                call.answered(self._status, tuple(self._headers))
            if self._came is not None:
                where = "came"
                call.came(*self._came)
        except Exception as exc:  # noqa: BLE001 (recording is beside the call)
            self._lose(where, exc)

    def sent(self, data: bytes) -> None:
        """A piece of the request's body."""
        if self._watcher is None:
            return
        if self._call is None:
            if self._request is None:
                self._request = data
                return
            self.start()
        if self._call is not None:
            try:
                self._call.sent(data)
            except Exception as exc:  # noqa: BLE001
                self._lose("sent", exc)

    def answered(self, head: ResponseHead) -> None:
        """The response begins."""
        self._status, self._headers = head.status, head.headers
        if self._call is not None:
            try:
                self._call.answered(head.status, tuple(head.headers))
            except Exception as exc:  # noqa: BLE001
                self._lose("answered", exc)

    def came(self, pieces: list[bytes]) -> None:
        """Pieces of the response's body."""
        if self._watcher is None:
            return
        if self._call is None:
            if self._came is None and len(pieces) == 1:
                self._came = (pieces[0], time.perf_counter())
                return
            self.start()
        if self._call is not None:
            try:
                for piece in pieces:
                    self._call.came(piece)
            except Exception as exc:  # noqa: BLE001
                self._lose("came", exc)

    def ended(self, outcome: CallOutcome, error: str = "") -> None:
        """The call is over."""
        if self._watcher is not None:
            self._end = (outcome, error, time.perf_counter())
            self._watcher.over(self)

    def finish(self) -> None:
        """Tell the engine of the end, and of everything that it was not told."""
        watcher, ask, call = self._watcher, self._ask, self._call
        if watcher is None or watcher.engine is None or ask is None:
            return
        try:
            if call is not None:
                call.ended(*self._end)
            else:
                self._tell_whole(watcher.engine, ask)
        except Exception as exc:  # noqa: BLE001
            self._lose("ended", exc)
        self._watcher = self._call = None

    def _tell_whole(self, engine: Engine, ask: PreparedRequest) -> None:
        outcome, error, ended = self._end
        came = self._came
        chunks = () if came is None else (Chunk((came[1] - self._began.seconds) * 1000, came[0]),)
        engine.whole(
            ask.method, ask.route.url, ask.headers, self._request or b"", self._status, tuple(self._headers), chunks,
            self._began, ended, outcome, error, ask.route.upstream.name,
        )  # fmt: skip

    def _lose(self, where: str, exc: Exception) -> None:
        watcher, self._watcher, self._call = self._watcher, None, None
        if watcher is not None:
            watcher.failed(where, exc)


UNWATCHED = Watch(None, None)
