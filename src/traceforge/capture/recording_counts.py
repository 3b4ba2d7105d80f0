"""Counts of exchanges by result: one type for a recorder, its trace writer and its other processes.

It is in a module of its own so that a replay, which records nothing, need not import what writes traces.
"""

from __future__ import annotations

import os
from collections import Counter

from msgspec import Struct, field


class RecordingCounts(Struct):
    """Counts of exchanges. They can be added up, and cross process borders."""

    accepted: int = 0  # by a recorder; what only writes traces leaves it at 0
    recorded: int = 0  # as a trace in the spool or in a file
    lost: int = 0  # the backlog was full, or the process that writes traces died
    failed: dict[str, int] = field(default_factory=dict)  # a reason, and how many could not be kept for it
    troubles: dict[str, int] = field(default_factory=dict)  # what else went wrong, and cost no call
    segments: dict[str, int] = field(default_factory=dict)  # a segment's path, and how many traces went into it

    def __add__(self, other: RecordingCounts) -> RecordingCounts:
        return RecordingCounts(
            self.accepted + other.accepted,
            self.recorded + other.recorded,
            self.lost + other.lost,
            dict(Counter(self.failed) + Counter(other.failed)),
            dict(Counter(self.troubles) + Counter(other.troubles)),
            {**self.segments, **other.segments},
        )

    def __sub__(self, earlier: RecordingCounts) -> RecordingCounts:
        """What has happened since `earlier`."""
        return RecordingCounts(
            self.accepted - earlier.accepted,
            self.recorded - earlier.recorded,
            self.lost - earlier.lost,
            dict(Counter(self.failed) - Counter(earlier.failed)),
            dict(Counter(self.troubles) - Counter(earlier.troubles)),
            {path: count for path, count in self.segments.items() if path not in earlier.segments},
        )

    @property
    def failures(self) -> int:
        """How many could not be written, for any reason."""
        return sum(self.failed.values())

    @property
    def waiting(self) -> int:
        """How many were taken and are not kept yet."""
        return max(0, self.accepted - self.lost - self.recorded - self.failures)

    @property
    def in_spool(self) -> int:
        """How many are recorded and not files yet: each process may make files, and then removes the segment."""
        return sum(count for path, count in self.segments.items() if os.path.exists(path))

    def by_result(self) -> dict[str, int]:
        """How many ended how; together they are all that were taken. Those `in_spool` are recorded, too."""
        return {
            "recorded": self.recorded, "lost": self.lost, "failed": self.failures, "waiting": self.waiting,
            "in_spool": self.in_spool,
        }  # fmt: skip
