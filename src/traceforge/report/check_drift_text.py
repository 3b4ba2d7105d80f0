"""Lines of `traceforge check drift`.

In: a comparison of two reports. Out: lines of text. Never: prints, or decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from traceforge.checks.runs.drift_report import CheckDriftReport
from traceforge.report.text_format import count, table
from traceforge.statistics.rate_interval import RateCount
from traceforge.statistics.run_comparison import AssertionComparison, DropVerdict
from traceforge.terminal import one_line

_VERDICTS = {
    DropVerdict.DROP: "DROPPED",
    DropVerdict.NO_DROP: "no drop",
    DropVerdict.TOO_FEW_RUNS: "TOO FEW RUNS",
    DropVerdict.NOT_COMPARED: "NOT COMPARED",
}


def drift_lines(report: CheckDriftReport) -> Iterator[str]:
    """A row for each assertion, what was left out, and the counts."""
    entries = report.comparison.assertions
    if entries:
        head = ("RESULT", "BEFORE", "AFTER", "CHANGE", "RANGE", "ASSERTION")
        yield from table(head, [_row(entry) for entry in entries])
    left_out = sum(entry.cases_left_out for entry in entries if entry.verdict is not DropVerdict.NOT_COMPARED)
    if left_out:
        yield f"{count(left_out, 'case')} of one report only: not compared"
    if report.shared_answers:
        yield f"{count(report.shared_answers, 'answer')} in both reports: counted in the first one only"
    yield _summary(report)


def _row(entry: AssertionComparison) -> tuple[str, ...]:
    difference = entry.difference
    change, limits = "-", "-"
    if difference is not None:
        change = _points(difference.change)
        limits = f"{_points(difference.interval.low)} to {_points(difference.interval.high)}"
    return _VERDICTS[entry.verdict], _share(entry.before), _share(entry.after), change, limits, one_line(entry.name)


def _share(runs: RateCount) -> str:
    return f"{runs.passed}/{runs.runs}" if runs.runs else "-"


def _points(change: float) -> str:
    return f"{change * 100:+.0f} %"


def _summary(report: CheckDriftReport) -> str:
    verdicts = Counter(entry.verdict for entry in report.comparison.assertions)
    words = {
        DropVerdict.DROP: "dropped",
        DropVerdict.TOO_FEW_RUNS: "with too few runs to show a drop",
        DropVerdict.NOT_COMPARED: "not compared",
        DropVerdict.NO_DROP: "without a drop",
    }
    parts = [f"{verdicts[verdict]} {text}" for verdict, text in words.items() if verdicts[verdict]]
    return f"{count(len(report.comparison.assertions), 'assertion')}: {', '.join(parts) or 'nothing to compare'}"
