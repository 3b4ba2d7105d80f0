"""From pending changes to committed snapshots.

In: changes a person approves, and why. Out: records, wire answers, manifest and approval, written together. Never:
approves what was refused, or what was recorded against another state of the tree than the one that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from traceforge.clock import now
from traceforge.config import LoadedConfig
from traceforge.errors import CannotApprove
from traceforge.snapshots.approve.tree_commit import Committed, RecordChange, commit_changes
from traceforge.snapshots.record.pending_changes import Kind, Pending, drop_pending
from traceforge.snapshots.tree.approved_calls import load_approved
from traceforge.snapshots.tree.id_prefix import choose


def approve(
    loaded: LoadedConfig, changes: Sequence[Pending], *, reason: str, tag: str = "", sign: bool = False
) -> Committed:
    """Approve changes, all or none.

    Raises:
        CannotApprove: one of them was refused, or the tree is another one since it was recorded.
        InvalidFile: one of them is no snapshot.
        CannotWrite: the tree cannot be written.
    """
    there = {one.id: one.hash for one in load_approved(loaded.project, loaded.config.models)}
    for change in changes:
        if change.kind is Kind.REFUSED:
            first = change.reasons[0]
            raise CannotApprove(f"{change.id} cannot be approved: {first.message}", hint=first.hint)
        if there.get(change.id) != change.before:
            message = f"{change.id} was recorded against another snapshot than the one that is there now"
            raise CannotApprove(message, hint="Record again: traceforge record -- COMMAND.")
    written = [
        RecordChange(change.provider, change.id, change.record, change.wire_text.encode()) for change in changes
    ]
    done = commit_changes(loaded.project, loaded.config.models, written, reason=reason, tag=tag, sign=sign, now=now())
    drop_pending(loaded.project, [change.id for change in changes])
    return done


def choose_pending(changes: Iterable[Pending], names: Sequence[str]) -> list[Pending]:
    """The changes of these ids, or of what they begin with.

    Raises:
        NotFound: there is none of that name, or there are several.
    """
    return choose(changes, names, noun="pending change", see="traceforge status")
