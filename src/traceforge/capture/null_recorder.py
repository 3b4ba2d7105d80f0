"""The recorder of a strict replay, which stores nothing and imports nothing that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceforge.capture.recording_counts import RecordingCounts

if TYPE_CHECKING:
    from traceforge.exchange import Exchange

CLOSE_SECONDS = 5.0


class NullRecorder:
    """Counts calls, and stores none."""

    def __init__(self) -> None:
        self.seen = 0

    def take(self, exchange: Exchange) -> None:
        """Count a call that was not replayed."""
        self.seen += 1

    @property
    def counts(self) -> RecordingCounts:
        return RecordingCounts()

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        return self.counts
