"""Check snapshot trees, and that of a project against its base commit and its declarations.

In: folders. Out: findings and counts, added to the report of the audit. Never: passes a tree without a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from traceforge.audit.file_kinds import FileKind
from traceforge.audit.parallel_map import map_in_parallel
from traceforge.config import CHECKS_DIR, SNAPSHOTS_DIR
from traceforge.errors import CannotRead, InvalidFile, MissingExtra, NotJSON
from traceforge.findings import IO, Finding
from traceforge.snapshots.formats.approved_policy import check_policy_approved
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.tree_layout import StoredSnapshot
from traceforge.snapshots.record.pending_changes import first_approval_hint
from traceforge.snapshots.tree.base_commit import check_against_base
from traceforge.snapshots.tree.declaration_effects import check_declarations
from traceforge.snapshots.tree.tree_verification import TreeReport, verify_tree
from traceforge.terminal import ProgressReporter, no_progress

if TYPE_CHECKING:
    from traceforge.audit.auditor import AuditReport, BaseCommit, TreeRules

NOTHING_BESIDE_CHECKS = "no snapshots, no approvals and no traces here, and no commit says whether there were any"
COMPARE_HINT = "Compare with a commit: traceforge verify --base REF. To run the checks: traceforge check run"


class TreeAuditor:
    """Checks snapshot trees for one audit."""

    def __init__(self, report: AuditReport, rules: TreeRules, progress: ProgressReporter) -> None:
        self._report = report
        self._rules = rules
        self._progress = progress
        self._is_base_checked = False

    def check_tree(self, folder: str) -> None:
        """Check the approved files of one tree."""
        rules = self._rules
        tree = verify_snapshots(
            folder,
            rules.policy,
            self._progress,
            require_signed=rules.require_signed,
            may_be_empty=rules.base is not None
            and is_tree_of(rules.base.project, folder)
            and _has_checks(rules.base.project),
        )
        self._report.add_tree(tree, folder)
        if rules.loaded is not None and is_tree_of(rules.loaded.project, folder):
            self._report.findings += check_policy_approved(rules.loaded, tree.settings)
        if rules.base is not None and is_tree_of(rules.base.project, folder):
            self._check_against_base(rules.base, folder, tree.stored)

    def check_missing_tree(self) -> None:
        """Compare a project with its base commit where no tree of it was found: it may have been removed."""
        base = self._rules.base
        if base is not None and not self._is_base_checked:
            self._check_against_base(base, os.path.relpath(os.path.join(base.project, SNAPSHOTS_DIR)), {})

    def check_check_files(self) -> None:
        """Check the check files of the project, where it is compared as a whole."""
        base, report = self._rules.base, self._report
        if base is None or not _has_checks(base.project):
            return
        # Deferred: the packages of assertions take 100 ms, and most projects have no checks.
        from traceforge.checks.runs.check_verification import verify_check_files

        is_alone = not report.checked.total() and not report.is_compared and not report.findings
        try:
            files, findings = verify_check_files(base.project)
        except MissingExtra as exc:
            if report.checked.total():
                report.notes.append(f"the check files were not checked: {exc.message}")
            else:
                report.findings.append(Finding(CHECKS_DIR, "", IO, exc.message, exc.hint))
            return
        if files:
            report.checked[str(FileKind.CHECK_FILE)] += files
        report.findings += findings
        if is_alone and files:
            report.findings.append(Finding(SNAPSHOTS_DIR, "", IO, NOTHING_BESIDE_CHECKS, COMPARE_HINT))

    def check_declarations(self) -> None:
        """Check that what the project declares as irrelevant hides no more than it may."""
        if self._rules.loaded is not None:
            self._report.findings += check_declarations(self._rules.loaded)

    def _check_against_base(self, base: BaseCommit, folder: str, stored: Mapping[str, StoredSnapshot]) -> None:
        if self._is_base_checked:
            return
        self._is_base_checked = True
        try:
            compared = check_against_base(
                base.project,
                stored,
                base.ref,
                starts=[base.start],
                loaded=self._rules.loaded,
                require_signed=self._rules.require_signed,
            )
        except (InvalidFile, NotJSON, CannotRead):
            return  # A broken approval is already a finding of the tree.
        self._report.base_line, self._report.is_compared = compared.line, compared.is_compared
        self._report.findings += compared.name_files(folder)


def verify_snapshots(
    folder: str,
    policy: ModelPolicy,
    progress: ProgressReporter = no_progress,
    *,
    require_signed: bool = False,
    may_be_empty: bool = False,
) -> TreeReport:
    """Check one snapshot tree, on every core; findings name files relative to the current folder.

    A tree without a single record is unchecked, not valid; unless it `may_be_empty`, because the project has checks
    instead, and its approvals say that there was none.
    """
    try:
        report = verify_tree(
            folder,
            policy,
            lambda check, tasks: map_in_parallel(check, tasks, progress),
            require_signed=require_signed,
        )
    except CannotRead as exc:
        return TreeReport(0, 0, (exc.finding(folder),))
    findings = [finding._replace(file=os.path.join(folder, finding.file)) for finding in report.findings]
    is_expected = may_be_empty and report.approvals
    if not report.records and not report.raw_only and not findings and not is_expected:
        findings.append(nothing_approved(folder))
    return report._replace(findings=tuple(findings))


def _has_checks(project: str) -> bool:
    return os.path.isdir(os.path.join(project, CHECKS_DIR))


def is_tree_of(project: str, folder: str) -> bool:
    """Whether a folder is the snapshot tree of a project."""
    return os.path.realpath(folder) == os.path.realpath(os.path.join(project, SNAPSHOTS_DIR))


def nothing_approved(root: str) -> Finding:
    """The finding for a snapshot tree without a snapshot: it must not pass."""
    hint = first_approval_hint(os.path.dirname(os.path.abspath(root)))
    return Finding(root, "", IO, "nothing to verify: no snapshots yet", hint)
