"""`traceforge test` without a command: the snapshot tree, and changes that wait for approval.

In: a project. Out: findings, and what was checked. Never: runs anything, or passes where no call is approved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from traceforge.audit.auditor import AuditReport
from traceforge.audit.tree_auditor import nothing_approved, verify_snapshots
from traceforge.config import LoadedConfig, current_folder
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.findings import ExitCode, Finding, exit_code
from traceforge.snapshots.formats.approved_policy import check_policy_approved
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.tree_layout import StoredSnapshot, find_root_problem
from traceforge.snapshots.gate.gate_findings import GateFinding
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange, load_pending
from traceforge.snapshots.record.pending_judgement import judge_pending
from traceforge.snapshots.tree.approved_calls import load_approved_calls
from traceforge.snapshots.tree.base_commit import BaseCheck, check_against_base
from traceforge.snapshots.tree.declaration_effects import check_declarations
from traceforge.terminal import ProgressReporter, no_progress

PENDING_RULE = "GT4"
_PENDING_HINT = 'traceforge diff {id}, then traceforge approve {id} --reason "…", or traceforge reject {id}'
_CHANGE_TEXTS = {
    ChangeKind.NEW: "is new",
    ChangeKind.REQUEST: "has another request",
    ChangeKind.ANSWER: "has another answer",
    ChangeKind.BOTH: "has another request and another answer",
    ChangeKind.CALLS: "is called another number of times",
}


class TreeGateReport(NamedTuple):
    """What was checked, and the findings."""

    audit: AuditReport
    findings: Sequence[GateFinding]
    snapshots: int = 0
    request_gated: int = 0
    base_line: str = ""  # which commit the snapshots were compared with

    @property
    def exit_code(self) -> ExitCode:
        """0: unchanged. 1: findings. 3: something could not be checked."""
        return exit_code([gate_finding.finding for gate_finding in self.findings])


def check_tree_and_pending(
    loaded: LoadedConfig, root: str, progress: ProgressReporter = no_progress, base: str | None = None
) -> TreeGateReport:
    """Check the snapshot tree at `root`, what differs from the commit `base`, and that no change is pending."""
    audit = AuditReport()
    findings = list[GateFinding]()
    policy = ModelPolicy.from_config(loaded.config)
    snapshots, request_gated, is_valid, unapproved = 0, 0, False, list[Finding]()
    stored: Mapping[str, StoredSnapshot] = {}
    problem = find_root_problem(root) if os.path.lexists(root) else None
    if problem is not None:
        findings.append(GateFinding(problem, 0))
    elif os.path.lexists(root):
        tree = verify_snapshots(root, policy, progress)
        audit.add_tree(tree, root)
        snapshots, request_gated, stored = tree.records + tree.raw_only, tree.request_gated, tree.stored
        is_valid = not tree.findings
        unapproved = list(check_policy_approved(loaded, tree.settings))
        findings += [GateFinding(finding, 0) for finding in (*tree.findings, *unapproved)]
    compared = _compare_with_base(loaded, stored, base)
    findings += [GateFinding(finding, 0) for finding in compared.name_files(root)]
    findings += [GateFinding(finding, 0) for finding in check_declarations(loaded)]
    pending = load_pending(loaded.project)
    approved = load_approved_calls(loaded.project, policy) if pending and is_valid else ()
    calls = {call.id: call for call in approved}
    findings += find_pending_changes(judge_pending(loaded, pending, calls, are_settings_approved=not unapproved))
    if not findings and not snapshots:
        findings.append(GateFinding(nothing_approved(root), 0))
    return TreeGateReport(audit, findings, snapshots, request_gated, compared.line)


def _compare_with_base(loaded: LoadedConfig, stored: Mapping[str, StoredSnapshot], base: str | None) -> BaseCheck:
    try:
        return check_against_base(loaded.project, stored, base, starts=[current_folder()], loaded=loaded)
    except (CannotRead, NotJSON, InvalidFile):
        return BaseCheck()  # A broken approval is already a finding of the tree.


def find_pending_changes(changes: Iterable[PendingChange]) -> Iterator[GateFinding]:
    """Recorded changes that wait for approval: what `traceforge test` without a command finds."""
    for change in changes:
        if change.kind is ChangeKind.REFUSED:
            message = f"{change.id} cannot be approved: {change.reasons[0].message}"
        else:
            message = f"{change.id} {_CHANGE_TEXTS[change.kind]}, and waits for approval"
        finding = Finding(change.location, "", PENDING_RULE, message, _PENDING_HINT.format(id=change.id))
        yield GateFinding(finding, 0, tuple(dict.fromkeys(turn.scope for turn in change.turns)), change.id)
