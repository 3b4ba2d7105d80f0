"""A drop of a rate is called one only if chance does not explain it: computed over all outcomes, not simulated."""

from __future__ import annotations

import math
from itertools import product

import pytest

from traceforge.statistics import rate_comparison
from traceforge.statistics.rate_comparison import CaseRuns, drop_p_value, rate_difference, smallest_drop_p_value
from traceforge.statistics.rate_interval import RateCount, binomial_probability

PASS, FAIL = RateCount(1, 1), RateCount(0, 1)


def _case(passed_before: int, before: int, passed_after: int, after: int) -> CaseRuns:
    return CaseRuns(RateCount(passed_before, before), RateCount(passed_after, after))


def _pairs(kept: int, lost: int, gained: int, failed: int) -> list[CaseRuns]:
    """Cases of one run each: that passed on both sides, before only, after only, on none."""
    return [
        *[CaseRuns(PASS, PASS)] * kept,
        *[CaseRuns(PASS, FAIL)] * lost,
        *[CaseRuns(FAIL, PASS)] * gained,
        *[CaseRuns(FAIL, FAIL)] * failed,
    ]


@pytest.mark.parametrize(
    ("counts", "chance"),
    [  # scipy 1.17.1: fisher_exact([[after, its failures], [before, its failures]], alternative="less")
        ((9, 10, 5, 10), 0.07043343653250773),
        ((10, 10, 7, 10), 0.10526315789473684),
        ((28, 30, 20, 30), 0.01057262317176715),
        ((90, 100, 80, 100), 0.03671379486068818),
        ((3, 5, 3, 5), 0.7380952380952381),
    ],
)
def test_one_case_is_fishers_exact_test(counts: tuple[int, int, int, int], chance: float) -> None:
    """The chance agrees with scipy's."""
    assert chance == pytest.approx(drop_p_value([_case(*counts)]), rel=1e-9)


@pytest.mark.parametrize(
    ("lost", "gained", "chance"),
    [
        (8, 2, 0.0546875),
        (5, 0, 0.03125),
        (12, 7, 0.1796417236328125),
    ],  # scipy: binomtest(gained, lost + gained, alternative="less")
)
def test_cases_of_one_run_are_mcnemars_exact_test(lost: int, gained: int, chance: float) -> None:
    """Only the cases that changed count, however many did not."""
    assert chance == pytest.approx(drop_p_value(_pairs(0, lost, gained, 0)), rel=1e-9)
    assert chance == pytest.approx(drop_p_value(_pairs(50, lost, gained, 9)), rel=1e-9)


def test_several_runs_of_several_cases_are_compared_case_by_case() -> None:
    """Summed over every outcome of each case, with scipy's hypergeometric distribution."""
    cases = [_case(8, 10, 5, 10), _case(3, 4, 1, 6), _case(10, 10, 9, 10)]

    assert 0.02000221141088014 == pytest.approx(drop_p_value(cases), rel=1e-9)


def test_cases_that_differ_do_not_hide_a_drop() -> None:
    """A hard case that has more runs after than before makes no drop, and an easy one hides none."""
    more_of_the_hard_case = [_case(10, 10, 10, 10), _case(0, 10, 0, 90)]
    drop_in_the_easy_case = [_case(60, 60, 150, 180), _case(0, 60, 0, 6)]

    assert 1.0 == pytest.approx(drop_p_value(more_of_the_hard_case))
    assert 0.0 == pytest.approx(rate_difference(more_of_the_hard_case).change)
    assert drop_p_value(drop_in_the_easy_case) < 0.001


@pytest.mark.parametrize(("before", "after"), [(5, 5), (12, 12), (20, 8)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8, 0.9, 0.97])
def test_without_a_drop_one_is_found_in_one_of_twenty_comparisons_at_most(
    before: int, after: int, rate: float
) -> None:
    """The exact chance that the test is at 5 % or below, at equal rates."""
    found = math.fsum(
        binomial_probability(first, before, rate) * binomial_probability(second, after, rate)
        for first, second in product(range(before + 1), range(after + 1))
        if drop_p_value([_case(first, before, second, after)]) <= 0.05
    )

    assert found <= 0.05


def test_a_real_drop_is_found() -> None:
    """With 100 runs a side, a drop from 95 % to 80 % is found in nine of ten comparisons."""
    found = math.fsum(
        binomial_probability(first, 100, 0.95) * binomial_probability(second, 100, 0.8)
        for first, second in product(range(85, 101), range(60, 101))
        if drop_p_value([_case(first, 100, second, 100)]) <= 0.05
    )

    assert found > 0.9


def test_very_many_runs_are_compared_by_the_normal_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is close to the exact value."""
    cases = [_case(90, 100, 84, 100), _case(55, 100, 50, 100), _case(99, 100, 97, 100)]
    exact = drop_p_value(cases)
    monkeypatch.setattr(rate_comparison, "EXACT_RUNS_MAX", 10)

    assert exact == pytest.approx(drop_p_value(cases), abs=0.002)
    assert 1.0 == drop_p_value([_case(100, 100, 100, 100)])


def test_a_few_runs_cannot_show_a_drop() -> None:
    """Three of three runs before and none of three after: that happens by chance in one of twenty comparisons."""
    assert 0.05 == pytest.approx(smallest_drop_p_value([_case(3, 3, 3, 3)]))
    assert smallest_drop_p_value([_case(4, 4, 4, 4)]) < 0.05


def test_the_limits_of_a_difference_are_wrong_about_as_often_as_stated() -> None:
    """At most 7.5 % for each limit, and 5 % on average, for ten runs a side and differences of at most 0.3."""
    runs = 10
    intervals = {
        (first, second): rate_difference([_case(first, runs, second, runs)]).interval
        for first, second in product(range(runs + 1), repeat=2)
    }
    rates = [step / 20 for step in range(1, 20)]
    wrong = [
        math.fsum(
            binomial_probability(first, runs, before) * binomial_probability(second, runs, after)
            for (first, second), interval in intervals.items()
            if after - before > interval.high + 1e-12
        )
        for before, after in product(rates, repeat=2)
        if abs(after - before) <= 0.3 + 1e-12
    ]

    assert max(wrong) <= 0.075
    assert sum(wrong) / len(wrong) <= 0.05


def test_the_limits_of_a_difference_of_pairs_are_wrong_about_as_often_as_stated() -> None:
    """At most 11 % for each limit, and 5 % on average, for twenty pairs and differences of at most 0.3."""
    pairs = 20
    outcomes = [(lost, gained) for lost in range(pairs + 1) for gained in range(pairs + 1 - lost)]
    intervals = {
        (lost, gained): rate_difference(_pairs(pairs - lost - gained, lost, gained, 0)).interval
        for lost, gained in outcomes
    }
    wrong = []
    for loss, gain in product([step / 10 for step in range(6)], repeat=2):
        if loss + gain <= 1.0 and abs(gain - loss) <= 0.3 + 1e-12:
            wrong.append(
                math.fsum(
                    _chance_of_changes(pairs, lost, gained, loss, gain)
                    for (lost, gained), interval in intervals.items()
                    if gain - loss > interval.high + 1e-12
                )
            )

    assert max(wrong) <= 0.11
    assert sum(wrong) / len(wrong) <= 0.05


def _chance_of_changes(pairs: int, lost: int, gained: int, loss: float, gain: float) -> float:
    ways = math.comb(pairs, lost) * math.comb(pairs - lost, gained)
    return ways * loss**lost * gain**gained * max(0.0, 1.0 - loss - gain) ** (pairs - lost - gained)


def test_the_interval_holds_the_difference_that_was_seen() -> None:
    """Also where both rates are extreme, and few runs pull the interval to the middle."""
    for counts in ((1, 1, 0, 1), (0, 1, 1, 1), (10, 10, 0, 10), (5, 10, 5, 10)):
        difference = rate_difference([_case(*counts)])

        assert difference.interval.low <= difference.change <= difference.interval.high
        assert -1.0 <= difference.interval.low <= difference.interval.high <= 1.0
