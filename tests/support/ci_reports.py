"""CI reports like those of `test` and `verify`, of any size and with any text."""

from __future__ import annotations

from traceforge.findings import Finding
from traceforge.report.ci_report import CaseOutcome, CaseResult, CIReport, ReportedFinding
from traceforge.report.finding_locations import SourceLocation


def reported_finding(
    number: int = 1, rule: str = "GT1", message: str = "the request of a changed", details: str = ""
) -> ReportedFinding:
    """One finding, at a line of its own."""
    finding = Finding(f"app/ask.py:{number}:ask", "", rule, message, "Undo the edit.")
    return ReportedFinding(
        finding, SourceLocation("app/ask.py", number), details, ("tests/test_a.py::test_a",), f"ask-{number}"
    )


def ci_report(*items: ReportedFinding, command: str = "test") -> CIReport:
    """A report of these findings, one test that failed, one that passed and one that was skipped."""
    cases = (
        CaseResult("tests/test_a.py", "test_a", CaseOutcome.FAILED, "GT1 the request of a changed"),
        CaseResult("tests/test_a.py", "test_b", CaseOutcome.PASSED),
        CaseResult("tests/test_a.py", "test_c", CaseOutcome.SKIPPED),
    )
    unchecked = sum(item.finding.is_unchecked for item in items)
    counts = {"replayed": 3, "findings": len(items) - unchecked, "unchecked": unchecked, "exit_code": 1}
    return CIReport(command, items, cases, counts, f"RED: 3 calls replayed, {len(items)} findings", 1)
