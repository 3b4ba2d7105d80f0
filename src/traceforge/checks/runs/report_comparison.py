"""Two stored reports of `traceforge check run --json`, compared assertion by assertion.

In: both reports. Out: for each assertion whether it holds less often in the second one. Never: counts a run
that could not be checked, or an answer that both reports hold as two.

An assertion is the same in both reports if its check has the same file and name, and its own name is the same.
Cases of a data set are paired by their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.checks.assertions.outcome import Verdict
from traceforge.checks.runs.stored_reports import StoredCheck, StoredReport
from traceforge.findings import ExitCode
from traceforge.statistics.rate_interval import RateCount
from traceforge.statistics.run_comparison import AssertionComparison, RunComparison, compare_runs

_AssertionCounts = dict[str, dict[str, RateCount]]  # how many runs passed, by assertion and case


class CheckDriftReport(NamedTuple):
    """What changed between two reports."""

    comparison: RunComparison
    shared_answers: int  # that both reports hold, and that count in the first one alone

    @property
    def exit_code(self) -> ExitCode:
        """1 for a drop, else 3 if an assertion or a case was not compared or no drop could have shown, else 0."""
        if self.comparison.drops:
            return ExitCode.FINDINGS
        entries = self.comparison.assertions
        is_whole = not self.comparison.unchecked and not any(entry.cases_left_out for entry in entries)
        return ExitCode.OK if entries and is_whole else ExitCode.UNCHECKED

    def to_json(self) -> JSONObject:
        return {
            "exit_code": int(self.exit_code),
            "alpha": self.comparison.alpha,
            "shared_answers": self.shared_answers,
            "assertions": [_comparison_json(entry) for entry in self.comparison.assertions],
        }


def compare_reports(before: StoredReport, after: StoredReport, alpha: float) -> CheckDriftReport:
    """Compare every assertion of two reports."""
    shared = before.answers & after.answers
    stopped = {
        name
        for check in (*before.checks, *after.checks)
        if check.rate is not None
        for name, _, _ in _list_verdicts(check)
    }
    counts = _count_runs(before, frozenset()), _count_runs(after, shared)
    _add_unanswered(before, after, counts)
    return CheckDriftReport(compare_runs(*counts, alpha, stopped), len(shared))


def _add_unanswered(before: StoredReport, after: StoredReport, counts: tuple[_AssertionCounts, ...]) -> None:
    """Add the checks and cases of which no run has an answer, so that they are named as not compared."""
    names: dict[str, set[str]] = {}
    for check in (*before.checks, *after.checks):
        names.setdefault(_name_check(check), set()).update(name for name, _, _ in _list_verdicts(check))
    for report, report_counts in zip((before, after), counts, strict=True):
        for check in report.checks:
            for name in sorted(names[_name_check(check)]) or [_name_check(check)]:
                report_counts.setdefault(name, {}).setdefault(check.case, RateCount(0, 0))


def _name_check(check: StoredCheck) -> str:
    return f"{check.file}::{check.name}"


def _count_runs(report: StoredReport, left_out: Set[str]) -> _AssertionCounts:
    """How many runs passed, by assertion and case."""
    counts: _AssertionCounts = {}
    for check in report.checks:
        for name, reference, verdict in _list_verdicts(check):
            cases = counts.setdefault(name, {})
            count = cases.setdefault(check.case, RateCount(0, 0))
            if verdict != Verdict.UNCHECKED and reference not in left_out:
                cases[check.case] = RateCount(count.passed + (verdict == Verdict.PASSED), count.runs + 1)
    return counts


def _list_verdicts(check: StoredCheck) -> Iterator[tuple[str, str, str]]:
    """The name of each assertion, the run, and the verdict; assertions of one name in a run are numbered."""
    for run in check.runs:
        name_counts: Counter[str] = Counter()
        for assertion in run.assertions:
            name_counts[assertion.name] += 1
            number = f" ({name_counts[assertion.name]})" if name_counts[assertion.name] > 1 else ""
            yield f"{_name_check(check)}: {assertion.name}{number}", run.reference, assertion.verdict


def _comparison_json(entry: AssertionComparison) -> JSON:
    difference = entry.difference
    return {
        "assertion": entry.name,
        "verdict": entry.verdict.value,
        "before": {"passed": entry.before.passed, "runs": entry.before.runs},
        "after": {"passed": entry.after.passed, "runs": entry.after.runs},
        "cases": entry.cases,
        "cases_left_out": entry.cases_left_out,
        "change": difference.change if difference is not None else None,
        "low": difference.interval.low if difference is not None else None,
        "high": difference.interval.high if difference is not None else None,
        "chance": entry.p_value,
        "corrected_chance": entry.adjusted_p_value,
    }
