"""The recorder of a strict replay, which stores nothing and imports nothing that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceforge.capture.recording_counts import RecordingCounts

if TYPE_CHECKING:
    from traceforge.exchange import Exchange

CLOSE_SECONDS = 5.0


class NullRecorder:
    """Takes calls and stores none, because a strict replay records nothing."""

    def take(self, exchange: Exchange) -> None:
        """Drop a call that was not replayed."""

    @property
    def counts(self) -> RecordingCounts:
        return RecordingCounts()

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        return self.counts
