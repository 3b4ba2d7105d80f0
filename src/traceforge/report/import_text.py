"""Lines of `traceforge import`.

In: the result of an import. Out: lines of text. Never: prints, or decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from traceforge.canon import JSONObject
from traceforge.report.gate_text import TITLES, change_json
from traceforge.report.request_head_text import unknown_parts_text
from traceforge.report.text_format import PROMPT_ONLY, count, finding_lines, hint_line
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.record.cassette_import import CassetteImport
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.terminal import one_line

FINDINGS_SHOWN, NOTES_SHOWN = 5, 5  # A summary fits on a screen; the JSON report has everything.


def import_lines(imported: CassetteImport) -> Iterator[str]:
    """Unreadable cassettes first, then pending changes, counts and the next step."""
    if imported.findings:
        yield finding_lines(imported.findings[:FINDINGS_SHOWN])
        if len(imported.findings) > FINDINGS_SHOWN:
            yield f"… and {len(imported.findings) - FINDINGS_SHOWN} more findings: --json lists all"
    for kind, title in TITLES.items():
        changes = [change for change in imported.changes if change.kind is kind]
        if changes:
            yield f"{title}: {len(changes)}"
            yield from _note_lines(changes)
    if imported.unchanged:
        yield f"unchanged: {imported.unchanged}"
    if imported.unread:
        yield f"{count(imported.unread, 'call')} could not be recorded"
    if imported.linked:
        yield f"{count(imported.linked, 'cassette')} of a known test"
    if imported.without_test:
        yield f"{count(imported.without_test, 'cassette')} of no known test: any test can use the answers"
    broken = f", {count(len(imported.findings), 'finding')}" if imported.findings else ""
    others = f", {count(imported.others, 'interaction')} not imported" if imported.others else ""
    other_calls = f", {count(imported.other_calls, 'other call')}" if imported.other_calls else ""
    calls = count(imported.calls - imported.other_calls, "model call")
    yield f"{count(imported.cassettes, 'cassette')} read: {calls}{other_calls}{others}{broken}"
    if any(change.kind is not ChangeKind.REFUSED for change in imported.changes):
        yield 'next: traceforge status, traceforge diff, then traceforge approve --all --reason "…"'


def _note_lines(changes: Sequence[PendingChange]) -> Iterator[str]:
    """What a reader should know about changes of one kind: each note once, with the number of calls that have it."""
    notes: Counter[str] = Counter()
    hints: dict[str, str] = {}
    for change in changes:
        for reason in change.reasons:
            note = f"{one_line(reason.field)}: {one_line(reason.message)}"
            notes[note] += 1
            hints[note] = reason.hint
        if change.gate == REQUEST_GATE:
            notes[PROMPT_ONLY] += 1
        if change.redacted_count:
            notes["parts of the answer will replay as [REDACTED]"] += 1
        if unknown := unknown_parts_text(change.raw_response):
            notes[f"unknown, and so not compared: {unknown}"] += 1
    for note, number in notes.most_common(NOTES_SHOWN):
        yield f"    {note} ({count(number, 'call')})"
        if hints.get(note):
            yield f"    {hint_line(hints[note])}"
    if len(notes) > NOTES_SHOWN:
        yield f"    … and {len(notes) - NOTES_SHOWN} more notes: --json lists all"


def import_json(imported: CassetteImport, code: int) -> JSONObject:
    """The result of an import as JSON."""
    return {
        "exit_code": code,
        "cassettes": imported.cassettes,
        "calls": imported.calls,
        "other_calls": imported.other_calls,
        "others": imported.others,
        "linked": imported.linked,
        "without_test": imported.without_test,
        "unread": imported.unread,
        "unchanged": imported.unchanged,
        "pending": [change_json(change) for change in imported.changes],
        "findings": [dict(finding.to_json()) for finding in imported.findings],
    }
