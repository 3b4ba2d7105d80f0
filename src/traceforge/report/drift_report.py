"""The report of `traceforge audit vcr` for CI services, and as a page.

In: the result of an audit, without secrets. Out: a `CIReport`, or HTML in one file. Never: decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from traceforge.drift.drift_audit import DriftCause, DriftedCall, DriftReport
from traceforge.report.ci_report import CIReport, build_report, list_test_cases, report_finding
from traceforge.report.drift_text import cause_finding, cause_text, drift_summary
from traceforge.report.finding_locations import FindingLocator
from traceforge.report.plain_page import escape_html, page_list, page_section, plain_page


def build_drift_report(drift: DriftReport, locations: FindingLocator) -> CIReport:
    """The report of `traceforge audit vcr`: one finding for each cause."""
    findings = [
        report_finding(cause_finding(cause), locations)._replace(scopes=cause.tests) for cause in drift.causes
    ]
    findings += [report_finding(finding, locations) for finding in drift.unchecked]
    counts = {
        "cassette_tests": len(drift.compared),
        "drifted_tests": len(drift.drifted_tests),
        "calls": sum(drift.compared.values()),
        "drifted_calls": len(drift.drifted),
        "unplayed": len(drift.unplayed),
    }
    cases = list_test_cases(drift.tests, findings)
    return build_report("audit vcr", findings, cases, counts, drift_summary(drift), int(drift.exit_code))


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
