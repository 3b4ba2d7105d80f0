"""`checks/runs/report_comparison.py`: two reports of checks, compared assertion by assertion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from traceforge.checks.runs.report_comparison import CheckDriftReport, compare_reports
from traceforge.checks.runs.stored_reports import StoredReport, read_report
from traceforge.errors import CannotRead
from traceforge.report.check_text import drift_lines
from traceforge.statistics.run_comparison import DropVerdict

TRACE_ID = "0b9f1f0e-6a53-4c8e-9f57-1d2f3a4b5c6d"


def _run(reference: str, **verdicts: str) -> dict[str, Any]:
    assertions = [{"name": name, "verdict": verdict, "type": "x"} for name, verdict in verdicts.items()]
    return {"reference": reference, "verdict": "passed", "error": "", "assertions": assertions}


def _check(name: str, passed: int, runs: int, *, case: str = "", label: str = "regex") -> dict[str, Any]:
    """A check of this many runs, of which some passed; other fields of a report stand beside what is read."""
    verdicts = ["passed"] * passed + ["failed"] * (runs - passed)
    stored = [_run(f"{name}{case}{number}", **{label: verdict}) for number, verdict in enumerate(verdicts)]
    return {"id": "x", "file": "a.yaml", "line": 1, "name": name, "case": case, "runs": stored}


def _report(*checks: dict[str, Any]) -> StoredReport:
    return read_report(json.dumps({"exit_code": 0, "checks": checks, "findings": []}).encode(), "a.json")


def _compare(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> CheckDriftReport:
    return compare_reports(_report(*before), _report(*after), 0.05)


def _verdicts(report: CheckDriftReport) -> dict[str, DropVerdict]:
    return {entry.name: entry.verdict for entry in report.comparison.assertions}


def test_a_real_drop_fails() -> None:
    """Exit code 1, and the row says from what to what."""
    report = _compare(
        [_check("tone", 29, 30), _check("safe", 30, 30)], [_check("tone", 18, 30), _check("safe", 29, 30)]
    )

    assert {"a.yaml::tone: regex": DropVerdict.DROP, "a.yaml::safe: regex": DropVerdict.NO_DROP} == _verdicts(report)
    assert 1 == report.exit_code
    assert [
        "RESULT   BEFORE  AFTER  CHANGE  RANGE           ASSERTION",
        "DROPPED  29/30   18/30  -37 %   -50 % to -18 %  a.yaml::tone: regex",
        "no drop  30/30   29/30  -3 %    -12 % to +6 %   a.yaml::safe: regex",
        "2 assertions: 1 dropped, 1 without a drop",
    ] == list(drift_lines(report))


def test_a_difference_that_chance_explains_passes() -> None:
    """Exit code 0."""
    assert 0 == _compare([_check("tone", 29, 30)], [_check("tone", 27, 30)]).exit_code


def test_what_was_not_compared_is_not_green() -> None:
    """An assertion of one report only, too few runs, and reports without an assertion: exit code 3."""
    renamed = _compare([_check("old", 30, 30)], [_check("new", 30, 30)])
    few = _compare([_check("tone", 1, 1)], [_check("tone", 1, 1)])
    nothing = _compare([], [])

    assert {DropVerdict.NOT_COMPARED} == set(_verdicts(renamed).values())
    assert {DropVerdict.TOO_FEW_RUNS} == set(_verdicts(few).values())
    assert [3, 3, 3] == [renamed.exit_code, few.exit_code, nothing.exit_code]
    assert ["0 assertions: nothing to compare: no check is in them"] == list(drift_lines(nothing))


def test_a_case_or_a_check_without_an_answer_is_not_green() -> None:
    """It may be the one that broke: in one report only, or without an answer in both."""
    cases = [_check("tone", 30, 30, case="case 1"), _check("tone", 0, 30, case="case 2")]
    fewer = _compare(cases, cases[:1])
    no_answer = _compare(
        [*cases[:1], _check("tone", 0, 0, case="case 2")], [*cases[:1], _check("tone", 0, 0, case="case 2")]
    )
    other = _compare([_check("tone", 30, 30), _check("safe", 0, 0)], [_check("tone", 30, 30), _check("safe", 0, 0)])

    assert [3, 3, 3] == [fewer.exit_code, no_answer.exit_code, other.exit_code]
    for report in (fewer, no_answer):
        assert {"a.yaml::tone: regex": DropVerdict.NO_DROP} == _verdicts(report)
        assert "1 comparison of a case not made: both reports must have an answer for it" in list(drift_lines(report))
    assert DropVerdict.NOT_COMPARED is _verdicts(other)["a.yaml::safe"]


def test_cases_are_compared_each_with_itself() -> None:
    """A hard case with more runs after than before is no drop."""
    before = [_check("tone", 20, 20, case="case 1"), _check("tone", 0, 5, case="case 2")]
    after = [_check("tone", 20, 20, case="case 1"), _check("tone", 0, 50, case="case 2")]

    assert {"a.yaml::tone: regex": DropVerdict.NO_DROP} == _verdicts(_compare(before, after))


def test_a_run_that_could_not_be_checked_does_not_count() -> None:
    """It is neither passed nor failed."""
    before, after = _check("tone", 20, 20), _check("tone", 20, 20)
    after["runs"] += [_run(f"lost{number}", regex="unchecked") for number in range(20)]

    (entry,) = _compare([before], [after]).comparison.assertions

    assert (20, 20) == (entry.after.passed, entry.after.runs)


def test_runs_that_a_pass_rate_stopped_need_more_evidence() -> None:
    """They may have stopped because they looked good or bad, so the same counts prove less."""
    before, after = _check("tone", 90, 100), _check("tone", 80, 100)
    stopped = {**after, "rate": {"passed": 80, "runs": 100, "low": 0.7, "high": 0.9}}

    assert 1 == _compare([before], [after]).exit_code
    assert 0 == _compare([before], [stopped]).exit_code


def test_an_answer_in_both_reports_counts_once() -> None:
    """It is no new evidence; a snapshot may have another answer under the same id, and does count."""
    before, after = _check("tone", 20, 20), _check("tone", 20, 20)
    for check in (before, after):
        check["runs"].append(_run(TRACE_ID, regex="failed"))

    report = _compare([before], [after])

    (entry,) = report.comparison.assertions
    assert (21, 20, 1) == (entry.before.runs, entry.after.runs, report.shared_answers)
    assert "1 answer in both reports: counted in the first one only" in list(drift_lines(report))


def test_assertions_of_one_name_are_told_apart() -> None:
    """By their order in the check."""
    check = {**_check("tone", 0, 0), "runs": [{"reference": "a", "assertions": [
        {"name": "contains", "verdict": "passed"}, {"name": "contains", "verdict": "failed"},
    ]}]}  # fmt: skip

    report = _compare([check], [check])

    assert ["a.yaml::tone: contains", "a.yaml::tone: contains (2)"] == list(_verdicts(report))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a report of checks: "),
        (b"[]", "not a report of checks: must be object, got array at $"),
        (b"{}", "not a report of checks: required field checks is missing at $"),
        (
            b'{"checks": [{"file": 3, "name": "a", "case": "", "runs": []}]}',
            "must be string, got number at $.checks[0]",
        ),
    ],
)
def test_a_file_that_is_no_report_is_refused(data: bytes, message: str) -> None:
    """The message says why, and the hint how to write one."""
    with pytest.raises(CannotRead) as caught:
        read_report(data, "a.json")

    assert message in caught.value.message
    assert "check run --json" in caught.value.hint
