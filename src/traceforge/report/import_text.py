"""What `import` says to a person.

In: what an import did. Out: lines of text. Never: prints, or decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.report.gate_text import change_lines, model_lines
from traceforge.report.text_format import count, finding_lines
from traceforge.snapshots.record.cassette_import import Imported
from traceforge.snapshots.record.pending_changes import Kind


def import_lines(done: Imported) -> Iterator[str]:
    """Broken cassettes first, then what became of the rest, and what comes next."""
    if done.findings:
        yield finding_lines(done.findings)
    yield from change_lines(done.changes)
    yield from model_lines(done.changes)
    if done.unchanged:
        yield f"unchanged: {done.unchanged}"
    if done.unread:
        yield f"{count(done.unread, 'call')} could not be kept, and nothing is known about them"
    if done.without_test:
        yield f"{count(done.without_test, 'cassette')} of no known test: what was in them answers any test"
    broken = f", {count(len(done.findings), 'finding')}" if done.findings else ""
    others = f", {count(done.others, 'other interaction')}" if done.others else ""
    yield f"{count(done.cassettes, 'cassette')} read: {count(done.calls, 'model call')}{others}{broken}"
    if any(change.kind is not Kind.REFUSED for change in done.changes):
        yield 'next: traceforge diff, then traceforge approve --all --reason "…"'
