"""A recorder for what is replayed.

In: the calls of a run that was answered from snapshots. Out: how many there were. Never: keeps anything, or needs
what does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceforge.capture.recording_counts import RecordingCounts

if TYPE_CHECKING:
    from traceforge.exchange import Exchange

CLOSE_SECONDS = 5.0


class NullRecorder:
    """A recorder for a replay: there is nothing to record."""

    def __init__(self) -> None:
        self.seen = 0

    def take(self, exchange: Exchange) -> None:
        """A call that was not replayed: it is counted, and kept nowhere."""
        self.seen += 1

    @property
    def counts(self) -> RecordingCounts:
        """Nothing was kept."""
        return RecordingCounts()

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        """Nothing is left to do."""
        return self.counts
