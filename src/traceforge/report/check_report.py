"""The results of checks for CI services, and as a page.

In: the results of checks. Out: a `CIReport`, or HTML. Never: decides; the exit code is the report's.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.checks.assertions.outcome import Verdict
from traceforge.checks.formats.assertion_types import assertion_label
from traceforge.checks.runs.check_results import CheckOutcome, CheckReport, CheckResult, RunResult
from traceforge.report.check_text import RUNS_SHOWN, check_summary
from traceforge.report.ci_report import CaseOutcome, CaseResult, CIReport, build_report, report_finding
from traceforge.report.finding_locations import FindingLocator
from traceforge.report.plain_page import escape_html, page_list, page_section, plain_page

COMMAND = "check run"


def build_check_report(report: CheckReport, locator: FindingLocator) -> CIReport:
    """The report of `traceforge check run`: one case for each check, one finding for each assertion."""
    findings = [report_finding(finding, locator) for finding in report.list_findings()]
    counts = {"checks": len(report.results), **{outcome.value: report.counts[outcome] for outcome in CheckOutcome}}
    cases = [_case(result) for result in report.results]
    return build_report(COMMAND, findings, cases, counts, check_summary(report), int(report.exit_code))


def _case(result: CheckResult) -> CaseResult:
    outcome = CaseOutcome.PASSED if result.outcome is CheckOutcome.PASSED else CaseOutcome.FAILED
    reason = "\n".join(f"{finding.rule} {finding.message}" for finding in result.list_findings())
    return CaseResult(result.planned.definition.file, result.planned.title, outcome, reason)


def check_html(report: CheckReport) -> str:
    """All results as a page."""
    findings = [f"{finding.file}: {finding.path}: {finding.rule} {finding.message}" for finding in report.findings]
    by_outcome = {
        outcome: [result for result in report.results if result.outcome is outcome] for outcome in CheckOutcome
    }
    return plain_page(
        "Checks",
        check_summary(report),
        [
            *page_section("Failed", map(_result_html, by_outcome[CheckOutcome.FAILED])),
            *page_section("Could not be checked", map(_result_html, by_outcome[CheckOutcome.UNCHECKED])),
            *page_list("Findings in files", findings),
            *page_list("Passed", [result.planned.id for result in by_outcome[CheckOutcome.PASSED]]),
        ],
    )


def _result_html(result: CheckResult) -> str:
    reason = f"<p>{escape_html(result.reason)}</p>" if result.reason else ""
    problems = [run for run in result.runs if run.verdict is not Verdict.PASSED and not run.error]
    rows = "".join(row for run in problems[:RUNS_SHOWN] for row in _rows(result, run))
    head = "<tr><th>Assertion</th><th>Expected</th><th>Got</th></tr>"
    table = f"<table>{head}{rows}</table>" if rows else ""
    return f"<details open><summary>{escape_html(result.planned.id)}</summary>{reason}{table}</details>"


def _rows(result: CheckResult, run: RunResult) -> Iterator[str]:
    for place, (assertion, outcome) in enumerate(zip(result.planned.check.assertions, run.outcomes, strict=True)):
        if outcome.verdict is Verdict.PASSED:
            continue
        line = result.planned.definition.find_assertion_mark(place).line
        where = f"line {line}, {run.reference}, {outcome.where}"
        label = f'{escape_html(assertion_label(assertion))}<br><span class="soft">{escape_html(where)}</span>'
        yield (
            f"<tr><td>{label}</td><td>{escape_html(outcome.expected)}</td><td>{escape_html(outcome.actual)}</td></tr>"
        )
