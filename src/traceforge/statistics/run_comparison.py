"""Whether any assertion passes less often in one set of runs than in another.

In: for each assertion and case, how many runs passed before and after. Out: a verdict for each assertion, with the
difference and its interval. Never: calls a difference a drop that chance explains, or a comparison clean that could
not have shown a drop.

*Many comparisons.* Twenty assertions that did not change show one "drop" at a level of 5 %, by chance. A build that
fails for no reason teaches people to ignore it, so Holm's correction is used: the chance that a comparison reports
any drop where there is none is at most `alpha`, however many assertions there are. (The correction of Benjamini and
Hochberg finds more drops, but lets one of twenty reported ones be false: good for research, not for a build.)

*Runs that stopped early.* The exact test is for numbers of runs that were fixed beforehand. Where a test of a pass
rate stopped the runs, it would find a drop that is none in up to 9.9 % of comparisons instead of 5 %. Such p-values
count twice (`STOPPED_FACTOR`); computed over all ends of both tests, for pass rates from 0.6 to 1, that keeps the
promise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from traceforge.statistics.rate_comparison import (
    CaseRuns,
    RateDifference,
    drop_p_value,
    rate_difference,
    smallest_drop_p_value,
)
from traceforge.statistics.rate_interval import LIMIT_ERROR, RateCount

STOPPED_FACTOR = 2

CaseCounts = Mapping[str, RateCount]  # by case; a check without cases has one, named as the caller likes


class DropVerdict(StrEnum):
    """What a comparison says about one assertion."""

    DROP = "drop"
    NO_DROP = "no_drop"
    TOO_FEW_RUNS = "too_few_runs"  # even if every run had failed after, it could have been chance
    NOT_COMPARED = "not_compared"  # no case has runs on both sides


@dataclass(frozen=True)
class AssertionComparison:
    """One assertion in both sets of runs."""

    name: str
    verdict: DropVerdict
    before: RateCount  # of the cases that are in both sets
    after: RateCount
    cases: int  # that are in both sets
    cases_left_out: int  # that are in one set only, and were not compared
    difference: RateDifference | None  # None if nothing was compared
    p_value: float  # the chance of such a drop if nothing changed, for this assertion alone
    adjusted_p_value: float  # for the number of assertions, by Holm; a drop if it is at most alpha


@dataclass(frozen=True)
class RunComparison:
    """Two sets of runs, assertion by assertion."""

    assertions: tuple[AssertionComparison, ...]
    alpha: float

    @property
    def drops(self) -> tuple[AssertionComparison, ...]:
        """The assertions that pass less often after."""
        return tuple(entry for entry in self.assertions if entry.verdict is DropVerdict.DROP)

    @property
    def unchecked(self) -> tuple[AssertionComparison, ...]:
        """The assertions about which the runs say nothing."""
        without_verdict = (DropVerdict.TOO_FEW_RUNS, DropVerdict.NOT_COMPARED)
        return tuple(entry for entry in self.assertions if entry.verdict in without_verdict)


def compare_runs(
    before: Mapping[str, CaseCounts],
    after: Mapping[str, CaseCounts],
    alpha: float = LIMIT_ERROR,
    stopped: Collection[str] = (),
) -> RunComparison:
    """Compare every assertion that is in either set, in the order of `before`, then of `after`.

    `stopped` are assertions whose runs may have ended early, because a test of a pass rate was sure.
    """
    names = list(dict.fromkeys((*before, *after)))
    cases = [_common_cases(before.get(name, {}), after.get(name, {})) for name in names]
    totals = [len({**before.get(name, {}), **after.get(name, {})}) for name in names]
    factors = [STOPPED_FACTOR if name in stopped else 1 for name in names]
    p_values = [min(1.0, factor * drop_p_value(entry)) for entry, factor in zip(cases, factors, strict=True) if entry]
    pairs = zip(p_values, adjust_p_values(p_values), strict=True)
    limits = [alpha / max(1, len(p_values)) / factor for factor in factors]
    return RunComparison(
        tuple(
            _judge(name, entry, total - len(entry), *next(pairs), alpha, limit)
            if entry
            else _not_compared(name, total)
            for name, entry, total, limit in zip(names, cases, totals, limits, strict=True)
        ),
        alpha,
    )


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest of n p-values is multiplied by n, the next by n - 1, and so on."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _common_cases(before: CaseCounts, after: CaseCounts) -> list[CaseRuns]:
    """The cases that have runs in both sets."""
    names = [name for name, count in before.items() if count.runs and name in after and after[name].runs]
    return [CaseRuns(before[name], after[name]) for name in names]


def _judge(
    name: str,
    cases: Sequence[CaseRuns],
    left_out: int,
    p_value: float,
    adjusted_p_value: float,
    alpha: float,
    smallest_limit: float,  # what a p-value must not exceed where it is the smallest of all assertions
) -> AssertionComparison:
    before, after = _add_up([case.before for case in cases]), _add_up([case.after for case in cases])
    verdict = DropVerdict.NO_DROP
    if adjusted_p_value <= alpha:
        verdict = DropVerdict.DROP
    elif before.passed and smallest_drop_p_value(cases) > smallest_limit and not _has_risen(cases, alpha):
        verdict = DropVerdict.TOO_FEW_RUNS
    return AssertionComparison(
        name, verdict, before, after, len(cases), left_out, rate_difference(cases), p_value, adjusted_p_value
    )


def _has_risen(cases: Sequence[CaseRuns], alpha: float) -> bool:
    """Whether chance does not explain that so many runs passed after."""
    return drop_p_value([CaseRuns(case.after, case.before) for case in cases]) <= alpha


def _not_compared(name: str, cases: int) -> AssertionComparison:
    nothing = RateCount(0, 0)
    return AssertionComparison(name, DropVerdict.NOT_COMPARED, nothing, nothing, 0, cases, None, 1.0, 1.0)


def _add_up(counts: Sequence[RateCount]) -> RateCount:
    return RateCount(sum(count.passed for count in counts), sum(count.runs for count in counts))
