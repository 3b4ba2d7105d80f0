"""Check one file of any kind.

In: a path. Out: its kind and its findings. Never: raises: a bug in a check becomes a finding.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.audit.file_kinds import FileKind, find_kind
from traceforge.canon import JSON, parse_json
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import read_file
from traceforge.findings import IO, Finding, internal_error_finding
from traceforge.snapshots.formats.snapshot_format import check_document

DAMAGED_TRACE_HINT = "Delete it. Traces are not committed; to have one again, record the call again."


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
    except NotJSON as exc:
        finding = exc.finding(task.file)
        is_trace = task.kind is FileKind.TRACE
        return FileOutcome(None, [finding._replace(hint=DAMAGED_TRACE_HINT) if is_trace else finding])
    except CannotRead as exc:
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
        case _:
            from traceforge.audit.other_file_check import check_other_value

            return check_other_value(kind, value, task.file, must_be_trace=task.kind is FileKind.TRACE)


def _unknown_file_findings(task: AuditTask) -> list[Finding]:
    """An unknown file is ignored in a folder, and a finding if the user named it."""
    if not task.named:
        return []
    return [Finding(task.file, "", IO, "not a file of a kind that TraceForge can check", "See: traceforge schema")]
