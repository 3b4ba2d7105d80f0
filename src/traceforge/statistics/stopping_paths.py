"""All ways in which a sequential test can go, and how likely each end is at any true rate: exact.

In: boundaries, and a largest number of runs. Out: the ends of the test with their weights. Never: simulates.

A test that stands at `passed` of `runs` has come there on one of many paths. Each path has the same chance at a
true rate q: q ** passed * (1 - q) ** (runs - passed). So it is enough to count the paths to each end once, and the
chance of every end at every rate follows. The counts grow beyond what a float holds, so a *weight* is a count of
paths times the chance of one of them at a reference rate, between the two rates that the test compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

_ROUNDING = 1e-9  # A boundary that is met but for the rounding of floats is met.
_WEIGHT_MIN = 1e-280  # Lighter paths have no chance at any rate that matters.


@dataclass(frozen=True)
class Boundaries:
    """How many passed runs decide a test of a higher rate against a lower one.

    The test fails once the results are `ratio_to_fail` times as likely at the lower rate as at the higher one, and
    passes once they are `ratio_to_pass` times as likely at the higher one.
    """

    higher: float
    lower: float
    ratio_to_fail: float
    ratio_to_pass: float

    @property
    def reference_rate(self) -> float:
        """A rate between the two, at which the weights of paths are given."""
        return (self.higher + self.lower) / 2

    def passes_at(self, runs: int) -> int:
        """The fewest passed runs with which the test passes; more than `runs` if it cannot yet."""
        needed = math.log(self.ratio_to_pass)
        if not runs:
            return 1
        if self.higher >= 1.0:
            return runs if runs * self._pass_log_ratio >= needed - _ROUNDING else runs + 1
        if self.lower <= 0.0:
            return 1
        return math.ceil((runs * self._failure_log_ratio + needed) / self._log_ratio_step - _ROUNDING)

    def fails_at(self, runs: int) -> int:
        """The most passed runs with which the test fails; negative if it cannot yet."""
        needed = math.log(self.ratio_to_fail)
        if not runs:
            return -1
        if self.higher >= 1.0:
            return runs - 1
        if self.lower <= 0.0:
            return 0 if runs * self._failure_log_ratio >= needed - _ROUNDING else -1
        return math.floor((runs * self._failure_log_ratio - needed) / self._log_ratio_step + _ROUNDING)

    @cached_property
    def _pass_log_ratio(self) -> float:
        """How much one passed run adds to the log likelihood ratio, which speaks for the higher rate."""
        return math.log(self.higher / self.lower) if self.lower > 0.0 else math.inf

    @cached_property
    def _failure_log_ratio(self) -> float:
        """How much one failed run takes from it."""
        return math.log((1.0 - self.lower) / (1.0 - self.higher))

    @cached_property
    def _log_ratio_step(self) -> float:
        return self._pass_log_ratio + self._failure_log_ratio


class PathEnd(NamedTuple):
    """One end of a test: its counts, and the weight of all paths that lead there."""

    passed: int
    runs: int
    weight: float


class Stage(NamedTuple):
    """The paths that end after a number of runs, and those that go on."""

    runs: int
    passing: PathEnd | None
    failing: PathEnd | None
    running: Mapping[int, float]  # weights, by the number of passed runs


@dataclass(frozen=True)
class PathTable:
    """All ends of a test within a number of runs."""

    reference_rate: float
    runs: int
    passing: tuple[PathEnd, ...]
    failing: tuple[PathEnd, ...]
    running: tuple[PathEnd, ...]  # after the last run

    def probability(self, ends: Iterable[PathEnd], rate: float) -> float:
        """The chance of some of the ends at a true rate."""
        return probability_of_ends(ends, self.reference_rate, rate)


def probability_of_ends(ends: Iterable[PathEnd], reference_rate: float, rate: float) -> float:
    """The chance of ends at a true rate; their weights are given at the reference rate."""
    success = math.log(rate / reference_rate) if rate > 0.0 else -math.inf
    failure = math.log((1.0 - rate) / (1.0 - reference_rate)) if rate < 1.0 else -math.inf
    return math.fsum(
        weight
        * math.exp((passed * success if passed else 0.0) + ((runs - passed) * failure if passed < runs else 0.0))
        for passed, runs, weight in ends
    )


def walk_stages(boundaries: Boundaries) -> Iterator[Stage]:
    """The stages of a test, run after run, until no path goes on."""
    reference_rate = boundaries.reference_rate
    running: dict[int, float] = {0: 1.0}
    runs = 0
    while running:
        runs += 1
        weights: dict[int, float] = {}
        for passed, weight in running.items():
            weights[passed] = weights.get(passed, 0.0) + weight * (1.0 - reference_rate)
            weights[passed + 1] = weights.get(passed + 1, 0.0) + weight * reference_rate
        passes_at, fails_at = boundaries.passes_at(runs), boundaries.fails_at(runs)
        # A test that has not ended is at most one run short of a boundary, so one count passes, and one fails.
        passing = PathEnd(passes_at, runs, weights[passes_at]) if passes_at in weights else None
        failing = PathEnd(fails_at, runs, weights[fails_at]) if fails_at in weights else None
        running = {
            passed: weight
            for passed, weight in weights.items()
            if fails_at < passed < passes_at and weight > _WEIGHT_MIN
        }
        yield Stage(runs, passing, failing, running)


@lru_cache(maxsize=64)
def build_table(boundaries: Boundaries, runs: int) -> PathTable:
    """The ends of a test within a number of runs."""
    stages = list(islice(walk_stages(boundaries), runs))
    running = tuple(PathEnd(passed, runs, weight) for passed, weight in sorted(stages[-1].running.items()))
    return PathTable(
        boundaries.reference_rate,
        runs,
        tuple(stage.passing for stage in stages if stage.passing is not None),
        tuple(stage.failing for stage in stages if stage.failing is not None),
        running,
    )
