"""The engine, seen from a call that must go on whatever happens to its recording.

In: the events of a call. Out: the same events, told to the engine. Never: raises. A failure is counted by kind, said
once on stderr, and the exchange of that call is lost; its bytes travel on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

from traceforge.capture.engine import Call, Engine
from traceforge.capture.proxy.head import RequestHead, ResponseHead
from traceforge.capture.proxy.metrics import Metrics, add
from traceforge.exchange import Headers, Outcome

Say = Callable[[str], None]


def say(line: str) -> None:
    """Tell the operator, who may not be listening."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"traceforge proxy: {line}\n")
        sys.stderr.flush()


class Watcher:
    """Begins to watch calls; without an engine, it watches none."""

    def __init__(self, engine: Engine | None, metrics: Metrics, tell: Say = say) -> None:
        self._engine = engine
        self._metrics = metrics
        self._tell = tell

    @property
    def header_problems(self) -> int:
        """How many of our headers could not be used."""
        return sum(self._engine.header_problems.values()) if self._engine else 0

    def begin(self, head: RequestHead, url: str, provider: str) -> Watch:
        """A call begins."""
        if self._engine is None:
            return UNWATCHED
        try:
            call = self._engine.begin(head.method, url, tuple(head.headers), provider=provider, ours=head.spoken)
            return Watch(self, call)
        except Exception as exc:  # noqa: BLE001 (recording is beside the call)
            self.failed("begin", exc)
            return UNWATCHED

    def say(self, line: str) -> None:
        """Tell the operator."""
        self._tell(line)

    def failed(self, where: str, exc: Exception) -> None:
        """Count a failure; the first of its kind is said, without its message: that could hold a secret."""
        kind = f"{where}-{type(exc).__name__}"
        add(self._metrics.recording_failures, kind)
        if self._metrics.recording_failures[kind] == 1:
            self._tell(f"recording failed ({type(exc).__name__} at {where}); calls go through and are not recorded")


class Watch:
    """One call, watched, until watching fails."""

    __slots__ = ("_call", "_watcher", "reply_headers")

    def __init__(self, watcher: Watcher | None, call: Call | None) -> None:
        self._watcher = watcher
        self._call = call
        self.reply_headers: Headers = call.reply_headers if call is not None else ()  # added to the response

    def sent(self, data: bytes) -> None:
        """A piece of the request's body."""
        if self._call is not None:
            try:
                self._call.sent(data)
            except Exception as exc:  # noqa: BLE001
                self._lose("sent", exc)

    def answered(self, head: ResponseHead) -> None:
        """The response begins."""
        if self._call is not None:
            try:
                self._call.answered(head.status, tuple(head.headers))
            except Exception as exc:  # noqa: BLE001
                self._lose("answered", exc)

    def came(self, pieces: list[bytes]) -> None:
        """Pieces of the response's body."""
        if self._call is not None:
            try:
                for piece in pieces:
                    self._call.came(piece)
            except Exception as exc:  # noqa: BLE001
                self._lose("came", exc)

    def ended(self, outcome: Outcome, error: str = "") -> None:
        """The call is over."""
        call, self._call = self._call, None
        if call is not None:
            try:
                call.ended(outcome, error)
            except Exception as exc:  # noqa: BLE001
                self._lose("ended", exc)

    def _lose(self, where: str, exc: Exception) -> None:
        self._call = None
        if self._watcher is not None:
            self._watcher.failed(where, exc)


UNWATCHED = Watch(None, None)
