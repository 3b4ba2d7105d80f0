"""Two sets of values, such as latencies: how far apart they are, and whether chance explains it."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from traceforge.statistics.measure_comparison import compare_measures

MANY_BEFORE = [float((number * 37) % 101) for number in range(60)]
MANY_AFTER = [float((number * 53) % 101) + 12 for number in range(50)]


@pytest.mark.parametrize(
    ("before", "after", "chance"),
    [  # scipy 1.17.1: mannwhitneyu(after, before), exact; with ties, every permutation of the ranks; then asymptotic
        ([1.2, 3.4, 2.2, 5.1, 4.0, 2.9, 3.3], [4.4, 5.9, 3.8, 6.1, 7.2, 5.0, 4.9, 6.6], 0.005905205905205905),
        ([1, 2, 2, 3, 3, 3, 4], [2, 3, 4, 4, 5, 5], 0.10023310023310024),
        (MANY_BEFORE, MANY_AFTER, 0.07706161334148959),
        ([round(n / 10) for n in MANY_BEFORE], [round(n / 10) for n in MANY_AFTER], 0.09725924783315544),
    ],
)
def test_the_chance_is_that_of_mann_and_whitney(before: list[float], after: list[float], chance: float) -> None:
    """It agrees with scipy's, in both directions."""
    assert chance == pytest.approx(compare_measures(before, after).p_value, rel=1e-9)
    assert chance == pytest.approx(compare_measures(after, before).p_value, rel=1e-9)


def test_the_shift_is_the_typical_difference() -> None:
    """The median of all differences, which one extreme value does not move."""
    before, after = [10.0, 11.0, 12.0, 13.0, 14.0], [20.0, 21.0, 22.0, 23.0, 1e9]

    difference = compare_measures(before, after)

    assert (12.0, 22.0, 10.0) == (difference.before, difference.after, difference.shift)


@pytest.mark.parametrize(("before", "after"), [(5, 4), (3, 6), (6, 4)])
def test_each_limit_is_wrong_in_one_of_twenty_comparisons_at_most(before: int, after: int) -> None:
    """Over every order in which values of one distribution can come; only the order decides."""
    values = range(before + after)
    orders = list(combinations(values, after))
    too_high = too_low = 0
    for chosen in orders:
        interval = compare_measures([value for value in values if value not in chosen], list(chosen)).interval
        assert interval is not None
        too_high += interval.low > 0
        too_low += interval.high < 0

    assert 0 < too_high <= 0.05 * len(orders)
    assert 0 < too_low <= 0.05 * len(orders)


def test_many_values_have_nearly_the_limits_of_few() -> None:
    """Where the normal distribution takes over, the limits do not jump: 15 and 15 values are exact, 16 are not."""
    few = compare_measures([n * 1.0 for n in range(15)], [n + 0.5 for n in range(15)]).interval
    more = compare_measures([n * 15 / 16 for n in range(16)], [n * 15 / 16 + 0.5 for n in range(16)]).interval

    assert few is not None
    assert more is not None
    assert [few.low, few.high] == pytest.approx([more.low, more.high], abs=0.6)


def test_too_few_values_have_no_interval() -> None:
    """Two values say nothing, and equal ones no more."""
    assert compare_measures([1.0], [2.0]).interval is None
    assert 1.0 == compare_measures([1.0], [2.0]).p_value
    assert 1.0 == compare_measures([3.0] * 40, [3.0] * 40).p_value


@pytest.mark.parametrize(("before", "after"), [([], [1.0]), ([1.0], []), ([math.nan], [1.0]), ([1.0], [math.inf])])
def test_sets_that_cannot_be_compared_are_refused(before: list[float], after: list[float]) -> None:
    """An empty set, and a value that is no number."""
    with pytest.raises(ValueError, match="needs finite values on both sides"):
        compare_measures(before, after)
