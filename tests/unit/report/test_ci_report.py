"""One report from what `test` and `verify` found."""

from __future__ import annotations

from pathlib import Path

from traceforge.audit.auditor import AuditReport
from traceforge.findings import Finding
from traceforge.report.ci_report import CaseOutcome, CaseResult, build_audit_report, build_tree_report
from traceforge.report.finding_locations import FindingLocator
from traceforge.snapshots.gate.gate_findings import GateFinding

TREE = ".ai-snapshots"


def test_a_finding_in_a_document_or_its_raw_response_fails_the_snapshot(tmp_path: Path) -> None:
    """Findings elsewhere do not."""
    audit = AuditReport(snapshots=[f"{TREE}/openai/{name}.json" for name in ("c", "b", "a")])
    audit.findings += [
        Finding(f"{TREE}/openai/a.json", "$", "SN1", "one"),
        Finding(f"{TREE}/wire/b.json", "$", "SN9", "two"),
        Finding(f"{TREE}/manifest.json", "$", "MF7", "three"),
    ]

    report = build_audit_report(audit, FindingLocator(str(tmp_path), str(tmp_path)))

    assert (
        CaseResult(f"{TREE}/openai", "a", CaseOutcome.FAILED, "SN1 one"),
        CaseResult(f"{TREE}/openai", "b", CaseOutcome.FAILED, "SN9 two"),
        CaseResult(f"{TREE}/openai", "c", CaseOutcome.PASSED),
    ) == report.cases
    assert (3, 0, 1) == (report.counts["findings"], report.counts["unchecked"], report.exit_code)


def test_a_pending_change_is_reported_at_its_call(tmp_path: Path) -> None:
    """At the line of the call, without naming a failed test."""
    (tmp_path / "ask.py").write_text("")
    pending = GateFinding(
        Finding("ask.py:4 in ask", "", "GT4", "ask-1 is new", "See it."), 0, ("test_a.py::test_a",), "ask-1"
    )

    report = build_tree_report(AuditReport(), [pending], "RED", 1, FindingLocator(str(tmp_path), str(tmp_path)))

    [item] = report.findings
    assert (("ask.py", 4), (), "ask-1") == (item.location, item.scopes, item.snapshot_id)
    assert "ask-1 is new\n    hint: See it." == item.text
