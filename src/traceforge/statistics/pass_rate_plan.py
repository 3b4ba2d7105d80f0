"""What a test of a pass rate costs, and how often it stays undecided: exact.

In: the boundaries of a test, and its cap. Out: shares of verdicts, expected runs, and caps. Never: simulates.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceforge.statistics.rate_interval import at_least_probability
from traceforge.statistics.stopping_paths import (
    Boundaries,
    PathEnd,
    build_table,
    probability_of_ends,
    walk_stages,
)

UNDECIDED_MAX = 0.01  # The share of undecided tests that an advised cap leaves at either rate.
FIXED_RUNS_MAX = 500  # A longer test with a fixed number of runs is not searched for.


@dataclass(frozen=True)
class Outcomes:
    """How tests end at one true rate: shares that add up to 1, and the runs that they take."""

    passed: float
    failed: float
    undecided: float
    mean_runs: float


@dataclass(frozen=True)
class PassRatePlan:
    """What a test costs, and what it can decide."""

    at_pass_rate: Outcomes
    at_failing_rate: Outcomes
    runs_to_pass: int  # the fewest runs after which it can pass: all of them passed
    runs_advised: (
        int | None
    )  # the smallest cap that leaves few undecided at both rates; None if the largest leaves more
    fixed_runs: int | None  # what a test with a fixed number of runs needs for the same promise; None if very many


def outcomes_at(boundaries: Boundaries, runs_max: int, rate: float) -> Outcomes:
    """How tests with a cap end at a true rate."""
    table = build_table(boundaries, runs_max)
    undecided = table.probability(table.running, rate)
    ends = (*table.passing, *table.failing, *table.running)
    # The expected number of runs: each end counts with the runs that lead to it.
    mean_runs = table.probability((end._replace(weight=end.weight * end.runs) for end in ends), rate)
    return Outcomes(
        table.probability(table.passing, rate), table.probability(table.failing, rate), undecided, mean_runs
    )


def find_runs_advised(boundaries: Boundaries, runs_max: int) -> int | None:
    """The smallest cap that leaves few tests undecided at both rates; None if the largest cap leaves more."""
    for stage in walk_stages(boundaries):
        ends = [PathEnd(passed, stage.runs, weight) for passed, weight in stage.running.items()]
        shares = [
            probability_of_ends(ends, boundaries.reference_rate, rate)
            for rate in (boundaries.higher, boundaries.lower)
        ]
        if max(shares) <= UNDECIDED_MAX:
            return stage.runs
        if stage.runs >= runs_max:
            break
    return None


def find_fixed_runs(higher: float, lower: float, alpha: float, beta: float) -> int | None:
    """The fewest runs with which a test that always takes them all keeps the same promise."""
    needed = 0
    for runs in range(1, FIXED_RUNS_MAX + 1):
        while at_least_probability(needed, runs, lower) > beta:
            needed += 1
        if 1.0 - at_least_probability(needed, runs, higher) <= alpha:
            return runs
    return None
