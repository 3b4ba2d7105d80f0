"""Branches: lines of events that share their past.

In: a branch and an event on it. Out: a fork, which copies nothing. Never: moves a head; appends and merges do.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from sqlalchemy import insert, select, update

from traceforge.clock import now_text
from traceforge.context.history.branch_paths import BranchState, branch_path, is_on_path
from traceforge.context.model.inputs import BranchChange, NewBranch
from traceforge.context.model.objects import Branch
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, check_text, is_id, not_found
from traceforge.context.storage.tables import branches, events, sessions
from traceforge.ids import new_id

_KIND = "branch"


def load_branch(tx: StoreTransaction, session_id: str, branch_id: str, param: str | None = None) -> AnyRow:
    """The row of a branch of this session."""
    tx.load(sessions, "session", session_id)
    return load_branch_row(tx, session_id, branch_id, param)


def load_branch_row(tx: StoreTransaction, session_id: str, branch_id: str, param: str | None = None) -> AnyRow:
    """The row of a branch, also where its session was deleted: snapshots still read it."""
    row = tx.find(branches, branch_id)
    if row is None or row.session_id != session_id:
        raise not_found(_KIND, branch_id, param)
    return row


def fork_branch(tx: StoreTransaction, session_id: str, body: NewBranch) -> Branch:
    """Begin a branch at the head of another, or at any event on its path.

    Raises:
        StoreRefused: the branch does not exist, or the event is not on its path.
    """
    tx.lock_generation()  # First: a purge that this waits for may remove the session.
    tx.load(sessions, "session", session_id)
    source = load_branch_row(tx, session_id, body.fork_from_branch_id, "fork_from_branch_id")
    version, head = source.version, source.head_event_id
    if body.fork_from_event_id is not None and body.fork_from_event_id != head:
        version, head = _sequence_on_path(tx, source, body.fork_from_event_id), body.fork_from_event_id
    return insert_fork(tx, source, version, head, body.label)


def insert_fork(
    tx: StoreTransaction, source: AnyRow | BranchState, version: int, head: str | None, label: str
) -> Branch:
    """Insert a fork of `source` at a version and its event."""
    branch_id = new_id("br")
    row = {
        "id": branch_id,
        "project_id": tx.project_id,
        "session_id": source.session_id,
        "parent_branch_id": source.id,
        "forked_from_event_id": head,
        "forked_at": version,
        "head_event_id": head,
        "version": version,
        "created_at": now_text(),
        **_seal_label(tx, branch_id, label),
    }
    tx.lock_inserts()
    tx.execute(insert(branches), [row])
    return to_branch(tx, load_branch_row(tx, source.session_id, branch_id))


def get_branch(tx: StoreTransaction, session_id: str, branch_id: str) -> Branch:
    """A branch by its id."""
    return to_branch(tx, load_branch(tx, session_id, branch_id))


def list_branches(tx: StoreTransaction, session_id: str, limit: int, after: str | None) -> Page[Branch]:
    """The branches of a session, oldest first."""
    tx.load(sessions, "session", session_id)
    own = (branches.c.session_id == session_id,)
    return list_page(tx, branches, own, lambda rows: [to_branch(tx, row) for row in rows], limit=limit, after=after)


def update_branch(tx: StoreTransaction, session_id: str, branch_id: str, body: BranchChange) -> Branch:
    """Give a branch another label."""
    tx.lock_generation()  # As in `fork_branch`.
    load_branch(tx, session_id, branch_id)
    if body.label is not UNSET:
        tx.execute(update(branches).where(branches.c.id == branch_id).values(_seal_label(tx, branch_id, body.label)))
    return get_branch(tx, session_id, branch_id)


def _sequence_on_path(tx: StoreTransaction, source: AnyRow, event_id: str) -> int:
    """The sequence of an event on the path of a branch."""
    event = None
    if is_id(event_id):
        own = (events.c.id == event_id, events.c.project_id == tx.project_id)
        event = tx.fetch_one(select(events.c.branch_id, events.c.sequence).where(*own))
    if event is None or not is_on_path(branch_path(tx, source), event.branch_id, event.sequence):
        raise not_found(f"event on branch {source.id} with the id", event_id, "fork_from_event_id")
    sequence: int = event.sequence
    return sequence


def _seal_label(tx: StoreTransaction, branch_id: str, label: str) -> dict[str, Any]:
    return tx.sealer.seal_text("branches", branch_id, tx.lock_generation(), check_text(label, "label"))


def to_branch(tx: StoreTransaction, row: AnyRow) -> Branch:
    """The object of a row."""
    return Branch(
        id=row.id,
        session_id=row.session_id,
        parent_branch_id=row.parent_branch_id,
        forked_from_event_id=row.forked_from_event_id,
        head_event_id=row.head_event_id,
        version=row.version,
        label=tx.sealer.open_text("branches", row),
        created_at=row.created_at,
    )
