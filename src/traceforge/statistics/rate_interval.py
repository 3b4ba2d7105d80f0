"""The interval of a rate: which true rates fit a share of passed runs.

In: counts of runs. Out: an interval with a lower and an upper limit. Never: reads a file, or simulates.

*Confidence.* Each limit is wrong with a chance of at most `LIMIT_ERROR`, so the interval holds the true rate with
at least 90 %. The limits have the error rates of `pass_rate`, so that both say the same about the same runs.

`exact_interval` is the one of Clopper and Pearson, which inverts the binomial distribution. It holds if the number
of runs was fixed beforehand. It does not hold for a test that stops when it has seen enough: there, how often it
stopped early depends on the rate, and the interval is too narrow. `PassRateState.interval` is the one to use then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LIMIT_ERROR = 0.05  # The chance that one limit of an interval is wrong: 5 % below and 5 % above.

_HALVINGS = 45  # Of the range from 0 to 1: finer than any count of runs can tell apart.


@dataclass(frozen=True)
class Interval:
    """All values between two limits, which belong to it."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class RateCount:
    """How many of some runs passed."""

    passed: int
    runs: int

    def __post_init__(self) -> None:
        if not 0 <= self.passed <= self.runs:
            raise ValueError(f"{self.passed} of {self.runs} runs cannot have passed")

    @property
    def rate(self) -> float:
        """The share that passed; 0 if there was no run."""
        return self.passed / self.runs if self.runs else 0.0


def exact_interval(count: RateCount, limit_error: float = LIMIT_ERROR) -> Interval:
    """The interval of Clopper and Pearson, for a number of runs that was fixed beforehand."""
    passed, runs = count.passed, count.runs
    low = solve_rate(lambda rate: at_least_probability(passed, runs, rate), limit_error) if passed else 0.0
    high = (
        1.0 - solve_rate(lambda rate: at_least_probability(runs - passed, runs, rate), limit_error)
        if passed < runs
        else 1.0
    )
    return Interval(low, high)


def at_least_probability(passed: int, runs: int, rate: float) -> float:
    """The chance that at least `passed` of `runs` runs pass at a true rate."""
    if passed <= runs / 2:  # the shorter of the two sums
        return 1.0 - math.fsum(binomial_probability(count, runs, rate) for count in range(passed))
    return math.fsum(binomial_probability(count, runs, rate) for count in range(passed, runs + 1))


def binomial_probability(passed: int, runs: int, rate: float) -> float:
    """The chance that exactly `passed` of `runs` runs pass at a true rate."""
    if rate <= 0.0 or rate >= 1.0:
        return float(passed == (runs if rate >= 1.0 else 0))
    return math.exp(log_choices(runs, passed) + passed * math.log(rate) + (runs - passed) * math.log1p(-rate))


def log_choices(total: int, chosen: int) -> float:
    """The logarithm of the number of ways to choose some of several things."""
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def solve_rate(rising: Callable[[float], float], target: float) -> float:
    """The largest rate at which a function that never falls is at most a target."""
    if rising(1.0) <= target:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if rising(middle) <= target:
            low = middle
        else:
            high = middle
    return low
