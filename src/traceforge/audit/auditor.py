"""Find and check every TraceForge file under some paths.

In: paths. Out: what was checked, by kind, and every finding, sorted. Never: follows a link, stops at a bad file, or
passes when there was nothing to check: that is a finding.

The checks of snapshot trees, packs and the trace storage are imported when such a folder is found: the first would
add 40 % to the CPU time in which `verify` starts for one file, each of the others over a tenth.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from traceforge.audit.file_check import AuditTask, check_file
from traceforge.audit.file_kinds import FileKind, find_kind
from traceforge.audit.parallel_map import map_in_parallel
from traceforge.canon import JSON, parse_json
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import IO, ExitCode, Finding, exit_code
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree.state_folder import RECORD_FIRST_HINT
from traceforge.terminal import ProgressReporter, no_progress

if TYPE_CHECKING:
    from traceforge.audit.tree_auditor import TreeAuditor
    from traceforge.snapshots.tree.tree_verification import TreeReport

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__"})
MANIFEST = "manifest.json"
PACK_MARK = "run.json"


class AuditReport(Struct):
    """What was checked, and the findings."""

    checked: Counter[str] = field(default_factory=Counter)
    request_gated: int = 0
    findings: list[Finding] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)  # their files, as findings name them
    base_line: str = ""  # which commit the snapshots were compared with
    is_compared: bool = False  # with a commit
    notes: list[str] = field(default_factory=list)  # what a reader should know, and what makes nothing red

    @property
    def exit_code(self) -> ExitCode:
        """0: all valid. 1: findings. 3: something could not be checked."""
        return exit_code(self.findings)

    def add_tree(self, tree: TreeReport, folder: str) -> None:
        """Add the report of the snapshot tree in a folder."""
        self.snapshots += [os.path.join(folder, stored.file) for stored in tree.stored.values()]
        self.checked[str(FileKind.SNAPSHOT)] += tree.records + tree.raw_only
        if tree.approvals:
            self.checked[str(FileKind.APPROVAL)] += tree.approvals
        self.request_gated += tree.request_gated
        self.findings += tree.findings
        self.notes += tree.notes

    def to_json(self) -> dict[str, JSON]:
        """The fields that the command's `--json` prints."""
        return {
            "ok": not self.findings,
            "exit_code": int(self.exit_code),
            "checked": dict(sorted(self.checked.items())),
            "request_gated": self.request_gated,
            **({"base": self.base_line} if self.base_line else {}),
            "findings": [dict(finding.to_json()) for finding in self.findings],
            "notes": list(self.notes),
        }


class BaseCommit(NamedTuple):
    """The commit that a project's snapshots are compared with.

    Without `ref` it is the base of the build in CI, and none elsewhere. `start` is where the project was found from.
    """

    project: str
    ref: str | None
    start: str


class TreeRules(NamedTuple):
    """What snapshot trees are checked against."""

    policy: ModelPolicy
    loaded: LoadedConfig | None  # the project whose settings must be the approved ones
    base: BaseCommit | None
    require_signed: bool


class Auditor:
    """Collects the files under some paths, and checks them. For one use."""

    def __init__(
        self,
        policy: ModelPolicy,
        traces_dir: str,
        progress: ProgressReporter = no_progress,
        base: BaseCommit | None = None,
        loaded: LoadedConfig | None = None,
        *,
        require_signed: bool = False,
    ) -> None:
        """`loaded` is the project whose settings must be the approved ones."""
        self._tree_rules = TreeRules(policy, loaded, base, require_signed)
        self._traces_dir = os.path.realpath(traces_dir)
        self._progress = progress
        self._folders: list[tuple[str, str]] = []  # as named, and its real path
        self._files: list[AuditTask] = []
        self._report = AuditReport()

    def verify(self, paths: Sequence[str], *, named: bool = True) -> AuditReport:
        """Check everything under `paths`. A path that the user `named` may be a link; a default one may not."""
        for path in paths:
            self._collect(path, named)
        while self._folders:
            self._collect_folder(*self._folders.pop())
        if self._tree_rules.base is not None:
            self._trees.check_missing_tree()
        for outcome in map_in_parallel(check_file, self._files, self._progress):
            if outcome.kind is not None:
                self._report.checked[str(outcome.kind)] += 1
            self._report.findings += outcome.findings
        if self._tree_rules.base is not None:
            self._trees.check_check_files()
        if not self._report.checked.total() and not self._report.findings:
            where = ", ".join(paths) or "."
            self._report.findings.append(nothing_to_verify(where) if named else nothing_stored(where))
        if self._tree_rules.base is not None:
            self._trees.check_declarations()
        self._report.findings.sort()
        return self._report

    @cached_property
    def _trees(self) -> TreeAuditor:
        from traceforge.audit.tree_auditor import TreeAuditor

        return TreeAuditor(self._report, self._tree_rules, self._progress)

    def _collect(self, path: str, named: bool) -> None:
        folder, name = os.path.split(path)
        if os.path.isdir(path) and (named or not os.path.islink(path)):
            self._folders.append((os.path.normpath(path), os.path.realpath(os.path.normpath(path))))
        elif name == MANIFEST and _holds_snapshots(folder or "."):
            self._folders.append((folder or ".", os.path.realpath(folder or ".")))
        else:
            self._files.append(AuditTask(path, None, named))

    def _collect_folder(self, folder: str, real: str) -> None:
        try:
            entries = list_folder(folder)
        except CannotRead as exc:
            self._report.findings.append(exc.finding(folder))
            return
        if os.path.basename(os.path.abspath(folder)) == SNAPSHOTS_DIR or _holds_snapshots(folder):
            self._trees.check_tree(folder)
        elif any(entry.name == PACK_MARK for entry in entries):
            self._report.checked[str(FileKind.PACK)] += 1
            self._report.findings += check_pack(folder)
        else:
            kind = FileKind.TRACE if self._holds_traces(real) else None
            if real == self._traces_dir:
                entries = self._check_trace_folders(folder, entries)
            for entry in entries:
                self._collect_entry(entry, real, kind)

    def _check_trace_folders(self, folder: str, entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
        """Check spool, chunks and archives of the traces folder; returns the other entries."""
        from traceforge.traces.storage_check import OWN_FOLDERS, check_trace_storage

        if not any(entry.name in OWN_FOLDERS for entry in entries):
            return entries
        traces, findings = check_trace_storage(folder)
        self._report.checked[str(FileKind.TRACE)] += traces
        self._report.findings += findings
        return [entry for entry in entries if entry.name not in OWN_FOLDERS]

    def _holds_traces(self, real: str) -> bool:
        """Whether the folder is the traces folder or below it: a file there must be a trace, however damaged."""
        return os.path.join(real, "").startswith(os.path.join(self._traces_dir, ""))

    def _collect_entry(self, entry: os.DirEntry[str], parent: str, kind: FileKind | None) -> None:
        path = os.path.normpath(entry.path)
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED_FOLDERS:
                self._folders.append(
                    (path, os.path.join(parent, entry.name))
                )  # Not a link, so its real path is known.
        elif entry.name.endswith(".json") or (entry.is_symlink() and os.path.isdir(path)):
            self._files.append(AuditTask(path, kind, named=False))  # `check_file` refuses a linked folder.


def check_pack(folder: str) -> list[Finding]:
    """Check a pack; findings name its files relative to the current folder."""
    from traceforge.packs.pack_verifier import pack_findings, verify_pack

    return pack_findings(verify_pack(folder))


def nothing_to_verify(where: str) -> Finding:
    """The finding for a check that had nothing to check: it must not pass."""
    hint = "Name a file or folder of TraceForge, such as .ai-snapshots."
    return Finding(where, "", IO, "nothing to verify: no TraceForge file was found", hint)


def nothing_stored(where: str) -> Finding:
    """The finding for a project without files of TraceForge, or with its settings alone: it must not pass."""
    message = "nothing to verify: no snapshots and no traces yet"
    return Finding(where, "", IO, message, RECORD_FIRST_HINT)


def nothing_traced(root: str) -> Finding:
    """The finding for a project without a trace: it must not pass."""
    return Finding(root, "", IO, "nothing to verify: no traces yet", "Make traces first: traceforge run -- COMMAND")


def _holds_snapshots(folder: str) -> bool:
    """Whether the folder has the manifest of a snapshot tree."""
    try:
        return (
            find_kind(parse_json(read_file(os.path.join(folder, MANIFEST), follow_links=False))) is FileKind.MANIFEST
        )
    except (CannotRead, NotJSON):
        return False
