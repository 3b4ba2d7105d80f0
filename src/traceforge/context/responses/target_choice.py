"""Which target of a release answers a snapshot.

The choice depends on the two ids only, never on chance or a clock, so anyone can repeat it: the first 15 hexadecimal
digits of their digest, as a number, modulo the sum of the weights, is a point. The targets cover the range in their
order, each as much as its weight; the target at the point is chosen. 60 bits against a sum of at most 10^8 favour no
target by more than 1 in 10^10, and fit into the integers of a shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from traceforge.canon import digest_fields

CHOICE_DOMAIN = "traceforge.choice.v1"
_DIGITS = 15


def choose_target(release_id: str, snapshot_id: str, weights: Sequence[int]) -> int:
    """The index of the target that a release chooses for a snapshot; every weight is 1 or more."""
    assert weights, "a release has at least one target"
    assert min(weights) > 0, "a target without weight would never be chosen"
    ends = list(accumulate(weights))
    digest = digest_fields(CHOICE_DOMAIN, [("release_id", release_id), ("snapshot_id", snapshot_id)])
    point = int(digest.partition(":")[2][:_DIGITS], 16) % ends[-1]
    return next(place for place, end in enumerate(ends) if point < end)
