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

    `likelier_low` is how many times as likely the results must be at the lower rate for the test to fail, and
    `likelier_high` the same the other way round.
    """

    higher: float
    lower: float
    likelier_low: float
    likelier_high: float

    @property
    def reference(self) -> float:
        """A rate between the two."""
        return (self.higher + self.lower) / 2

    def passes_at(self, runs: int) -> int:
        """The fewest passed runs with which the test passes; more than `runs` if it cannot yet."""
        needed = math.log(self.likelier_high)
        if not runs:
            return 1
        if self.higher >= 1.0:
            return runs if runs * self._success_weight >= needed - _ROUNDING else runs + 1
        if self.lower <= 0.0:
            return 1
        return math.ceil((runs * self._failure_weight + needed) / self._both - _ROUNDING)

    def fails_at(self, runs: int) -> int:
        """The most passed runs with which the test fails; negative if it cannot yet."""
        needed = math.log(self.likelier_low)
        if not runs:
            return -1
        if self.higher >= 1.0:
            return runs - 1
        if self.lower <= 0.0:
            return 0 if runs * self._failure_weight >= needed - _ROUNDING else -1
        return math.floor((runs * self._failure_weight - needed) / self._both + _ROUNDING)

    @cached_property
    def _success_weight(self) -> float:
        """How far one passed run speaks for the higher rate."""
        return math.log(self.higher / self.lower) if self.lower > 0.0 else math.inf

    @cached_property
    def _failure_weight(self) -> float:
        """How far one failed run speaks for the lower rate."""
        return math.log((1.0 - self.lower) / (1.0 - self.higher))

    @cached_property
    def _both(self) -> float:
        return self._success_weight + self._failure_weight


class CountWeight(NamedTuple):
    """The paths to one count of passed runs."""

    passed: int
    runs: int
    weight: float


class Stage(NamedTuple):
    """The paths that end after a number of runs, and those that go on."""

    runs: int
    passing: CountWeight | None
    failing: CountWeight | None
    running: Mapping[int, float]  # weights, by the number of passed runs


@dataclass(frozen=True)
class PathTable:
    """All ends of a test within a number of runs."""

    reference: float
    runs: int
    passing: tuple[CountWeight, ...]
    failing: tuple[CountWeight, ...]
    running: tuple[CountWeight, ...]  # after the last run

    def probability(self, ends: Iterable[CountWeight], rate: float) -> float:
        """The chance of some of the ends at a true rate."""
        return probability_of_ends(ends, self.reference, rate)


def probability_of_ends(ends: Iterable[CountWeight], reference: float, rate: float) -> float:
    """The chance of ends, whose weights are those of a reference rate, at a true rate."""
    success = math.log(rate / reference) if rate > 0.0 else -math.inf
    failure = math.log((1.0 - rate) / (1.0 - reference)) if rate < 1.0 else -math.inf
    return math.fsum(
        weight
        * math.exp((passed * success if passed else 0.0) + ((runs - passed) * failure if passed < runs else 0.0))
        for passed, runs, weight in ends
    )


def walk_stages(boundaries: Boundaries) -> Iterator[Stage]:
    """The stages of a test, run after run, until no path goes on."""
    reference = boundaries.reference
    running: dict[int, float] = {0: 1.0}
    runs = 0
    while running:
        runs += 1
        weights: dict[int, float] = {}
        for passed, weight in running.items():
            weights[passed] = weights.get(passed, 0.0) + weight * (1.0 - reference)
            weights[passed + 1] = weights.get(passed + 1, 0.0) + weight * reference
        passes_at, fails_at = boundaries.passes_at(runs), boundaries.fails_at(runs)
        # A test that has not ended is at most one run short of a boundary, so one count passes, and one fails.
        passing = CountWeight(passes_at, runs, weights[passes_at]) if passes_at in weights else None
        failing = CountWeight(fails_at, runs, weights[fails_at]) if fails_at in weights else None
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
    running = tuple(CountWeight(passed, runs, weight) for passed, weight in sorted(stages[-1].running.items()))
    return PathTable(
        boundaries.reference,
        runs,
        tuple(stage.passing for stage in stages if stage.passing is not None),
        tuple(stage.failing for stage in stages if stage.failing is not None),
        running,
    )
