"""Check one file of a kind other than a snapshot."""

from __future__ import annotations

import os

from traceforge.audit.file_kinds import FileKind
from traceforge.canon import JSON
from traceforge.chat.execution_trace import check_execution_trace
from traceforge.context.model.context_snapshot import check_context_snapshot
from traceforge.findings import Finding
from traceforge.modelio.recording_verifier import verify_session
from traceforge.snapshots.formats.approval_format import check_approval
from traceforge.traces.trace_format import check_file_name, check_trace


def check_other_value(kind: FileKind, value: JSON, file: str, *, must_be_trace: bool) -> list[Finding]:
    """Check a parsed document. `must_be_trace`: it is in the traces folder, so its name must be that of a trace."""
    match kind:
        case FileKind.APPROVAL:
            return check_approval(value, file)
        case FileKind.MODEL_IO:
            return [
                Finding(file, violation.path, violation.rule_id, violation.message)
                for violation in verify_session(value).violations
            ]
        case FileKind.CONTEXT_SNAPSHOT:
            return check_context_snapshot(value, file)
        case FileKind.EXECUTION_TRACE:
            return check_execution_trace(value, file)
        case FileKind.TRACE:
            misnamed = check_file_name(os.path.basename(file), value, file) if must_be_trace else []
            return check_trace(value, file) + misnamed
        case _:
            raise AssertionError(f"{kind} is not checked as a file of its own")
