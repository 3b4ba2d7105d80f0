"""Recording in the proxy: a call continues even if its recording fails.

In: calls of clients, as they begin. Out: for each a `GuardedCall`, whose end reaches the engine. Never: raises. A
failure is counted by kind, and the first of a kind is reported on stderr; the exchange of that call is lost, and its
bytes travel on.

An event loop sends what was written only after everything that happened at the same time was handled, and a client
that has its response asks again at once. So the engine gets several ended calls together, a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from traceforge.capture.engine import Engine
from traceforge.capture.hook.guarded_call import GuardedCall
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.proxy.prepared_request import PreparedRequest
from traceforge.capture.proxy.proxy_metrics import ProxyMetrics, increment
from traceforge.terminal import one_line, print_text

BATCH_SECONDS = 0.01  # Until calls that ended are completed; a process that is killed loses them.
BATCH_MAX = 32  # How many at most: the loop stands still for as long as it takes to complete them.

UNRECORDED = GuardedCall(None)

Report = Callable[[str], None]


def report_to_stderr(line: str) -> None:
    """Write a line for the operator, whose terminal may be gone."""
    with suppress(OSError, ValueError, AttributeError):
        print_text(f"traceforge proxy: {one_line(line)}", err=True)


class CallRecording:
    """Begins the recording of calls; without an engine, none is recorded. Without a loop, ends are not batched."""

    def __init__(
        self,
        engine: Engine | None,
        metrics: ProxyMetrics,
        report: Report = report_to_stderr,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.engine = engine
        self._metrics = metrics
        self._report = report
        self._loop = loop
        self._ended: list[InFlightCall] = []  # not completed yet

    @property
    def header_problems(self) -> int:
        """How many of TraceForge's headers could not be used."""
        return sum(self.engine.header_problems.values()) if self.engine else 0

    def begin(self, request: PreparedRequest) -> GuardedCall:
        if self.engine is None:
            return UNRECORDED
        try:
            call = self.engine.begin(
                request.method,
                request.route.url,
                request.headers,
                provider=request.route.provider,
                has_traceforge_headers=request.has_traceforge_headers,
                on_end=self._enqueue,
            )
        except Exception as exc:  # noqa: BLE001 (recording must not stop the call)
            self.count_failure(exc, "begin")
            return UNRECORDED
        return GuardedCall(call, on_fault=self.count_failure)

    def _enqueue(self, call: InFlightCall) -> None:
        self._ended.append(call)
        if self._loop is None or len(self._ended) >= BATCH_MAX:
            self.flush()
        elif len(self._ended) == 1:
            self._loop.call_later(BATCH_SECONDS, self.flush)

    def flush(self) -> None:
        """Complete every call that has ended."""
        ended, self._ended = self._ended, []
        for call in ended:
            try:
                if self.engine is not None:
                    self.engine.complete(call)
            except Exception as exc:  # noqa: BLE001
                self.count_failure(exc, "end")

    def report(self, line: str) -> None:
        self._report(line)

    def count_failure(self, exc: BaseException, stage: str) -> None:
        """The first of its kind is reported, without its message: that could hold a secret."""
        kind = f"{stage}-{type(exc).__name__}"
        increment(self._metrics.recording_failures, kind)
        if self._metrics.recording_failures[kind] == 1:
            self._report(f"recording failed ({type(exc).__name__} at {stage}); calls go through and are not recorded")
