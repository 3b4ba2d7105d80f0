"""The interval after an early stop holds the true rate as often as it promises: computed, not simulated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pytest

from traceforge.statistics.pass_rate import PassRateState, PassRateTest, PassRateVerdict
from traceforge.statistics.rate_interval import Interval, RateCount, exact_interval
from traceforge.statistics.stopping_paths import PathEnd, build_table, probability_of_ends

TESTS = [
    PassRateTest(pass_rate=0.9, runs_max=60),
    PassRateTest(pass_rate=0.9, alpha=0.01, beta=0.2, runs_max=40),
    PassRateTest(pass_rate=1.0, runs_max=40),
    PassRateTest(pass_rate=0.6, margin=0.3, runs_max=30),
    PassRateTest(pass_rate=0.2, margin=0.2, runs_max=30),
]
RATES = [0.0, 0.05, 0.2, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0]


class _End(NamedTuple):
    """A count at which a test can end, with its state, its interval and the weight of its paths."""

    paths: PathEnd
    state: PassRateState
    interval: Interval


@cache
def _ends(test: PassRateTest) -> list[_End]:
    table = build_table(test.boundaries, test.runs_max)
    states = [
        (end, PassRateState(test, end.passed, end.runs)) for end in (*table.passing, *table.failing, *table.running)
    ]
    return [_End(count, state, state.interval) for count, state in states]


def _chance(test: PassRateTest, ends: Iterable[_End], rate: float) -> float:
    return probability_of_ends((end.paths for end in ends), test.boundaries.reference_rate, rate)


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_each_limit_is_wrong_no_more_often_than_promised(test: PassRateTest) -> None:
    """At every true rate, the lower limit is above it with a chance of beta at most, the upper below with alpha."""
    ends = _ends(test)
    above = [_chance(test, [end for end in ends if end.interval.low > rate], rate) for rate in RATES]
    below = [_chance(test, [end for end in ends if end.interval.high < rate], rate) for rate in RATES]

    assert max(above) <= test.beta + 1e-9
    assert max(below) <= test.alpha + 1e-9


def test_the_limits_are_wrong_about_as_often_as_promised() -> None:
    """The interval is no wider than it must be: some rates are below the lower limit with a chance near beta."""
    test = PassRateTest(pass_rate=0.9, runs_max=60)
    ends = _ends(test)
    above = [_chance(test, [end for end in ends if end.interval.low > rate], rate) for rate in (0.5, 0.7, 0.8)]

    assert max(above) > 0.04


def test_the_interval_of_a_fixed_number_of_runs_is_wrong_too_often() -> None:
    """The interval of Clopper and Pearson does not survive an early stop, which is why it is not used."""
    test = PassRateTest(pass_rate=0.9, runs_max=60)
    rate = 0.86
    missed = [end for end in _ends(test) if exact_interval(RateCount(end.state.passed, end.state.runs)).high < rate]

    assert _chance(test, missed, rate) > 0.05


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_the_interval_agrees_with_the_verdict(test: PassRateTest) -> None:
    """After a pass the lower limit is at least p - m, after a failure the upper limit is at most p."""
    ends = _ends(test)
    lows = [end.interval.low for end in ends if end.state.verdict is PassRateVerdict.PASSED]
    highs = [end.interval.high for end in ends if end.state.verdict is PassRateVerdict.FAILED]

    assert all(low >= test.failing_rate - 1e-9 for low in lows)
    assert all(high <= test.pass_rate + 1e-9 for high in highs)


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_the_interval_holds_the_share_that_passed(test: PassRateTest) -> None:
    """The limits are on both sides of the share of passed runs."""
    ends = _ends(test)

    assert all(end.interval.low <= end.state.passed / end.state.runs <= end.interval.high for end in ends)


def test_without_an_early_stop_it_is_the_interval_of_a_fixed_number() -> None:
    """As long as no boundary could be reached, nothing has stopped early, and both intervals are the same."""
    test = PassRateTest(pass_rate=0.9, runs_max=4)

    state = PassRateState(test, 3, 4)

    expected = exact_interval(RateCount(3, 4))
    assert [expected.low, expected.high] == pytest.approx([state.interval.low, state.interval.high])


def test_29_passed_runs_rule_out_a_rate_of_nine_tenths() -> None:
    """Where all runs passed, the upper limit is 1 and the lower one the 29th root of 5 %."""
    interval = PassRateState(PassRateTest(pass_rate=1, runs_max=100), 29, 29).interval

    assert [0.05 ** (1 / 29), 1.0] == pytest.approx([interval.low, interval.high])


def test_before_the_first_run_every_rate_is_possible() -> None:
    """No run says nothing."""
    interval = PassRateTest(pass_rate=0.9, runs_max=100).start().interval

    assert (0.0, 1.0) == (interval.low, interval.high)
