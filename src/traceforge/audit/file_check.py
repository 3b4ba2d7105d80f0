"""Check one file of any kind.

In: a path. Out: its kind and its findings. Never: raises: a bug in a check becomes a finding.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from traceforge.audit.file_kinds import FileKind, find_kind
from traceforge.canon import JSON, parse_json
from traceforge.chat.execution_trace import check_execution_trace
from traceforge.context.model.context_snapshot import check_context_snapshot
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import read_file
from traceforge.findings import IO, Finding, internal_error_finding
from traceforge.modelio.recording_verifier import verify_session
from traceforge.snapshots.formats.approval_format import check_approval
from traceforge.snapshots.formats.snapshot_format import check_document
from traceforge.traces.trace_format import check_file_name, check_trace


class AuditTask(NamedTuple):
    """One file to check. `kind` is set if the file's folder decides its kind."""

    file: str
    kind: FileKind | None
    named: bool  # on the command line: it must be a TraceForge file, and a link is followed


class FileOutcome(NamedTuple):
    """The kind and the findings of one file."""

    kind: FileKind | None
    findings: list[Finding]


def check_file(task: AuditTask) -> FileOutcome:
    """Find the kind of one file, and check it. A bug in a check becomes a finding; other files are still checked."""
    try:
        return _check_file(task)
    except (CannotRead, NotJSON) as exc:
        return FileOutcome(None, [exc.finding(task.file)])
    except Exception as exc:  # noqa: BLE001 (becomes a finding: unchecked, never valid)
        return FileOutcome(None, [internal_error_finding(task.file, exc)])


def _check_file(task: AuditTask) -> FileOutcome:
    value = parse_json(read_file(task.file, follow_links=task.named))
    kind = task.kind or find_kind(value)
    return FileOutcome(kind, check_value(kind, value, task) if kind else _unknown_file_findings(task))


def check_value(kind: FileKind, value: JSON, task: AuditTask) -> list[Finding]:
    """Check a parsed document of a known kind."""
    match kind:
        case FileKind.SNAPSHOT:
            return check_document(value, task.file, owned=True)
        case FileKind.MANIFEST:
            return [Finding(task.file, "", IO, "a manifest is checked with its tree", "Name its folder.")]
        case FileKind.APPROVAL:
            return check_approval(value, task.file)
        case FileKind.MODEL_IO:
            return [
                Finding(task.file, violation.path, violation.rule_id, violation.message)
                for violation in verify_session(value).violations
            ]
        case FileKind.CONTEXT_SNAPSHOT:
            return check_context_snapshot(value, task.file)
        case FileKind.EXECUTION_TRACE:
            return check_execution_trace(value, task.file)
        case FileKind.TRACE:
            name = os.path.basename(task.file)
            misnamed = check_file_name(name, value, task.file) if task.kind is FileKind.TRACE else []
            return check_trace(value, task.file) + misnamed
        case FileKind.PACK:
            raise AssertionError("a pack is a folder")


def _unknown_file_findings(task: AuditTask) -> list[Finding]:
    """An unknown file is ignored in a folder, and a finding if the user named it."""
    if not task.named:
        return []
    return [Finding(task.file, "", IO, "not a file of a kind that TraceForge can check", "See: traceforge schema")]
