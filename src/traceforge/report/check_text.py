"""Lines of `traceforge check run`, `list` and `drift`.

In: the results of checks, or a comparison of two reports. Out: lines of text. Never: prints, or decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from traceforge.checks.assertions.outcome import Verdict
from traceforge.checks.formats.assertion_types import assertion_label
from traceforge.checks.runs.check_plan import PlannedCheck
from traceforge.checks.runs.check_results import CheckOutcome, CheckReport, CheckResult, RunResult
from traceforge.checks.runs.report_comparison import CheckDriftReport
from traceforge.report.text_format import count, finding_lines, rate_range, table
from traceforge.statistics.rate_interval import Interval, RateCount
from traceforge.statistics.run_comparison import AssertionComparison, DropVerdict
from traceforge.terminal import one_line

RUNS_SHOWN = 3  # of a check that failed; the JSON report has all
_OUTCOMES = {
    CheckOutcome.FAILED: "FAILED",
    CheckOutcome.UNCHECKED: "NOT CHECKED",
    CheckOutcome.PASSED: "passed",
}

_DROP_VERDICTS = {
    DropVerdict.DROP: "DROPPED",
    DropVerdict.NO_DROP: "no drop",
    DropVerdict.TOO_FEW_RUNS: "TOO FEW RUNS",
    DropVerdict.NOT_COMPARED: "NOT COMPARED",
}


def check_lines(report: CheckReport) -> Iterator[str]:
    """A row for each check, below it what does not hold, then what is wrong with files, and the counts."""
    if report.results:
        rows = [_check_row(result) for result in report.results]
        head, *lines = table(("RESULT", "RUNS", "CHECK"), rows)
        yield head
        for line, result in zip(lines, report.results, strict=True):
            yield line
            yield from _problem_lines(result)
    if report.findings:
        yield finding_lines(report.findings)
    yield check_summary(report)


def check_summary(report: CheckReport) -> str:
    """`3 checks: 1 failed, 1 could not be checked, 1 passed`"""
    words = {
        CheckOutcome.FAILED: "failed",
        CheckOutcome.UNCHECKED: "could not be checked",
        CheckOutcome.PASSED: "passed",
    }
    counts = report.counts
    parts = [f"{counts[outcome]} {text}" for outcome, text in words.items() if counts[outcome]]
    if report.findings:
        parts.append(f"{count(len(report.findings), 'finding')} in files")
    return f"{count(len(report.results), 'check')}: {', '.join(parts)}"


def list_lines(checks: Sequence[PlannedCheck]) -> Iterator[str]:
    """A row for each check: where it is, its tags, and its assertions."""
    rows = [
        (
            one_line(f"{check.definition.file}:{check.definition.mark.line}"),
            one_line(check.check.name + (f" [{check.case}]" if check.case else "")),
            one_line(",".join(check.check.tags)) or "-",
            one_line(", ".join(map(assertion_label, check.check.assertions))),
        )
        for check in checks
    ]
    yield from table(("FILE", "CHECK", "TAGS", "ASSERTIONS"), rows)


def _check_row(result: CheckResult) -> tuple[str, str, str]:
    passed = sum(run.verdict is Verdict.PASSED for run in result.runs)
    return _OUTCOMES[result.outcome], f"{passed}/{len(result.runs)}", one_line(result.planned.id)


def _problem_lines(result: CheckResult) -> Iterator[str]:
    if result.rate is not None:
        passed, runs, low, high = result.rate
        yield f"    {passed} of {runs} counted runs passed: a true rate of {rate_range(Interval(low, high))} fits"
    if result.reason:
        yield f"    {one_line(result.reason)}"
    if result.outcome is CheckOutcome.PASSED:
        return
    problems = [run for run in result.runs if run.verdict is not Verdict.PASSED and not run.error]
    for run in problems[:RUNS_SHOWN]:
        yield from _run_lines(result, run)
    if len(problems) > RUNS_SHOWN:
        yield f"    … and {count(len(problems) - RUNS_SHOWN, 'run')} more: --json lists all"


def _run_lines(result: CheckResult, run: RunResult) -> Iterator[str]:
    definition = result.planned.definition
    for place, (assertion, outcome) in enumerate(zip(result.planned.check.assertions, run.outcomes, strict=True)):
        if outcome.verdict is Verdict.PASSED:
            continue
        line = f"{definition.file}:{definition.find_assertion_mark(place).line}"
        not_checked = " (not checked)" if outcome.verdict is Verdict.UNCHECKED else ""
        yield f"    {one_line(f'{line}: {assertion_label(assertion)}{not_checked}, in {run.reference}')}"
        yield f"        expected: {one_line(outcome.expected)}"
        yield f"        got:      {one_line(outcome.actual)}"
        if outcome.where != "text":
            yield f"        where:    {one_line(outcome.where)}"


def drift_lines(report: CheckDriftReport) -> Iterator[str]:
    """A row for each assertion, what was left out, and the counts."""
    entries = report.comparison.assertions
    if entries:
        head = ("RESULT", "BEFORE", "AFTER", "CHANGE", "RANGE", "ASSERTION")
        yield from table(head, [_comparison_row(entry) for entry in entries])
    left_out = sum(entry.cases_left_out for entry in entries if entry.verdict is not DropVerdict.NOT_COMPARED)
    if left_out:
        yield f"{count(left_out, 'comparison')} of a case not made: both reports must have an answer for it"
    if report.shared_answers:
        yield f"{count(report.shared_answers, 'answer')} in both reports: counted in the first one only"
    yield _drift_summary(report)


def _comparison_row(entry: AssertionComparison) -> tuple[str, ...]:
    difference = entry.difference
    change, limits = "-", "-"
    if difference is not None:
        change = _points(difference.change)
        limits = f"{_points(difference.interval.low)} to {_points(difference.interval.high)}"
    return (
        _DROP_VERDICTS[entry.verdict],
        _share(entry.before),
        _share(entry.after),
        change,
        limits,
        one_line(entry.name),
    )


def _share(runs: RateCount) -> str:
    return f"{runs.passed}/{runs.runs}" if runs.runs else "-"


def _points(change: float) -> str:
    return f"{change * 100:+.0f} %"


def _drift_summary(report: CheckDriftReport) -> str:
    verdicts = Counter(entry.verdict for entry in report.comparison.assertions)
    words = {
        DropVerdict.DROP: "dropped",
        DropVerdict.TOO_FEW_RUNS: "with too few runs to show a drop",
        DropVerdict.NOT_COMPARED: "not compared",
        DropVerdict.NO_DROP: "without a drop",
    }
    parts = [f"{verdicts[verdict]} {text}" for verdict, text in words.items() if verdicts[verdict]]
    text = ", ".join(parts) or "nothing to compare: no check is in them"
    return f"{count(len(report.comparison.assertions), 'assertion')}: {text}"
