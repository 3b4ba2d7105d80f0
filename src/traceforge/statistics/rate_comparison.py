"""Whether a rate dropped between two sets of runs, and by how much.

In: for each case, how many of its runs passed before and after. Out: the p-value of a drop, which
is the chance of such a drop if nothing changed, and the interval of the difference. Never: compares a case of one
set with another case of the other set.

*The test* (`drop_p_value`) decides. It compares each case with itself. The total of passed runs of a case, before and
after together, is taken as given; if nothing changed, chance alone decides how many of these fall into the runs
after (the hypergeometric distribution). The sum over all cases
says how likely it is that so few passed after, or fewer. It is exact, and keeps its promise for any rates of the
cases. With one case it is Fisher's exact test; with many cases of one run each it is McNemar's, which looks at those
cases alone that changed; with several runs of several cases it is the exact test of Cochran, Mantel and Haenszel. So
a data set in which hard cases fail and easy ones pass does not hide a drop, as it would if all runs were thrown
together.

*The interval* of the difference (after less before) is an approximation, and the verdict does not come from it. For
cases of one run each it is the one of Bonett and Price, for others the one of Agresti and Caffo: both count one more
of each outcome, so that few runs do not look certain. Computed over all possible outcomes, each limit misses the true
difference in 4 to 5 % of them on average; with ten or more runs, and differences up to 0.3, in at most 7.5 % (11 %
for pairs). The intervals of Newcombe and of Miettinen and Nurminen were computed too: the first misses in up to 30 %
for pairs, the second in up to 12 %. Where cases have several runs, the interval makes no use of both sets having the
same cases, so it is wider than it must be. Test and interval are about these cases, not about others that might have
been chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from traceforge.statistics.rate_interval import LIMIT_ERROR, Interval, RateCount, log_choices

# With more runs after than this, the sum is close to a normal distribution, which takes no time to compute.
EXACT_RUNS_MAX = 2_000


@dataclass(frozen=True)
class CaseRuns:
    """The runs of one case in both sets. Each has at least one run."""

    before: RateCount
    after: RateCount

    @property
    def weight(self) -> float:
        """How much the case counts in a difference: cases with more runs on both sides count more."""
        return self.before.runs * self.after.runs / (self.before.runs + self.after.runs)


@dataclass(frozen=True)
class RateDifference:
    """A difference of two rates, each weighted by the runs of its cases."""

    before: float
    after: float
    interval: Interval  # of after less before

    @property
    def change(self) -> float:
        """How much the rate rose; negative if it dropped."""
        return self.after - self.before


def drop_p_value(cases: Sequence[CaseRuns]) -> float:
    """The p-value of a drop: the chance that so few runs pass after, or fewer, if no case changed.

    There is at least one case.
    """
    passed = sum(case.after.passed for case in cases)
    if sum(case.after.runs for case in cases) > EXACT_RUNS_MAX:
        return _normal_drop_p_value(cases, passed)
    lowest, probabilities = 0, [1.0]
    for case in cases:
        shift, case_probabilities = _after_probabilities(case)
        lowest += shift
        probabilities = _convolve(probabilities, case_probabilities)
    return min(1.0, math.fsum(probabilities[: passed - lowest + 1]))


def smallest_drop_p_value(cases: Sequence[CaseRuns]) -> float:
    """The smallest p-value that these runs could give: the one if no run after had passed.

    If even this is not small, so few runs cannot show any drop.
    """
    return drop_p_value([CaseRuns(case.before, RateCount(0, case.after.runs)) for case in cases])


def rate_difference(cases: Sequence[CaseRuns], limit_error: float = LIMIT_ERROR) -> RateDifference:
    """The difference of the rates over all cases, with its interval, widened to hold the observed difference.

    `limit_error` is the chance that the true difference lies beyond one limit; beyond either, it is twice that.
    """
    total = math.fsum(case.weight for case in cases)
    weights = [case.weight / total for case in cases]
    before = _weighted([case.before for case in cases], weights)
    after = _weighted([case.after for case in cases], weights)
    quantile = NormalDist().inv_cdf(1.0 - limit_error)
    is_paired = len(cases) > 1 and all(case.before.runs == case.after.runs == 1 for case in cases)
    centre, error = _paired_difference(cases) if is_paired else _unpaired_difference(before, after)
    change = after.rate - before.rate
    low, high = centre - quantile * error, centre + quantile * error
    return RateDifference(before.rate, after.rate, Interval(max(-1.0, min(low, change)), min(1.0, max(high, change))))


@dataclass(frozen=True)
class _WeightedRate:
    """A rate over cases, and its effective number of runs: so many of a single case would say as much."""

    rate: float
    runs: float


def _weighted(counts: Sequence[RateCount], weights: Sequence[float]) -> _WeightedRate:
    rate = math.fsum(weight * count.rate for count, weight in zip(counts, weights, strict=True))
    variance_share = math.fsum(weight * weight / count.runs for count, weight in zip(counts, weights, strict=True))
    return _WeightedRate(min(1.0, rate), 1.0 / variance_share)


def _unpaired_difference(before: _WeightedRate, after: _WeightedRate) -> tuple[float, float]:
    """The centre of the interval and its standard error, by Agresti and Caffo."""
    rates = [(side.rate * side.runs + 1.0) / (side.runs + 2.0) for side in (before, after)]
    variances = [rate * (1.0 - rate) / (side.runs + 2.0) for rate, side in zip(rates, (before, after), strict=True)]
    return rates[1] - rates[0], math.sqrt(sum(variances))


def _paired_difference(cases: Sequence[CaseRuns]) -> tuple[float, float]:
    """The centre of the interval and its standard error, by Bonett and Price."""
    changes = [case.after.passed - case.before.passed for case in cases]
    lost, gained = ((changes.count(change) + 1) / (len(cases) + 2) for change in (-1, 1))
    centre = gained - lost
    return centre, math.sqrt((gained + lost - centre * centre) / (len(cases) + 2))


def _after_probabilities(case: CaseRuns) -> tuple[int, list[float]]:
    """The fewest runs of a case that can pass after, and the probabilities of that and each higher number."""
    before, after = case.before.runs, case.after.runs
    passed = case.before.passed + case.after.passed
    lowest, highest = max(0, passed - before), min(after, passed)
    total = log_choices(before + after, passed)
    probabilities = [
        math.exp(log_choices(after, number) + log_choices(before, passed - number) - total)
        for number in range(lowest, highest + 1)
    ]
    return lowest, probabilities


def _convolve(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """The distribution of the sum of two numbers, from the distribution of each."""
    if len(second) == 1:
        return list(first)
    probabilities = [0.0] * (len(first) + len(second) - 1)
    for offset, share in enumerate(second):
        for index, probability in enumerate(first):
            probabilities[index + offset] += share * probability
    return probabilities


def _normal_drop_p_value(cases: Sequence[CaseRuns], passed: int) -> float:
    """The p-value of a drop by the normal distribution with the same mean and variance, corrected by half a run."""
    mean = variance = 0.0
    for case in cases:
        before, after = case.before.runs, case.after.runs
        runs, rate = before + after, (case.before.passed + case.after.passed) / (before + after)
        mean += after * rate
        variance += after * before * rate * (1.0 - rate) / (runs - 1)
    return NormalDist(mean, math.sqrt(variance)).cdf(passed + 0.5) if variance else 1.0
