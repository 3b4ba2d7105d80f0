"""Which target of a release answers a snapshot.

In: a release, a snapshot and the weights of the release's targets. Out: one place among them, the same for ever.
Never: chance, a clock or a counter: whoever knows the two ids knows the target.

The digest of the two ids gives a point: its first 15 hexadecimal digits as a number, modulo the sum of the weights.
The targets stand side by side on that line in their order, each as long as its weight; the one at the point is it.
60 bits against a sum of at most 10^8 make no target likelier than its weight says by more than 1 in 10^10, and are
what a shell can still count with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from traceforge.canon import digest_fields

CHOICE_DOMAIN = "traceforge.choice.v1"
_DIGITS = 15


def choose_target(release_id: str, snapshot_id: str, weights: Sequence[int]) -> int:
    """The place of the target that a release gives this snapshot; every weight is 1 or more."""
    assert weights, "a release has at least one target"
    assert min(weights) > 0, "a target without weight would never be chosen"
    ends = list(accumulate(weights))
    digest = digest_fields(CHOICE_DOMAIN, [("release_id", release_id), ("snapshot_id", snapshot_id)])
    point = int(digest.partition(":")[2][:_DIGITS], 16) % ends[-1]
    return next(place for place, end in enumerate(ends) if point < end)
