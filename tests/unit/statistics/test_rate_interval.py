"""The interval of a rate for a number of runs that was fixed beforehand."""

from __future__ import annotations

import math

import pytest

from traceforge.statistics.rate_interval import RateCount, at_least_probability, binomial_probability, exact_interval

# Computed with scipy 1.17.1: binomtest(passed, runs).proportion_ci(0.90, method="exact").
REFERENCE = [
    (0, 1, 0.0, 0.95),
    (1, 1, 0.05, 1.0),
    (0, 10, 0.0, 0.2588655509),
    (7, 10, 0.3933757839, 0.9127355661),
    (10, 10, 0.7411344491, 1.0),
    (27, 30, 0.7614021427, 0.9721844503),
    (990, 1000, 0.9830968249, 0.9945648599),
]


@pytest.mark.parametrize(("passed", "runs", "low", "high"), REFERENCE)
def test_the_interval_is_the_one_of_clopper_and_pearson(passed: int, runs: int, low: float, high: float) -> None:
    """The limits agree with scipy's to ten digits."""
    interval = exact_interval(RateCount(passed, runs))

    assert [low, high] == pytest.approx([interval.low, interval.high], abs=1e-9)


@pytest.mark.parametrize("runs", [1, 7, 25])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_each_limit_is_wrong_in_one_of_twenty_at_most(runs: int, rate: float) -> None:
    """The exact chance that a limit is on the wrong side of the true rate is at most 5 %."""
    intervals = [exact_interval(RateCount(passed, runs)) for passed in range(runs + 1)]
    above = math.fsum(binomial_probability(n, runs, rate) for n, limits in enumerate(intervals) if limits.low > rate)
    below = math.fsum(binomial_probability(n, runs, rate) for n, limits in enumerate(intervals) if limits.high < rate)

    assert above <= 0.05
    assert below <= 0.05


def test_without_runs_every_rate_is_possible() -> None:
    """No run says nothing."""
    interval = exact_interval(RateCount(0, 0))

    assert (0.0, 1.0) == (interval.low, interval.high)


def test_chances_agree_with_scipy() -> None:
    """The chance that at least 116 of 135 runs pass at 0.8, and that exactly 7 of 10 do."""
    assert 0.04896757814937578 == pytest.approx(at_least_probability(116, 135, 0.8), rel=1e-10)
    assert 0.20132659199999978 == pytest.approx(binomial_probability(7, 10, 0.8), rel=1e-10)


@pytest.mark.parametrize(("passed", "runs"), [(-1, 3), (4, 3)])
def test_more_passed_runs_than_runs_are_refused(passed: int, runs: int) -> None:
    """A count that cannot be is a mistake of the caller."""
    with pytest.raises(ValueError, match=f"{passed} of {runs} runs cannot have passed"):
        RateCount(passed, runs)
