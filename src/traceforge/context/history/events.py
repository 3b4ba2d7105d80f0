"""Events: appended under compare-and-swap, listed in causal order, never changed except that a purge removes content.

In: events, and the `BranchState` to append them behind. Out: the stored events, or a conflict with the current head.
Never: appends to a branch that has moved since that state was read: one statement checks and moves the head, so this
holds under any isolation level. A caller that decided on an older read first compares the head that it saw with the
one of now: `check_head`.

A branch's version is the sequence of its head; without a head it is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from sqlalchemy import bindparam, insert, select, update

from traceforge.clock import now_text
from traceforge.context.history.branch_paths import BranchState, branch_path, clip_path, event_rows, is_on_path
from traceforge.context.history.branches import load_branch
from traceforge.context.model.block_source import event_role
from traceforge.context.model.content import join_metadata, pack, pack_metadata, split_metadata, unpack
from traceforge.context.model.inputs import Append, NewEvent
from traceforge.context.model.objects import Content, Event, EventType, Metadata, SessionStatus
from traceforge.context.storage.paging import Page, check_limit, unknown_cursor
from traceforge.context.storage.prepared_statements import PreparedStatement
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, is_id, not_found
from traceforge.context.storage.tables import artifacts, branches, events, projects, sessions
from traceforge.errors import BranchConflict, StoreRefused
from traceforge.ids import new_id

_BRANCH_STATE = PreparedStatement(
    select(
        branches.c.id,
        branches.c.version,
        branches.c.head_event_id,
        branches.c.parent_branch_id,
        sessions.c.id.label("session_id"),
        sessions.c.status,
        projects.c.generation,
    )
    .select_from(branches)
    .join(sessions, sessions.c.id == branches.c.session_id)
    .join(projects, projects.c.id == branches.c.project_id)
    .where(
        branches.c.id == bindparam("branch"),
        branches.c.session_id == bindparam("session"),
        branches.c.project_id == bindparam("project"),
    )
    # No purge and no archiving until this is committed. `of` sets the lock order: the project first, as in a purge.
    # In another order, an append and a purge can deadlock. SQLite ignores the clause: it has one writer at a time.
    .with_for_update(read=True, of=(projects, sessions))
)
_MOVE_HEAD = PreparedStatement(
    update(branches)
    .where(
        branches.c.id == bindparam("branch"),
        branches.c.version == bindparam("seen_version"),
        branches.c.head_event_id.is_not_distinct_from(bindparam("seen_head")),
    )
    .values(head_event_id=bindparam("new_head"), version=bindparam("new_version"))
)
_CURRENT_HEAD = PreparedStatement(
    select(branches.c.version, branches.c.head_event_id).where(branches.c.id == bindparam("branch"))
)
_COLUMNS = tuple(column.name for column in events.c if column.name != "purged_by")  # empty: no new event is purged
_INSERT_EVENT = PreparedStatement(insert(events), _COLUMNS)


class PackedEvent(NamedTuple):
    """An event before it is appended: its content and metadata as bytes, and the digest of the content."""

    event_type: EventType
    role: str
    kind: str  # the event type and the form of its content, such as "note" (a text), "note+json", "note+binary"
    digest: str
    payload_ref: str | None
    content: Content | None
    data: bytes  # What is sealed: the metadata, and the content where it is inline.
    metadata: Metadata
    rebased_from: str | None = None  # the event of another branch that this one repeats
    merged_from: str | None = None  # the head of the merged branch, for a checkpoint or a summary


def append_event(tx: StoreTransaction, session_id: str, branch_id: str, body: Append) -> Event:
    """Append one event if the branch still has the head and version that the caller expects.

    Raises:
        BranchConflict: the branch has moved on; the error holds its head. Nothing was written.
        StoreRefused: the session, branch or artifact does not exist or was deleted, the event cannot be
            stored, or the session is archived.
        ContentPurged: the session or the artifact was purged.
    """
    inline = pack_inline_event(body.event)
    # Locked before an artifact is loaded: from here on, no purge can remove it.
    branch = read_branch_for_append(tx, session_id, branch_id)
    check_head(branch, body.expected_version, body.expected_head_event_id)
    return append_packed_events(tx, branch, [inline or pack_event(tx, body.event)])[0]


def read_branch_for_append(tx: StoreTransaction, session_id: str, branch_id: str) -> BranchState:
    """The branch as it is now; its project and session are locked (shared) until the transaction ends.

    The branch is not locked: `append_packed_events` checks that it has not moved.

    Raises:
        StoreRefused: the session or the branch does not exist, or the session was deleted or is archived.
        ContentPurged: the session was purged.
    """
    state = _find_branch_state(tx, session_id, branch_id)
    if state is None:
        tx.load(sessions, "session", session_id)  # raises if the session is missing; else it is the branch
        raise not_found("branch", branch_id)
    if state.status != SessionStatus.ACTIVE.value:
        tx.load(sessions, "session", session_id)  # raises where the session was deleted or purged
        raise StoreRefused(
            f"session {session_id} is archived: you can read, fork and compile it, but not append to it",
            reason="session_archived",
            status=409,
            hint=f"Activate it first: traceforge context session update {session_id} --status active",
        )
    return state


def _find_branch_state(tx: StoreTransaction, session_id: str, branch_id: str) -> BranchState | None:
    if not (is_id(branch_id) and is_id(session_id)):
        return None
    row = tx.cursor.fetch_one(_BRANCH_STATE, {"branch": branch_id, "session": session_id, "project": tx.project_id})
    return None if row is None else BranchState._make(row)


def check_head(branch: BranchState, version: int, head_event_id: str | None) -> None:
    """Check that the branch still has the head that the caller has seen.

    Raises:
        BranchConflict: it has moved on.
    """
    if branch.version != version or branch.head_event_id != head_event_id:
        expected = f"version {version} with head {head_event_id or 'none'}"
        raise BranchConflict(branch.version, branch.head_event_id, expected=expected)


def pack_event(tx: StoreTransaction, body: NewEvent, param: str = "event") -> PackedEvent:
    """Pack an event, inline or with a reference to an artifact; `param` is the name of its field, for errors.

    Raises:
        StoreRefused: neither or both of `payload_ref` and `content`, the artifact does not exist or was deleted, or
            the content or metadata cannot be stored.
        ContentPurged: the artifact was purged.
    """
    inline = pack_inline_event(body, param)
    if inline is not None:
        return inline
    artifact = tx.load(artifacts, "artifact", cast("str", body.payload_ref), param=f"{param}.payload_ref")
    return pack_reference(EventType(body.event_type), artifact, body.metadata, f"{param}.metadata")


def pack_inline_event(body: NewEvent, param: str = "event") -> PackedEvent | None:
    """Pack an event that holds its content; None where it refers to an artifact.

    Raises:
        StoreRefused: neither or both of `payload_ref` and `content`, or content or metadata that cannot be stored.
    """
    if (body.payload_ref is None) == (body.content is None):
        raise StoreRefused(
            "give either `content` or `payload_ref`", reason="invalid_content", param=f"{param}.content"
        )
    if body.content is None:
        return None
    event_type = EventType(body.event_type)
    content = pack(event_type, body.content, f"{param}.content")
    data = join_metadata(pack_metadata(body.metadata, f"{param}.metadata"), content.data)
    role = event_role(event_type)
    return PackedEvent(event_type, role, content.kind, content.digest, None, body.content, data, body.metadata)


def pack_reference(
    event_type: EventType, artifact: AnyRow, metadata: Metadata, param: str = "event.metadata"
) -> PackedEvent:
    """Pack an event whose content is an artifact; `param` is the field of the metadata, for errors.

    Raises:
        StoreRefused: the metadata cannot be stored.
    """
    form = artifact.kind.partition("+")[2]  # of the content: "json", "binary" or "" for a text
    kind = str(event_type) + (f"+{form}" if form else "")
    data = join_metadata(pack_metadata(metadata, param), b"")
    return PackedEvent(
        event_type, event_role(event_type), kind, artifact.content_digest, artifact.id, None, data, metadata
    )


def append_packed_events(tx: StoreTransaction, branch: BranchState, packed_events: list[PackedEvent]) -> list[Event]:
    """Append packed events behind the head that `branch` has, and move the head once.

    Raises:
        BranchConflict: the branch has moved on since it was loaded.
    """
    created_at = now_text()
    rows: list[dict[str, Any]] = []
    parent, sequence = branch.head_event_id, branch.version
    for packed in packed_events:
        event_id = new_id("evt")
        sequence += 1
        sealed = tx.sealer.seal("events", event_id, branch.generation, packed.data)
        rows.append(
            {
                "id": event_id,
                "project_id": tx.project_id,
                "session_id": branch.session_id,
                "branch_id": branch.id,
                "parent_event_id": parent,
                "sequence": sequence,
                "event_type": packed.event_type.value,
                "role": packed.role,
                "kind": packed.kind,
                "payload_ref": packed.payload_ref,
                "content_digest": packed.digest,
                "block_id": new_id("blk"),  # of the block that this event becomes in a compiled prompt
                "rebased_from": packed.rebased_from,
                "merged_from": packed.merged_from,
                "sealed": sealed.sealed,
                "wrapped_key": sealed.wrapped_key,
                "generation": sealed.generation,
                "created_at": created_at,
            }
        )
        parent = event_id
    # The head first: if the branch has moved on, nothing is written.
    expected = {"branch": branch.id, "seen_version": branch.version, "seen_head": branch.head_event_id}
    if not tx.cursor.execute(_MOVE_HEAD, {**expected, "new_head": parent, "new_version": sequence}):
        head = tx.cursor.fetch_one(_CURRENT_HEAD, {"branch": branch.id})
        assert head is not None
        raise BranchConflict(*head, expected=f"version {branch.version} with head {branch.head_event_id or 'none'}")
    for row in rows:
        tx.cursor.execute(_INSERT_EVENT, row)
    return [_new_event(row, packed) for row, packed in zip(rows, packed_events, strict=True)]


def list_events(tx: StoreTransaction, session_id: str, branch_id: str, limit: int, after: str | None) -> Page[Event]:
    """The events of a branch in causal order, those inherited at the fork first.

    Raises:
        StoreRefused: the branch does not exist, the limit is out of range, or `after` is not an event of the branch.
        ContentPurged: the session was purged.
    """
    check_limit(limit)
    path = branch_path(tx, load_branch(tx, session_id, branch_id))
    start = 0 if after is None else _page_start_sequence(tx, path, after)
    rows = list(event_rows(tx, clip_path(path, start, start + limit + 1)))
    return Page(data=[to_event(tx, row) for row in rows[:limit]], has_more=len(rows) > limit)


def decrypt_event(tx: StoreTransaction, row: AnyRow) -> tuple[Metadata, bytes]:
    """Decrypt the metadata of an event, and its inline content as bytes."""
    return split_metadata(
        tx.sealer.open("events", row.id, SealedColumns(row.sealed, row.wrapped_key, row.generation))
    )


def to_event(tx: StoreTransaction, row: AnyRow) -> Event:
    """Convert a row to an `Event`; a purged one has no content and metadata."""
    metadata: Metadata = {}
    content = None
    if row.purged_by is None:
        metadata, data = decrypt_event(tx, row)
        if row.payload_ref is None:
            content = cast("Content", unpack(row.kind, data))
    return Event(
        id=row.id,
        session_id=row.session_id,
        branch_id=row.branch_id,
        parent_event_id=row.parent_event_id,
        sequence=row.sequence,
        event_type=EventType(row.event_type),
        payload_ref=row.payload_ref,
        content=content,
        content_digest=row.content_digest,
        block_id=row.block_id,
        rebased_from=row.rebased_from,
        merged_from=row.merged_from,
        metadata=metadata,
        created_at=row.created_at,
        purged_by=row.purged_by,
    )


def _new_event(row: dict[str, Any], packed: PackedEvent) -> Event:
    return Event(
        id=row["id"],
        session_id=row["session_id"],
        branch_id=row["branch_id"],
        parent_event_id=row["parent_event_id"],
        sequence=row["sequence"],
        event_type=packed.event_type,
        payload_ref=packed.payload_ref,
        content=packed.content,
        content_digest=packed.digest,
        block_id=row["block_id"],
        rebased_from=packed.rebased_from,
        merged_from=packed.merged_from,
        metadata=packed.metadata,
        created_at=row["created_at"],
    )


def _page_start_sequence(tx: StoreTransaction, path: list[Any], after: str) -> int:
    row = tx.find(events, after)
    if row is None or not is_on_path(path, row.branch_id, row.sequence):
        raise unknown_cursor(after)
    sequence: int = row.sequence
    return sequence
