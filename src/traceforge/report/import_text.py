"""Lines of `traceforge import`.

In: the result of an import. Out: lines of text. Never: prints, or decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.canon import JSONObject
from traceforge.report.gate_text import change_json, change_lines
from traceforge.report.text_format import count, finding_lines
from traceforge.snapshots.record.cassette_import import CassetteImport
from traceforge.snapshots.record.pending_changes import ChangeKind


def import_lines(imported: CassetteImport) -> Iterator[str]:
    """Unreadable cassettes first, then pending changes, counts and the next step."""
    if imported.findings:
        yield finding_lines(imported.findings)
    yield from change_lines(imported.changes)
    if imported.unchanged:
        yield f"unchanged: {imported.unchanged}"
    if imported.unread:
        yield f"{count(imported.unread, 'call')} could not be recorded"
    if imported.without_test:
        yield f"{count(imported.without_test, 'cassette')} of no known test: any test can use the answers"
    broken = f", {count(len(imported.findings), 'finding')}" if imported.findings else ""
    others = f", {count(imported.others, 'other interaction')}" if imported.others else ""
    yield f"{count(imported.cassettes, 'cassette')} read: {count(imported.calls, 'model call')}{others}{broken}"
    if any(change.kind is not ChangeKind.REFUSED for change in imported.changes):
        yield 'next: traceforge diff, then traceforge approve --all --reason "…"'


def import_json(imported: CassetteImport, code: int) -> JSONObject:
    """The result of an import as JSON."""
    return {
        "exit_code": code,
        "cassettes": imported.cassettes,
        "calls": imported.calls,
        "others": imported.others,
        "without_test": imported.without_test,
        "unread": imported.unread,
        "unchanged": imported.unchanged,
        "pending": [change_json(change) for change in imported.changes],
        "findings": [dict(finding.to_json()) for finding in imported.findings],
    }
