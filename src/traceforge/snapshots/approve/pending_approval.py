"""Approve pending changes: `traceforge approve`.

In: pending changes, and the reason. Out: records, raw responses, manifest and approval, written together. Never:
approves a refused change, or one that was recorded against another state of its snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from traceforge.clock import now
from traceforge.config import LoadedConfig
from traceforge.errors import CannotApprove
from traceforge.snapshots.approve.tree_commit import CommitResult, SnapshotChange, commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange, delete_pending
from traceforge.snapshots.tree.approved_calls import load_approved_calls
from traceforge.snapshots.tree.declaration_effects import find_excessive_declarations
from traceforge.snapshots.tree.id_prefix import select_by_id_prefix


def approve_changes(
    loaded: LoadedConfig,
    changes: Sequence[PendingChange],
    *,
    reason: str,
    tag: str = "",
    sign: bool = False,
    approve_policy: bool = False,
    base: str = "",
) -> CommitResult:
    """Approve changes, all or none; with `approve_policy` the settings of the project too, and checks that demand
    less than in the commit `base`, or than this machine knows they did.

    Raises:
        CannotApprove: a change was refused, its snapshot changed since it was recorded, or a declaration of the
            project hides too much.
        InvalidFile: a change breaks a rule of the format.
        CannotWrite: the tree cannot be written.
    """
    policy = ModelPolicy.from_config(loaded.config)
    approved_calls = load_approved_calls(loaded.project, policy, skip_old=True)
    if findings := find_excessive_declarations(loaded, approved_calls):
        raise CannotApprove(findings[0].message, hint=findings[0].hint)
    current_hashes = {call.id: call.hash for call in approved_calls}
    for change in changes:
        if change.kind is ChangeKind.REFUSED:
            first_reason = change.reasons[0]
            raise CannotApprove(f"{change.id} cannot be approved: {first_reason.message}", hint=first_reason.hint)
        if current_hashes.get(change.id) != change.before:
            message = f"{change.id} was recorded before its snapshot was changed"
            raise CannotApprove(message, hint="Record again: traceforge record -- COMMAND.")
    snapshot_changes = [
        SnapshotChange(change.provider, change.id, change.record, change.raw_response_text.encode())
        for change in changes
    ]
    result = commit_changes(
        loaded.project,
        policy,
        snapshot_changes,
        reason=reason,
        tag=tag,
        sign=sign,
        now=now(),
        keep_old=True,
        config=loaded.config,
        approve_policy=approve_policy,
        base=base,
    )
    delete_pending(loaded.project, [change.id for change in changes])
    return result


def select_pending(changes: Iterable[PendingChange], names: Sequence[str]) -> list[PendingChange]:
    """The changes of these ids or id prefixes.

    Raises:
        NotFound: no change matches a name, or several match a prefix.
    """
    return select_by_id_prefix(changes, names, noun="pending change", see="traceforge status")
