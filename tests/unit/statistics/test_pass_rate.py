"""The test of a pass rate keeps its error rates, and stops early. Every chance is computed, none is simulated."""

from __future__ import annotations

import math

import pytest

from traceforge.statistics.pass_rate import PassRateState, PassRateTest, PassRateVerdict

# Strict and lenient rates, fine and coarse margins, uneven errors; caps from far too small to never reached.
TESTS = [
    PassRateTest(pass_rate=pass_rate, margin=margin, alpha=alpha, beta=beta, runs_max=runs_max)
    for pass_rate, margin, alpha, beta in [
        (1.0, 0.1, 0.05, 0.05),
        (1.0, 1.0, 0.05, 0.05),
        (0.99, 0.05, 0.05, 0.05),
        (0.95, 0.1, 0.01, 0.1),
        (0.9, 0.1, 0.05, 0.05),
        (0.8, 0.3, 0.2, 0.02),
        (0.5, 0.1, 0.05, 0.05),
        (0.3, 0.3, 0.05, 0.05),
        (0.15, 0.1, 0.05, 0.05),
    ]
    for runs_max in (5, 76, 300)
]


def _run(test: PassRateTest, results: list[bool]) -> PassRateState:
    state = test.start()
    for passed in results:
        state = state.add(passed)
    return state


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_a_good_behaviour_fails_with_a_chance_of_alpha_at_most(test: PassRateTest) -> None:
    """At the pass rate and above it, the exact chance to fail is at most alpha, at every cap."""
    rates = [test.pass_rate + (1.0 - test.pass_rate) * step / 4 for step in range(5)]

    assert all(test.outcomes_at(rate).failed <= test.alpha + 1e-12 for rate in rates)


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_a_bad_behaviour_passes_with_a_chance_of_beta_at_most(test: PassRateTest) -> None:
    """At the pass rate less the margin and below it, the exact chance to pass is at most beta, at every cap."""
    rates = [test.failing_rate * step / 4 for step in range(5)]

    assert all(test.outcomes_at(rate).passed <= test.beta + 1e-12 for rate in rates)


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_the_outcomes_add_up_to_one(test: PassRateTest) -> None:
    """Every test passes, fails or stays undecided."""
    outcomes = [test.outcomes_at(rate) for rate in (0.0, 0.37, 0.9, 1.0)]

    assert [1.0] * 4 == pytest.approx([entry.passed + entry.failed + entry.undecided for entry in outcomes])


def test_outcomes_agree_with_every_sequence_of_results() -> None:
    """The chances of `outcomes_at` are those of all sequences of results, run one by one."""
    test = PassRateTest(pass_rate=0.8, margin=0.4, alpha=0.2, beta=0.2, runs_max=10)
    rate = 0.7
    chances = dict.fromkeys(PassRateVerdict, 0.0)
    runs = 0.0
    for number in range(2**10):
        state = _run(test, [bool(number >> place & 1) for place in range(10)])
        passed = number.bit_count()
        chance = rate**passed * (1 - rate) ** (10 - passed)
        chances[state.verdict] += chance
        runs += chance * state.runs

    outcomes = test.outcomes_at(rate)

    assert [0.0, outcomes.passed, outcomes.failed, outcomes.undecided, outcomes.mean_runs] == pytest.approx(
        [
            chances[PassRateVerdict.RUNNING],
            chances[PassRateVerdict.PASSED],
            chances[PassRateVerdict.FAILED],
            chances[PassRateVerdict.UNDECIDED],
            runs,
        ]
    )
    assert min(outcomes.passed, outcomes.failed, outcomes.undecided) > 0.01


def test_with_a_pass_rate_of_one_any_failure_fails() -> None:
    """A rate of 1 allows no failure, also not after many passed runs."""
    test = PassRateTest(pass_rate=1, runs_max=100)

    assert PassRateVerdict.FAILED is _run(test, [False]).verdict
    assert PassRateVerdict.FAILED is _run(test, [True] * 28 + [False]).verdict


def test_with_a_pass_rate_of_one_29_runs_pass() -> None:
    """0.9 ** 29 is 4.7 %, and 0.9 ** 28 is still 5.2 %: Wald's usual boundary would stop one run too early."""
    test = PassRateTest(pass_rate=1, runs_max=100)

    assert PassRateVerdict.RUNNING is _run(test, [True] * 28).verdict
    assert PassRateVerdict.PASSED is _run(test, [True] * 29).verdict
    assert 29 == test.runs_to_pass


def test_the_mean_number_of_runs_is_below_that_of_a_fixed_test() -> None:
    """For 0.9 and a margin of 0.1: about 76 runs, where a test with a fixed number takes 135."""
    plan = PassRateTest(pass_rate=0.9, runs_max=250).plan()

    assert 135 == plan.fixed_runs
    assert 76.4 == pytest.approx(plan.at_pass_rate.mean_runs, abs=0.05)
    assert 66.6 == pytest.approx(plan.at_failing_rate.mean_runs, abs=0.05)


def test_a_plan_advises_the_smallest_cap_that_leaves_few_undecided() -> None:
    """At the advised cap at most 1 % stay undecided at both rates; one run less, and it is more."""
    advised = PassRateTest(pass_rate=0.9, runs_max=10).plan().runs_advised
    assert advised is not None
    at_cap = PassRateTest(pass_rate=0.9, runs_max=advised).plan()
    below_cap = PassRateTest(pass_rate=0.9, runs_max=advised - 1).plan()

    assert 253 == advised
    assert max(at_cap.at_pass_rate.undecided, at_cap.at_failing_rate.undecided) <= 0.01
    assert max(below_cap.at_pass_rate.undecided, below_cap.at_failing_rate.undecided) > 0.01


def test_a_test_is_undecided_at_its_cap() -> None:
    """A test that is not sure at its cap is undecided, and was running one run before."""
    test = PassRateTest(pass_rate=0.9, runs_max=10)

    assert PassRateVerdict.RUNNING is _run(test, [True] * 9).verdict
    assert PassRateVerdict.UNDECIDED is _run(test, [True] * 10).verdict


def test_a_higher_cap_does_not_change_a_verdict() -> None:
    """The boundaries do not depend on the cap, so an undecided test can go on with a higher one."""
    results = [True] * 26
    low, high = (PassRateTest(pass_rate=0.9, runs_max=runs_max) for runs_max in (26, 1000))

    assert _run(low, results).verdict is _run(high, results).verdict is PassRateVerdict.PASSED


def test_runs_after_the_verdict_change_nothing() -> None:
    """A run that was under way when the test stopped does not count."""
    state = _run(PassRateTest(pass_rate=1, runs_max=100), [False])

    assert state == state.add(True)
    assert 1 == state.runs


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pass_rate": 0.0}, "the pass rate must be above 0 and at most 1, not 0.0"),
        ({"pass_rate": 1.01}, "the pass rate must be above 0 and at most 1, not 1.01"),
        ({"pass_rate": math.nan}, "the pass rate must be above 0 and at most 1, not nan"),
        ({"pass_rate": 0.05}, "the margin must be from 0.01 to the pass rate, not 0.1"),
        ({"margin": 0.0}, "the margin must be from 0.01 to the pass rate, not 0.0"),
        ({"alpha": 0.0}, "alpha must be above 0 and below 0.5, not 0.0"),
        ({"beta": 0.5}, "beta must be above 0 and below 0.5, not 0.5"),
        ({"runs_max": 0}, "the number of runs must be from 1 to 10000, not 0"),
        ({"runs_max": 10_001}, "the number of runs must be from 1 to 10000, not 10001"),
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, float], message: str) -> None:
    """A test that could promise nothing is not made."""
    arguments = {"pass_rate": 0.9, "runs_max": 100} | values

    with pytest.raises(ValueError, match="must be") as caught:
        PassRateTest(**arguments)  # type: ignore[arg-type]
    assert message == str(caught.value)
