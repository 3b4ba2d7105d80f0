"""What became of the calls that a recorder took.

In: counts. Out: one value. Never: needs what keeps calls, so that who only replays can say that nothing was kept.
"""

from __future__ import annotations

from msgspec import Struct, field


class Recorded(Struct):
    """What became of the exchanges that a recorder took."""

    taken: int = 0
    lost: int = 0  # the backlog was full, or the process that keeps them died
    kept: int = 0
    failed: dict[str, int] = field(default_factory=dict)  # a reason, and how many could not be kept for it
    troubles: dict[str, int] = field(default_factory=dict)  # what went wrong beside, and cost no call

    @property
    def waiting(self) -> int:
        """How many are on their way."""
        return max(0, self.taken - self.lost - self.kept - sum(self.failed.values()))

    def by_result(self) -> dict[str, int]:
        """How many ended how; together they are all that were taken."""
        return {
            "recorded": self.kept,
            "lost": self.lost,
            "failed": sum(self.failed.values()),
            "waiting": self.waiting,
        }
