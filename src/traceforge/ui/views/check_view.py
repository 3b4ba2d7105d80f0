"""The results of checks for a page: every run, how each check ended over time, and what does not hold.

In: reports of `traceforge check run`. Out: plain data for `templates/checks/`. Never: trusts a field: one of another
type is left out; judges an answer again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from traceforge.canon import JSON, JSONObject
from traceforge.checks.assertions.outcome import Verdict
from traceforge.checks.runs.check_results import CheckOutcome
from traceforge.report.text_format import count, rate_range
from traceforge.statistics.rate_interval import Interval
from traceforge.ui.plots import StripMark, interval_bar, outcome_strip
from traceforge.ui.views.text_view import clip_text
from traceforge.wire.unified import as_object, as_text, list_objects

CHECKS_MAX = 200  # Of one run on its page; more are counted.
ASSERTIONS_MAX = 50  # Of one check.
FAILURES_MAX = 5  # Answers that are shown for an assertion that does not hold.
FINDINGS_MAX = 50
HISTORY_MAX = 20  # Runs in the strip of a check.

_TRACE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")  # Other references have no page of a call.
_OUTCOMES = {
    CheckOutcome.FAILED: ("bad", "failed"),
    CheckOutcome.UNCHECKED: ("warn", "not checked"),
    CheckOutcome.PASSED: ("good", "passed"),
}
_KINDS = {Verdict.FAILED: "bad", Verdict.UNCHECKED: "warn", Verdict.PASSED: "good"}
_WORST_FIRST = ("bad", "warn", "good")
_RESULTS = {0: ("good", "green"), 1: ("bad", "red")}


class ResultView(NamedTuple):
    """A result as a colour and a word."""

    kind: str
    word: str


class CheckRunItem(NamedTuple):
    """One run in the list."""

    name: str
    at: str
    result: ResultView
    counts: str
    checks: int
    answers: int
    is_live: bool


class CheckHistory(NamedTuple):
    """How one check ended over time; of a check with cases, how all of them ended."""

    title: str
    file: str
    anchor: str
    result: ResultView  # Of the newest run.
    strip: Markup  # The result of each run, oldest first.
    passed: int  # Answers of the newest run.
    answers: int
    cases: int
    last_name: str
    last_at: str


class RateView(NamedTuple):
    """The pass rate of a check, and the true rates that fit."""

    passed: int
    runs: int
    sentence: str
    bar: Markup


class FailureView(NamedTuple):
    """An answer for which an assertion does not hold, or could not be checked."""

    reference: str
    is_trace: bool
    kind: str
    expected: str
    actual: str
    where: str


class AssertionView(NamedTuple):
    """One assertion over all answers of a check."""

    label: str
    line: int
    kind: str
    passed: int
    answers: int
    failures: tuple[FailureView, ...]
    omitted: int


class CheckView(NamedTuple):
    """One check of a run."""

    anchor: str
    title: str
    place: str
    tags: tuple[str, ...]
    result: ResultView
    reason: str
    rate: RateView | None
    passed: int
    answers: int
    assertions: tuple[AssertionView, ...]
    errors: tuple[tuple[str, int], ...]  # Why there was no answer, and how often.


class FindingView(NamedTuple):
    """What is wrong with a check file."""

    place: str
    rule: str
    message: str
    hint: str


class CheckRunView(NamedTuple):
    """The page about one run of checks."""

    item: CheckRunItem
    checks: tuple[CheckView, ...]
    omitted: int
    findings: tuple[FindingView, ...]


def list_check_run(name: str, report: JSONObject) -> CheckRunItem:
    """One run as a row of the list."""
    checks = list_objects(report.get("checks"))
    code = report.get("exit_code")
    kind, word = _RESULTS.get(code, ("warn", "not checked")) if isinstance(code, int) else ("warn", "not checked")
    words = Counter(_result(check).word for check in checks)
    parts = [f"{words[word]} {word}" for _, word in _OUTCOMES.values() if words[word]]
    if findings := list_objects(report.get("findings")):
        parts.append(f"{count(len(findings), 'finding')} in files")
    return CheckRunItem(
        name,
        as_text(report.get("at")),
        ResultView(kind, word),
        ", ".join(parts),
        len(checks),
        sum(len(list_objects(check.get("runs"))) for check in checks),
        report.get("mode") == "live",
    )


def list_check_histories(reports: Sequence[tuple[str, JSONObject]]) -> list[CheckHistory]:
    """The history of each check, the ones that do not hold first; `reports` are named, newest first."""
    by_check: dict[tuple[str, str], list[tuple[str, str, list[JSONObject]]]] = {}
    for name, report in reports:
        cases: dict[tuple[str, str], list[JSONObject]] = {}
        for check in list_objects(report.get("checks")):
            cases.setdefault((as_text(check.get("file")), as_text(check.get("name"))), []).append(check)
        for key, members in cases.items():
            by_check.setdefault(key, []).append((name, as_text(report.get("at")), members))
    histories = [_view_history(file, title, runs) for (file, title), runs in by_check.items()]
    return sorted(histories, key=lambda history: (_WORST_FIRST.index(history.result.kind), history.file))


def _view_history(file: str, title: str, runs: Sequence[tuple[str, str, list[JSONObject]]]) -> CheckHistory:
    name, at, newest = runs[0]
    marks = [StripMark(*_worst(members), when) for _, when, members in reversed(runs[:HISTORY_MAX])]
    worst = min(newest, key=_rank)
    answers = [answer for check in newest for answer in list_objects(check.get("runs"))]
    return CheckHistory(
        clip_text(title),
        clip_text(file),
        _anchor(worst),
        _worst(newest),
        outcome_strip(marks, f"Results of {title}"),
        sum(as_text(answer.get("verdict")) == Verdict.PASSED for answer in answers),
        len(answers),
        len(newest) if as_text(worst.get("case")) else 0,
        name,
        at,
    )


def view_check_run(name: str, report: JSONObject) -> CheckRunView:
    """One run, the checks that do not hold first."""
    checks = sorted(list_objects(report.get("checks")), key=_rank)
    findings = list_objects(report.get("findings"))[:FINDINGS_MAX]
    return CheckRunView(
        list_check_run(name, report),
        tuple(map(_view_check, checks[:CHECKS_MAX])),
        max(0, len(checks) - CHECKS_MAX),
        tuple(map(_view_finding, findings)),
    )


def _view_check(check: JSONObject) -> CheckView:
    runs = list_objects(check.get("runs"))
    errors = Counter(clip_text(as_text(run.get("error"))) for run in runs if run.get("error"))
    case, line = as_text(check.get("case")), check.get("line")
    tags = check.get("tags")
    return CheckView(
        _anchor(check),
        clip_text(as_text(check.get("name")) + (f" [{case}]" if case else "")),
        clip_text(as_text(check.get("file"))) + (f":{line}" if isinstance(line, int) else ""),
        tuple(clip_text(as_text(tag)) for tag in tags[:8]) if isinstance(tags, list) else (),
        _result(check),
        as_text(check.get("reason")),
        _view_rate(as_object(check.get("rate"))),
        sum(as_text(run.get("verdict")) == Verdict.PASSED for run in runs),
        len(runs),
        tuple(_view_assertions(runs)),
        tuple(errors.most_common(5)),
    )


def _view_rate(rate: JSONObject) -> RateView | None:
    low, high = _share(rate.get("low")), _share(rate.get("high"))
    passed, runs = _integer(rate.get("passed")), _integer(rate.get("runs"))
    if low is None or high is None or not runs:
        return None
    sentence = f"{passed} of {runs} counted runs passed: a true rate of {rate_range(Interval(low, high))} fits"
    return RateView(passed, runs, sentence, interval_bar(low, high, passed / runs))


def _view_assertions(runs: Sequence[JSONObject]) -> Iterable[AssertionView]:
    """The assertions of a check: the n-th of each run is the same one."""
    columns: list[list[tuple[str, JSONObject]]] = []
    for run in runs:
        for place, assertion in enumerate(list_objects(run.get("assertions"))[:ASSERTIONS_MAX]):
            if place == len(columns):
                columns.append([])
            columns[place].append((as_text(run.get("reference")), assertion))
    for column in columns:
        problems = [entry for entry in column if _kind(entry[1]) != "good"]
        first = column[0][1]
        yield AssertionView(
            clip_text(as_text(first.get("name"))),
            _integer(first.get("line")),
            min(map(_kind, (assertion for _, assertion in column)), key=_WORST_FIRST.index),
            len(column) - len(problems),
            len(column),
            tuple(_view_failure(*entry) for entry in problems[:FAILURES_MAX]),
            max(0, len(problems) - FAILURES_MAX),
        )


def _view_failure(reference: str, assertion: JSONObject) -> FailureView:
    return FailureView(
        reference,
        _TRACE_ID.match(reference) is not None,
        _kind(assertion),
        as_text(assertion.get("expected")),
        as_text(assertion.get("actual")),
        as_text(assertion.get("where")),
    )


def _view_finding(finding: JSONObject) -> FindingView:
    names = ("file", "path", "rule", "message", "hint")
    file, path, rule, message, hint = (as_text(finding.get(name)) for name in names)
    return FindingView(f"{file}, {path}" if path else file, rule, message, hint)


def _result(check: JSONObject) -> ResultView:
    text = as_text(check.get("outcome"))
    return ResultView(*_OUTCOMES[CheckOutcome(text) if text in set(CheckOutcome) else CheckOutcome.UNCHECKED])


def _worst(checks: Iterable[JSONObject]) -> ResultView:
    return min(map(_result, checks), key=lambda result: _WORST_FIRST.index(result.kind))


def _rank(check: JSONObject) -> int:
    return _WORST_FIRST.index(_result(check).kind)


def _kind(assertion: JSONObject) -> str:
    text = as_text(assertion.get("verdict"))
    return _KINDS[Verdict(text) if text in set(Verdict) else Verdict.UNCHECKED]


def _anchor(check: JSONObject) -> str:
    return clip_text(as_text(check.get("id")))


def _integer(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else 0


def _share(value: JSON) -> float | None:
    is_share = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if is_share and isinstance(value, int | float) else None
