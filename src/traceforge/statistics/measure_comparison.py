"""Whether a measure, such as a latency, a cost or a length, is larger in one set of runs than in another.

In: the values of both sets. Out: the typical difference with its interval, and the p-value: the chance of such
values if nothing changed. Never: assumes a normal distribution, or lets one extreme value decide.

The test is that of Mann and Whitney: it asks how often a value after is above a value before. The typical
difference is the median of all differences between a value after and a value before (Hodges and Lehmann), and its
interval holds the differences that the same test does not rule out. Both are exact for few values, with ties; for
many, the normal distribution takes their place. The values must be of different answers, and the number of runs
must not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist, median

from traceforge.statistics.rate_interval import LIMIT_ERROR, Interval

EXACT_VALUES_MAX = 30  # More values on both sides together, and the normal distribution is close.


@dataclass(frozen=True)
class MeasureDifference:
    """How a measure differs after from before."""

    before: float  # the median
    after: float
    shift: float  # the typical difference, after less before
    interval: Interval | None  # of the shift; None if there are too few values for one
    p_value: float  # the chance of values as far apart as these, in either direction, if nothing changed


def compare_measures(
    before: Sequence[float], after: Sequence[float], limit_error: float = LIMIT_ERROR
) -> MeasureDifference:
    """Compare two sets of values.

    Raises:
        ValueError: a set is empty, or a value is not finite.
    """
    if not before or not after or not all(map(math.isfinite, (*before, *after))):
        raise ValueError("a comparison of measures needs finite values on both sides")
    ranks = _double_ranks([*before, *after])
    differences = sorted(second - first for first in before for second in after)
    left_out = _count_left_out(len(before), len(after), limit_error)
    interval = Interval(differences[left_out - 1], differences[-left_out]) if left_out else None
    p_value = _rank_sum_p_value(ranks, len(after), sum(ranks[len(before) :]))
    return MeasureDifference(median(before), median(after), median(differences), interval, p_value)


def _double_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value; equal values share the middle of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 0
    for _, group in groupby(order, key=values.__getitem__):
        indexes = list(group)
        for index in indexes:
            ranks[index] = 2 * start + len(indexes) + 1
        start += len(indexes)
    return ranks


def _rank_sum_p_value(ranks: Sequence[int], chosen: int, observed: int) -> float:
    """The p-value of a rank sum: the chance of one as far from its mean, if nothing changed."""
    total = len(ranks)
    if total <= EXACT_VALUES_MAX:
        ways = _count_rank_sums(ranks, chosen)
        below = sum(count for value, count in ways.items() if value <= observed)
        above = sum(count for value, count in ways.items() if value >= observed)
        return min(1.0, 2 * min(below, above) / math.comb(total, chosen))
    mean = chosen * (total + 1)
    spread = sum((rank - (total + 1)) ** 2 for rank in ranks)
    variance = chosen * (total - chosen) * spread / (total * (total - 1))
    if not variance:
        return 1.0
    distance = max(0.0, abs(observed - mean) - 1) / math.sqrt(variance)  # a step of half a rank is 1, doubled
    return min(1.0, 2 * NormalDist().cdf(-distance))


def _count_rank_sums(ranks: Sequence[int], chosen: int) -> dict[int, int]:
    """In how many ways so many ranks have each sum."""
    sums: list[dict[int, int]] = [{0: 1}, *({} for _ in range(chosen))]
    for rank in ranks:
        for size in range(chosen, 0, -1):
            for value, count in sums[size - 1].items():
                sums[size][value + rank] = sums[size].get(value + rank, 0) + count
    return sums[chosen]


def _count_left_out(before: int, after: int, limit_error: float) -> int:
    """Which of the ordered differences is the limit, counted from each end; 0 if even the first is not far enough."""
    if before + after > EXACT_VALUES_MAX:
        spread = math.sqrt(before * after * (before + after + 1) / 12)
        middle = before * after / 2 + 0.5
        return max(0, math.floor(middle - NormalDist().inv_cdf(1.0 - limit_error) * spread))
    ways = _count_rank_sums(range(1, before + after + 1), after)
    lowest = after * (after + 1) // 2  # the sum where no value after is above one before
    accepted = math.comb(before + after, after) * limit_error
    left_out, reached = 0, 0
    while (reached := reached + ways.get(lowest + left_out, 0)) <= accepted:
        left_out += 1
    return left_out
