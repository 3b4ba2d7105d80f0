"""Recorders for runs that are held against what was approved.

In: the calls of a run. Out: where they go: to another recorder, noted, or nowhere, counted. Never: keep anything
themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceforge.capture.recorded import Recorded

if TYPE_CHECKING:
    from traceforge.capture.recorder import Recorder
    from traceforge.exchange import Exchange

CLOSE_SECONDS = 5.0


class Noting:
    """A recorder that also knows which calls it was given, in the order in which they ended."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.ids: list[str] = []

    def take(self, exchange: Exchange) -> None:
        """Keep it."""
        self.ids.append(exchange.id)
        self._recorder.take(exchange)

    @property
    def counts(self) -> Recorded:
        """What became of everything so far."""
        return self._recorder.counts

    def close(self, seconds: float = CLOSE_SECONDS) -> Recorded:
        """Keep what was taken."""
        return self._recorder.close(seconds)


class Nothing:
    """A recorder for a replay: there is nothing to record."""

    def __init__(self) -> None:
        self.seen = 0

    def take(self, exchange: Exchange) -> None:
        """A call that was not replayed: it is counted, and kept nowhere."""
        self.seen += 1

    @property
    def counts(self) -> Recorded:
        """Nothing was kept."""
        return Recorded()

    def close(self, seconds: float = CLOSE_SECONDS) -> Recorded:
        """Nothing is left to do."""
        return self.counts
