"""Reports as `test` and `verify` make them, of any size and with any text."""

from __future__ import annotations

from traceforge.findings import Finding
from traceforge.report.ci_report import Case, Item, Outcome, Report
from traceforge.report.finding_locations import Place


def item(number: int = 1, rule: str = "GT1", message: str = "the request of a changed", details: str = "") -> Item:
    """One finding on a line of its own."""
    finding = Finding(f"app/ask.py:{number}:ask", "", rule, message, "Undo the edit.")
    return Item(finding, Place("app/ask.py", number), details, ("tests/test_a.py::test_a",), f"ask-{number}")


def report(*items: Item, command: str = "test") -> Report:
    """A report of these findings, one test that failed, one that passed and one that was skipped."""
    cases = (
        Case("tests/test_a.py", "test_a", Outcome.FAILED, "GT1 the request of a changed"),
        Case("tests/test_a.py", "test_b", Outcome.PASSED),
        Case("tests/test_a.py", "test_c", Outcome.SKIPPED),
    )
    unchecked = sum(one.finding.is_unchecked for one in items)
    counts = {"replayed": 3, "findings": len(items) - unchecked, "unchecked": unchecked, "exit_code": 1}
    return Report(command, items, cases, counts, f"RED: 3 calls replayed, {len(items)} findings", 1)
