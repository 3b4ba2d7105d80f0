"""Lines and JSON of `traceforge audit vcr`.

In: the result of an audit, without secrets. Out: lines, or one JSON document. Never: prints, or decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from traceforge.canon import JSON, JSONObject
from traceforge.drift.drift_audit import DRIFT_RULE, DriftCause, DriftReport, RecordedInteraction
from traceforge.drift.request_changes import RequestChange
from traceforge.findings import ExitCode, Finding
from traceforge.report.text_format import count, finding_lines
from traceforge.terminal import one_line

TESTS_SHOWN = 5  # of each cause; the JSON report and the page have all
LINES_SHOWN = 10  # of each other list
DRIFT_HINT = "Record the cassettes of these tests again, or undo the change."


def drift_lines(report: DriftReport) -> Iterator[str]:
    """Causes first, then what was not compared, what was not played, and the verdict."""
    for cause in report.causes:
        yield from _list_lines(cause_text(cause), cause.tests, TESTS_SHOWN)
    if report.unchecked:
        yield finding_lines(report.unchecked[:LINES_SHOWN])
        yield from _rest_lines(len(report.unchecked), LINES_SHOWN)
    for title, noun, items in (
        ("recorded, and played by no test", "interaction", [_interaction_text(item) for item in report.unplayed]),
        ("shared by several tests, and played in part: if a call was removed, no cassette says so", "test",
         [f"{part.test}: {part.played} of {part.played_by_all} interactions of {part.cassette}"
          for part in report.partly_played]),
        ("loaded by no test", "cassette", [cassette.path for cassette in report.unopened]),
        ("ignored by the recorder of the suite, and no model calls", "call",
         [f"{call.method} {call.url}".strip() for call in report.ignored]),
        ("failed, whether or not they drifted", "test", report.failed_tests),
    ):  # fmt: skip
        if items:
            yield from _list_lines(f"{title}: {count(len(items), noun)}", items, LINES_SHOWN)
    yield f"exit code of the command: {report.command_exit_code}"
    yield drift_summary(report)


def drift_summary(report: DriftReport) -> str:
    """The verdict, on one line."""
    tests, calls = count(len(report.compared), "cassette test"), count(sum(report.compared.values()), "call")
    not_compared = f"; {count(len(report.unchecked), 'part')} could not be checked" if report.unchecked else ""
    if report.drifted:
        return f"DRIFT: {len(report.drifted_tests)} of {tests} ({len(report.drifted)} of {calls}){not_compared}"
    if report.exit_code is ExitCode.UNCHECKED:
        return f"NOT CHECKED: no drift in {tests} ({calls}){not_compared}"
    return f"NO DRIFT: {tests} ({calls})"


def cause_text(cause: DriftCause) -> str:
    """The cause and how many tests have it."""
    note = f" ({cause.note})" if cause.note else ""
    return f"{cause.change.text} in {count(len(cause.tests), 'test')}{note}"


def cause_finding(cause: DriftCause) -> Finding:
    """The cause as a finding."""
    return Finding(cause.tests[0], cause.change.field or cause.change.part, DRIFT_RULE, cause_text(cause), DRIFT_HINT)


def _list_lines(title: str, items: Sequence[str], limit: int) -> Iterator[str]:
    """A title, and below it the first items of a list, each escaped and on one line."""
    yield one_line(title)
    yield from (f"    {one_line(item)}" for item in items[:limit])
    yield from _rest_lines(len(items), limit)


def _rest_lines(number: int, limit: int) -> Iterator[str]:
    if number > limit:
        yield f"    … and {number - limit} more: --json and --html list all"


def _interaction_text(interaction: RecordedInteraction) -> str:
    place = f"{interaction.cassette}: interaction {interaction.index}"
    return f"{place}: {interaction.method} {interaction.url}"


def drift_json(report: DriftReport) -> JSONObject:
    """The whole result as JSON."""
    return {
        "exit_code": int(report.exit_code),
        "command_exit_code": report.command_exit_code,
        "tests": {"compared": len(report.compared), "drifted": len(report.drifted_tests)},
        "calls": {"compared": sum(report.compared.values()), "drifted": len(report.drifted)},
        "cassettes": report.cassettes,
        "causes": [
            {**_change_json(cause.change), "tests": [*cause.tests], "calls": cause.calls, "note": cause.note}
            for cause in report.causes
        ],
        "drifted": [
            {"test": call.test, **_interaction_json(call.interaction), "changes": _changes_json(call.changes)}
            for call in report.drifted
        ],
        "unanswered": [dict(call._asdict()) for call in report.unanswered],
        "ignored": [dict(call._asdict()) for call in report.ignored],
        "unplayed": [_interaction_json(interaction) for interaction in report.unplayed],
        "partly_played": [
            {"test": part.test, "cassette": part.cassette, "played": part.played, "of": part.played_by_all}
            for part in report.partly_played
        ],
        "unopened": [
            {"cassette": cassette.path, "interactions": cassette.interactions} for cassette in report.unopened
        ],
        "failed": [*report.failed_tests],
        "not_run": [*report.not_run],
        "findings": [dict(finding.to_json()) for finding in report.unchecked],
    }


def _changes_json(changes: Sequence[RequestChange]) -> list[JSON]:
    return [_change_json(change) for change in changes]


def _change_json(change: RequestChange) -> JSONObject:
    return {
        "part": change.part,
        "field": change.field,
        "before": change.before,
        "after": change.after,
        "change": change.text,
    }


def _interaction_json(interaction: RecordedInteraction) -> JSONObject:
    return {
        "cassette": interaction.cassette,
        "interaction": interaction.index,
        "method": interaction.method,
        "url": interaction.url,
    }
