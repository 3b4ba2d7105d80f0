"""The report of `traceforge audit vcr` as an HTML page in one file.

In: the result of an audit, without secrets. Out: HTML. Never: decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from traceforge.drift.drift_audit import DriftCause, DriftedCall, DriftReport
from traceforge.report.drift_text import cause_text, drift_summary
from traceforge.report.plain_page import escape_html, page_list, page_section, plain_page


def drift_html(report: DriftReport) -> str:
    """The whole result as a page."""
    findings = [f"{finding.file}: {finding.message}" for finding in report.unchecked]
    ignored = [f"{call.scope}: {call.method} {call.url}" for call in report.ignored]
    unplayed = [f"{item.cassette}: interaction {item.index}: {item.method} {item.url}" for item in report.unplayed]
    return plain_page(
        "Drift of cassettes",
        drift_summary(report),
        [
            f'<p class="soft">Exit code of the command: {report.command_exit_code}</p>',
            *page_section("Causes", map(_cause_html, report.causes)),
            *page_section("Drifted calls", _calls_html(report.drifted)),
            *page_list("Not compared", findings),
            *page_list("Recorded, and played by no test", unplayed),
            *page_list("Loaded by no test", [cassette.path for cassette in report.unopened]),
            *page_list("Ignored by the recorder of the suite, and no model calls", ignored),
            *page_list("Failed, whether or not they drifted", report.failed_tests),
        ],
    )


def _cause_html(cause: DriftCause) -> str:
    tests = "".join(f"<li>{escape_html(test)}</li>" for test in cause.tests)
    return f"<details><summary>{escape_html(cause_text(cause))}</summary><ul>{tests}</ul></details>"


def _calls_html(calls: Iterable[DriftedCall]) -> Iterator[str]:
    rows = []
    for call in calls:
        place = f"{call.interaction.cassette}, interaction {call.interaction.index}"
        changes = "<br>".join(escape_html(change.text) for change in call.changes)
        test = f'{escape_html(call.test)}<br><span class="soft">{escape_html(place)}</span>'
        rows.append(f"<tr><td>{test}</td><td>{changes}</td></tr>")
    if rows:
        yield f"<table><tr><th>Test</th><th>Difference</th></tr>{''.join(rows)}</table>"
