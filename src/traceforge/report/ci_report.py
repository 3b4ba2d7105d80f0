"""One report of `test`, `verify` or `audit vcr`, which the writers of JUnit, SARIF and GitHub annotations read.

In: the result of a command. Out: findings with their locations and details, the tests or snapshots that were checked,
and counts. Never: decides anything; the exit code is the command's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from traceforge.audit.auditor import AuditReport
from traceforge.config import SNAPSHOTS_DIR
from traceforge.findings import Finding
from traceforge.report.finding_locations import FindingLocator, SourceLocation
from traceforge.report.gate_text import gate_finding_lines, gate_report_lines
from traceforge.report.text_format import audit_summary, hint_line, split_node_id
from traceforge.snapshots.formats.approved_policy import POLICY_RULE
from traceforge.snapshots.formats.tree_layout import WIRE_DIR
from traceforge.snapshots.gate.gate_findings import CALLS_RULE, UNUSED_RULE, GateFinding
from traceforge.snapshots.tree.declaration_effects import EFFECT_RULE
from traceforge.terminal import one_line

if TYPE_CHECKING:
    from traceforge.snapshots.gate.command_gate import TestRun


class CaseOutcome(StrEnum):
    """How a test or the check of a snapshot ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class ReportedFinding(NamedTuple):
    """One finding, with its location and the lines printed below it."""

    finding: Finding
    location: SourceLocation
    details: str = ""  # lines below the message: the tests, the diff, the hint
    scopes: tuple[str, ...] = ()
    snapshot_id: str = ""  # for the fingerprint: the message has a count that changes from run to run

    @property
    def message(self) -> str:
        """The message, on one line."""
        return one_line(self.finding.message)

    @property
    def text(self) -> str:
        """The message and its details."""
        return f"{self.message}\n{self.details}".rstrip()


class CaseResult(NamedTuple):
    """One test that ran, or one snapshot that was checked."""

    group: str
    name: str
    outcome: CaseOutcome
    reason: str = ""


class CIReport(NamedTuple):
    """Everything that a writer needs."""

    command: str
    findings: tuple[ReportedFinding, ...]
    cases: tuple[CaseResult, ...]
    counts: Mapping[str, int]
    summary: str
    exit_code: int


def build_test_report(test_run: TestRun, code: int, folder: str) -> CIReport:
    """The report of `traceforge test -- COMMAND`."""
    project = test_run.snapshots.loaded.project
    locations = FindingLocator(project, folder)
    tree = os.path.join(project, SNAPSHOTS_DIR)
    findings = [
        _report_gate_finding(gate_finding, locations, tree if _is_in_tree(gate_finding, test_run) else "")
        for gate_finding in test_run.findings
    ]
    findings += [report_finding(finding, locations) for finding in test_run.unchecked]
    observations = test_run.observations
    counts = {
        "replayed": observations.replayed,
        "request_gated": observations.request_gated,
        "synthesised": observations.synthesised,
        "uncompared": observations.uncompared_calls,
    }
    *_, summary = gate_report_lines(test_run, ())
    tests = test_run.run.tests if test_run.run is not None else {}
    return build_report("test", findings, list_test_cases(tests, findings), counts, summary, code)


def _is_in_tree(gate_finding: GateFinding, test_run: TestRun) -> bool:
    """Whether a finding names its file relative to the snapshot tree."""
    rule = gate_finding.finding.rule
    if f"{SNAPSHOTS_DIR}/" in gate_finding.finding.file:  # of a project below
        return False
    return rule in (UNUSED_RULE, CALLS_RULE) or (test_run.run is None and rule not in (POLICY_RULE, EFFECT_RULE))


def build_tree_report(
    audit: AuditReport, gate_findings: Sequence[GateFinding], summary: str, code: int, locations: FindingLocator
) -> CIReport:
    """The report of `traceforge test` without a command: the snapshot tree and pending changes."""
    findings = [_report_gate_finding(gate_finding, locations) for gate_finding in gate_findings]
    counts = {"snapshots": audit.checked.total(), "request_gated": audit.request_gated}
    return build_report("test", findings, _snapshot_cases(audit), counts, summary, code)


def build_audit_report(audit: AuditReport, locations: FindingLocator, command: str = "verify") -> CIReport:
    """The report of `traceforge verify`."""
    findings = [report_finding(finding, locations) for finding in audit.findings]
    counts = {**dict(sorted(audit.checked.items())), "request_gated": audit.request_gated}
    summary = audit_summary(audit.checked, audit.findings, audit.request_gated)
    return build_report(command, findings, _snapshot_cases(audit), counts, summary, int(audit.exit_code))


def build_report(
    command: str,
    findings: Sequence[ReportedFinding],
    cases: Iterable[CaseResult],
    counts: Mapping[str, int],
    summary: str,
    code: int,
) -> CIReport:
    """Put a report together; every count of findings is derived here."""
    unchecked = sum(item.finding.is_unchecked for item in findings)
    all_counts = {**counts, "findings": len(findings) - unchecked, "unchecked": unchecked, "exit_code": code}
    return CIReport(command, tuple(findings), tuple(cases), all_counts, summary, code)


def _report_gate_finding(gate_finding: GateFinding, locations: FindingLocator, base: str = "") -> ReportedFinding:
    _, *details = gate_finding_lines([gate_finding])
    scopes = tuple(filter(None, gate_finding.scopes)) if gate_finding.calls else ()
    location = locations.locate(gate_finding.finding, base)
    if not location.file and scopes:
        location = locations.locate(gate_finding.finding._replace(file=scopes[0]))
    return ReportedFinding(gate_finding.finding, location, "\n".join(details), scopes, gate_finding.nearest)


def report_finding(finding: Finding, locations: FindingLocator) -> ReportedFinding:
    """A finding with its place in the project and its hint."""
    return ReportedFinding(finding, locations.locate(finding), hint_line(finding.hint) if finding.hint else "")


def list_test_cases(tests: Mapping[str, str], findings: Iterable[ReportedFinding]) -> Iterable[CaseResult]:
    """Every test that ran. A test with a finding has failed, even if it passed itself."""
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        for scope in finding.scopes:
            reasons.setdefault(scope, []).append(f"{finding.finding.rule} {finding.message}")
    for name in {**tests, **reasons}:
        group, test = split_node_id(name)
        if name in reasons:
            yield CaseResult(group, test, CaseOutcome.FAILED, "\n".join(reasons[name]))
        else:
            why = "the test failed, and not for a finding" if tests[name] == CaseOutcome.FAILED else ""
            yield CaseResult(group, test, CaseOutcome(tests[name]), why)


def _snapshot_cases(audit: AuditReport) -> Iterable[CaseResult]:
    """Every snapshot that was checked. It has failed if there is a finding about its file or its raw response."""
    reasons: dict[str, list[str]] = {}
    for finding in audit.findings:
        reasons.setdefault(os.path.normpath(finding.file), []).append(f"{finding.rule} {one_line(finding.message)}")
    for file in sorted(map(os.path.normpath, audit.snapshots)):
        folder, name = os.path.split(file)
        wire = os.path.join(os.path.dirname(folder), WIRE_DIR, name)
        reason = "\n".join(text for path in dict.fromkeys((file, wire)) for text in reasons.get(path, ()))
        yield CaseResult(
            folder, name.removesuffix(".json"), CaseOutcome.FAILED if reason else CaseOutcome.PASSED, reason
        )
