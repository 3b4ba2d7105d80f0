"""The interval of a rate after a test that stops as soon as it is sure.

In: the boundaries of the test, and where it stands. Out: the interval of the true rate. Never: uses the interval of
a fixed number of runs, which is too narrow here: how early a test stops depends on the rate.

All ends of the test are ordered, from "passed after the fewest runs" to "failed after the fewest runs" (the
stage-wise order). The interval holds the rates at which an end as extreme as this one is not too unlikely. The
chance of an end as high as this one or higher never falls as the rate rises, because a path with more passed runs
never ends lower. So each limit is one rate, found by halving, and is wrong with no more than its chance.

A confidence sequence, which holds after every run and not only at the stop, would be the alternative. It is wider:
after 29 of 29 passed runs its lower limit is 0.80, although the test has just ruled out 0.9. In this order, limits
and verdict agree: after a pass the lower limit is at least p - m, after a failure the upper limit is at most p.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceforge.statistics.rate_interval import Interval, RateCount, solve_rate
from traceforge.statistics.stopping_paths import Boundaries, PathEnd, PathTable, build_table


def stopped_interval(boundaries: Boundaries, count: RateCount, low_error: float, high_error: float) -> Interval:
    """The interval after a test that stopped at this count, or has its cap there."""
    if not count.runs:
        return Interval(0.0, 1.0)
    ends = _OrderedEnds(build_table(boundaries, count.runs), boundaries, count)
    low = solve_rate(ends.probability_as_high, low_error)
    high = solve_rate(lambda rate: 1.0 - ends.probability_as_low(rate), 1.0 - high_error)
    return Interval(low, high)


@dataclass(frozen=True)
class _OrderedEnds:
    """The ends of a test, compared with one of them."""

    table: PathTable
    boundaries: Boundaries
    count: RateCount

    def probability_as_high(self, rate: float) -> float:
        """The chance of an end as high as this one, or higher, at a true rate."""
        if self._has_failed:
            return 1.0 - self.table.probability(self._earlier(self.table.failing), rate)
        open_ends = () if self._has_passed else self.table.running
        higher = [end for end in open_ends if end.passed >= self.count.passed]
        return self.table.probability((*self.table.passing, *higher), rate)

    def probability_as_low(self, rate: float) -> float:
        """The chance of an end as low as this one, or lower, at a true rate."""
        if self._has_passed:
            return 1.0 - self.table.probability(self._earlier(self.table.passing), rate)
        open_ends = () if self._has_failed else self.table.running
        lower = [end for end in open_ends if end.passed <= self.count.passed]
        return self.table.probability((*self.table.failing, *lower), rate)

    @property
    def _has_passed(self) -> bool:
        return self.count.passed >= self.boundaries.passes_at(self.count.runs)

    @property
    def _has_failed(self) -> bool:
        return self.count.passed <= self.boundaries.fails_at(self.count.runs)

    def _earlier(self, ends: tuple[PathEnd, ...]) -> tuple[PathEnd, ...]:
        return tuple(end for end in ends if end.runs < self.count.runs)
