"""`checks/runs/judgement.py`: a check with a pass rate is judged by the test of `statistics`."""

from __future__ import annotations

from traceforge.checks.assertions.outcome import Outcome, Verdict
from traceforge.checks.formats.check_file import make_check, read_check_file
from traceforge.checks.runs.check_plan import PlannedCheck
from traceforge.checks.runs.check_results import CheckOutcome, CheckReport, CheckResult, RunResult
from traceforge.checks.runs.judgement import judge_runs
from traceforge.report.check_text import check_lines

CHECK = "name: a\nrequest: {model: m, prompt: p}\nassertions:\n  - {type: contains, value: x}\n"
PASSED = RunResult("good", [Outcome(Verdict.PASSED, "contains x", "x")])
FAILED = RunResult("bad", [Outcome(Verdict.FAILED, "contains x", "y")])
NO_ANSWER = RunResult("lost", error="lost: HTTP status 500")


def _judge(fields: str, *runs: RunResult) -> CheckResult:
    (definition,) = read_check_file((CHECK + fields).encode(), "a.yaml")
    return judge_runs(PlannedCheck(definition, make_check(definition, None, "")), iter(runs))


def test_without_a_pass_rate_every_run_must_pass() -> None:
    """One failed run of many fails the check."""
    assert CheckOutcome.PASSED is _judge("", *[PASSED] * 3).outcome
    assert CheckOutcome.FAILED is _judge("", *[PASSED] * 30, FAILED).outcome


def test_a_live_check_gives_up_after_three_calls_in_a_row_without_an_answer() -> None:
    """With and without a pass rate; recorded calls cost nothing, so all are looked at."""
    runs = [PASSED, NO_ANSWER, NO_ANSWER, PASSED, *[NO_ANSWER] * 10]

    assert [7, 7] == [len(_judge(fields, *runs).runs) for fields in ("", "pass_rate: 0.9\n")]
    assert CheckOutcome.UNCHECKED is _judge("", *runs).outcome


def test_a_check_passes_as_soon_as_it_is_sure() -> None:
    """26 passed runs are enough for 0.9, one less is not; a failed run may be among more of them."""
    assert CheckOutcome.PASSED is _judge("pass_rate: 0.9\n", *[PASSED] * 26).outcome
    assert CheckOutcome.UNCHECKED is _judge("pass_rate: 0.9\n", *[PASSED] * 25).outcome
    assert CheckOutcome.PASSED is _judge("pass_rate: 0.9\n", FAILED, *[PASSED] * 32).outcome


def test_no_run_is_taken_after_the_verdict() -> None:
    """A live run costs money."""
    result = _judge("pass_rate: 0.9\n", *[PASSED] * 26, *[FAILED] * 30)

    assert result.rate is not None
    assert (CheckOutcome.PASSED, 26, 26) == (result.outcome, len(result.runs), result.rate.runs)


def test_a_pass_rate_of_one_allows_no_failure() -> None:
    """It needs 29 runs."""
    assert CheckOutcome.FAILED is _judge("pass_rate: 1\n", *[PASSED] * 28, FAILED).outcome
    assert CheckOutcome.UNCHECKED is _judge("pass_rate: 1\n", *[PASSED] * 28).outcome
    assert CheckOutcome.PASSED is _judge("pass_rate: 1\n", *[PASSED] * 29).outcome


def test_an_undecided_check_says_how_many_runs_it_takes() -> None:
    """Exit code 3."""
    result = _judge("pass_rate: 0.9\nruns: 30\n", *([PASSED] * 5 + [FAILED]) * 10)

    assert CheckOutcome.UNCHECKED is result.outcome
    assert (
        "undecided after 30 runs, of which 25 passed: a pass rate of 0.9 with a margin of 0.1 needs 26 runs at least,"
        " and about 76 on average"
    ) == result.reason
    assert 3 == CheckReport([result]).exit_code


def test_a_run_without_an_answer_counts_neither_way() -> None:
    """A provider's error is no failed run, and no passed one."""
    result = _judge("pass_rate: 1\n", NO_ANSWER, *[PASSED] * 28, NO_ANSWER)

    assert result.rate is not None
    assert (CheckOutcome.UNCHECKED, 28, 28) == (result.outcome, result.rate.passed, result.rate.runs)


def test_the_report_shows_which_rates_fit() -> None:
    """Rounded to the outside, in the words of `check-live`."""
    lines = list(check_lines(CheckReport([_judge("pass_rate: 0.9\n", *[PASSED] * 26)])))

    assert "    26 of 26 counted runs passed: a true rate of 89 % or more fits" in lines
