"""The verdict about a pass rate, while runs come in: passed, failed, or not yet sure.

In: the required rate `pass_rate` (p), a `margin` (m), the chances of a wrong verdict that are accepted, and the
result of one run after the other. Out: a verdict as soon as it is sure, and the interval of the true rate. Never:
promises anything about a true rate between p - m and p.

*The test* is Wald's sequential probability ratio test. After each run, it compares how likely the results are at p
- m with how likely they are at p. A check fails where they are at least 1 / alpha times as likely at p - m, and
passes where they are at most beta times as likely.

*Error rates.* A behaviour whose rate is p or more fails with a chance of at most `alpha`; one whose rate is p - m
or less passes with a chance of at most `beta`. This holds exactly, for every cap, and also where the last run
oversteps a boundary: at p, the expected value of the ratio is at most 1 wherever one stops, so it reaches 1 / alpha
with a chance of alpha at most, and the other side is the same with the ratio upside down. Wald's usual boundaries,
(1 - beta) / alpha and beta / (1 - alpha), save 3 % of the runs and hold only roughly: with a pass rate of 1 they
pass after 28 runs, with a chance of 5.2 % at a rate of 0.9. Boundaries fitted to each test would save 6 %.

*The interval* is the one of `sequential_interval`. While a test is running, it is the one with which the test would
end if the cap were reached now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import count

from traceforge.statistics.pass_rate_plan import (
    Outcomes,
    PassRatePlan,
    find_fixed_runs,
    find_runs_advised,
    outcomes_at,
)
from traceforge.statistics.rate_interval import LIMIT_ERROR, Interval, RateCount
from traceforge.statistics.sequential_interval import stopped_interval
from traceforge.statistics.stopping_paths import Boundaries

MARGIN_MIN = 0.01  # A finer margin needs thousands of runs.
RUNS_MAX = 10_000  # The largest cap.


class PassRateVerdict(StrEnum):
    """What the runs so far say about the pass rate."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"  # the cap is reached
    RUNNING = "running"


@dataclass(frozen=True, kw_only=True)
class PassRateTest:
    """A test of a pass rate.

    Raises:
        ValueError: a value is out of its range; the message says which.
    """

    pass_rate: float
    margin: float = 0.1
    alpha: float = LIMIT_ERROR  # the chance to fail a behaviour whose rate is `pass_rate` or more
    beta: float = LIMIT_ERROR  # the chance to pass one whose rate is `pass_rate - margin` or less
    runs_max: int

    def __post_init__(self) -> None:
        if not 0 < self.pass_rate <= 1:
            raise ValueError(f"the pass rate must be above 0 and at most 1, not {self.pass_rate}")
        if not MARGIN_MIN <= self.margin <= self.pass_rate:
            raise ValueError(f"the margin must be from {MARGIN_MIN} to the pass rate, not {self.margin}")
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 0.5:
                raise ValueError(f"{name} must be above 0 and below 0.5, not {value}")
        if not 1 <= self.runs_max <= RUNS_MAX:
            raise ValueError(f"the number of runs must be from 1 to {RUNS_MAX}, not {self.runs_max}")

    @property
    def failing_rate(self) -> float:
        """The rate at which a behaviour must not pass: `pass_rate - margin`."""
        return round(self.pass_rate - self.margin, 12)

    @cached_property
    def boundaries(self) -> Boundaries:
        """How many passed runs decide."""
        return Boundaries(self.pass_rate, self.failing_rate, 1.0 / self.alpha, 1.0 / self.beta)

    @property
    def runs_to_pass(self) -> int:
        """The fewest runs after which the test can pass: all of them passed."""
        return next(runs for runs in count(1) if self.boundaries.passes_at(runs) <= runs)

    def start(self) -> PassRateState:
        """The state before the first run."""
        return PassRateState(self)

    def outcomes_at(self, rate: float) -> Outcomes:
        """How tests end at a true rate: exact, not simulated."""
        return outcomes_at(self.boundaries, self.runs_max, rate)

    def plan(self) -> PassRatePlan:
        """What the test costs, and what it can decide."""
        return PassRatePlan(
            self.outcomes_at(self.pass_rate),
            self.outcomes_at(self.failing_rate),
            self.runs_to_pass,
            find_runs_advised(self.boundaries, RUNS_MAX),
            find_fixed_runs(self.pass_rate, self.failing_rate, self.alpha, self.beta),
        )


@dataclass(frozen=True)
class PassRateState:
    """The runs so far.

    Add runs in the order in which they were numbered, not in which they ended: a slow run may be likelier to fail.
    """

    test: PassRateTest
    passed: int = 0
    runs: int = 0

    def add(self, passed: bool) -> PassRateState:
        """The state after one more run. A decided state stays as it is.

        A run that had already begun when the test stopped decides nothing.
        """
        if self.verdict is not PassRateVerdict.RUNNING:
            return self
        return replace(self, passed=self.passed + passed, runs=self.runs + 1)

    @property
    def verdict(self) -> PassRateVerdict:
        """The verdict after these runs."""
        boundaries = self.test.boundaries
        if self.passed >= boundaries.passes_at(self.runs):
            return PassRateVerdict.PASSED
        if self.passed <= boundaries.fails_at(self.runs):
            return PassRateVerdict.FAILED
        return PassRateVerdict.UNDECIDED if self.runs >= self.test.runs_max else PassRateVerdict.RUNNING

    @property
    def interval(self) -> Interval:
        """The true rates that fit these runs, with an error of at most `beta` below and `alpha` above."""
        return stopped_interval(
            self.test.boundaries, RateCount(self.passed, self.runs), self.test.beta, self.test.alpha
        )
