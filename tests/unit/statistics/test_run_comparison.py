"""Two sets of runs, assertion by assertion: a drop is real, and what was not compared is not clean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import pytest

from traceforge.statistics.pass_rate import PassRateTest
from traceforge.statistics.rate_interval import RateCount, binomial_probability
from traceforge.statistics.run_comparison import CaseCounts, DropVerdict, adjust_p_values, compare_runs
from traceforge.statistics.stopping_paths import build_table


def _counts(passed: int, runs: int) -> CaseCounts:
    return {"": RateCount(passed, runs)}


def _verdicts(before: Mapping[str, CaseCounts], after: Mapping[str, CaseCounts]) -> dict[str, DropVerdict]:
    return {entry.name: entry.verdict for entry in compare_runs(before, after).assertions}


def test_a_drop_that_chance_does_not_explain_is_found() -> None:
    """Its counts, its difference and its chance are in the result."""
    comparison = compare_runs({"polite": _counts(29, 30)}, {"polite": _counts(18, 30)})

    (drop,) = comparison.drops
    assert drop.difference is not None
    assert (29, 18, 1, 0) == (drop.before.passed, drop.after.passed, drop.cases, drop.cases_left_out)
    assert -11 / 30 == pytest.approx(drop.difference.change)
    assert drop.difference.interval.high < 0
    assert drop.adjusted_p_value == drop.p_value < 0.01


def test_a_difference_that_chance_explains_is_no_drop() -> None:
    """Two failures more in thirty runs happen without a change."""
    assert {"polite": DropVerdict.NO_DROP} == _verdicts({"polite": _counts(29, 30)}, {"polite": _counts(27, 30)})


def test_a_rise_is_no_drop() -> None:
    """The other direction never fails."""
    assert {"polite": DropVerdict.NO_DROP} == _verdicts({"polite": _counts(3, 30)}, {"polite": _counts(30, 30)})


def test_many_assertions_need_more_evidence_each() -> None:
    """A drop with a chance of 3.7 % is one among one assertion, and chance among two."""
    before, after = _counts(90, 100), _counts(80, 100)

    assert {"a": DropVerdict.DROP} == _verdicts({"a": before}, {"a": after})
    assert {"a": DropVerdict.NO_DROP, "b": DropVerdict.NO_DROP} == _verdicts(
        {"a": before, "b": before}, {"a": after, "b": before}
    )


def test_holms_correction() -> None:
    """The smallest chance counts four times, the next three times; none is below a smaller one."""
    assert [0.04, 0.06, 0.06, 0.5] == pytest.approx(adjust_p_values([0.01, 0.02, 0.03, 0.5]))
    assert [0.06, 0.04, 0.06, 0.5] == pytest.approx(adjust_p_values([0.03, 0.01, 0.02, 0.5]))
    assert [1.0, 1.0] == adjust_p_values([0.6, 0.7])
    assert [] == adjust_p_values([])


def test_several_assertions_without_a_drop_show_one_in_one_of_twenty_comparisons_at_most() -> None:
    """The exact chance that any of three unchanged assertions is called a drop."""
    runs, rate = 12, 0.8
    chances = {
        (before, after): binomial_probability(before, runs, rate) * binomial_probability(after, runs, rate)
        for before, after in product(range(runs + 1), repeat=2)
    }
    # A drop of any of three needs a chance of at most 5 % / 3 for one of them.
    found_by_one = math.fsum(
        chance
        for (before, after), chance in chances.items()
        if compare_runs({"a": _counts(before, runs)}, {"a": _counts(after, runs)}, alpha=0.05 / 3).drops
    )

    assert 0 < 1 - (1 - found_by_one) ** 3 <= 0.05


def test_runs_that_a_pass_rate_stopped_show_a_drop_as_rarely() -> None:
    """Over all ends of both tests, at a rate where early stops mislead; without the factor it is more."""
    test = PassRateTest(pass_rate=0.8, margin=0.2, runs_max=50)
    table = build_table(test.boundaries, test.runs_max)
    rate = 0.7
    ends = [(end, table.probability([end], rate)) for end in (*table.passing, *table.failing, *table.running)]
    ends = [(end, chance) for end, chance in ends if chance > 1e-3]
    found = {"fixed": 0.0, "stopped": 0.0}
    for (first, first_chance), (second, second_chance) in product(ends, repeat=2):
        sides = {"a": _counts(first.passed, first.runs)}, {"a": _counts(second.passed, second.runs)}
        for kind, stopped in (("fixed", ()), ("stopped", ("a",))):
            found[kind] += first_chance * second_chance * bool(compare_runs(*sides, stopped=stopped).drops)

    assert found["stopped"] <= 0.05 < found["fixed"]


def test_runs_that_could_not_show_a_drop_are_not_clean() -> None:
    """Two of two and one of two: even no passed run would have proved nothing."""
    comparison = compare_runs({"a": _counts(2, 2)}, {"a": _counts(1, 2)})

    assert [DropVerdict.TOO_FEW_RUNS] == [entry.verdict for entry in comparison.assertions]
    assert comparison.assertions == comparison.unchecked


def test_what_never_passed_cannot_drop() -> None:
    """Also with few runs, because nothing was there to lose."""
    assert {"a": DropVerdict.NO_DROP} == _verdicts({"a": _counts(0, 2)}, {"a": _counts(0, 2)})


def test_an_assertion_of_one_set_only_is_not_compared() -> None:
    """A removed and a new assertion are listed, and are not clean."""
    comparison = compare_runs({"old": _counts(9, 9)}, {"new": _counts(9, 9)})

    assert [("old", DropVerdict.NOT_COMPARED, 1), ("new", DropVerdict.NOT_COMPARED, 1)] == [
        (entry.name, entry.verdict, entry.cases_left_out) for entry in comparison.assertions
    ]
    assert comparison.assertions == comparison.unchecked


def test_cases_of_one_set_only_are_left_out_and_counted() -> None:
    """New failing cases make no drop; a case without runs on one side is not compared."""
    ten = RateCount(10, 10)
    before = {"a": {"kept": ten, "removed": ten, "empty": ten}}
    after = {"a": {"kept": ten, "added": RateCount(0, 50), "empty": RateCount(0, 0)}}

    (entry,) = compare_runs(before, after).assertions

    assert (DropVerdict.NO_DROP, 1, 3, 10) == (entry.verdict, entry.cases, entry.cases_left_out, entry.after.runs)


def test_a_data_set_is_compared_case_by_case() -> None:
    """Ten of a hundred cases that passed before and fail now are a drop, also if ninety did not change."""
    before = {"a": {str(number): RateCount(1, 1) for number in range(100)}}
    after = {"a": {str(number): RateCount(int(number >= 10), 1) for number in range(100)}}

    assert {"a": DropVerdict.DROP} == _verdicts(before, after)
