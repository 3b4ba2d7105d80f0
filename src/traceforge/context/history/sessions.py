"""Context sessions: their base bundles, their metadata and their status.

In: bundles and metadata. Out: a session with its first branch. Never: moves a head.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET
from sqlalchemy import bindparam, insert, select, update

from traceforge.clock import now_text
from traceforge.context.model.content import pack_metadata, unpack_metadata
from traceforge.context.model.inputs import NewSession, SessionChange
from traceforge.context.model.objects import Deleted, Metadata, Session, SessionStatus
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import branches, bundles, session_bundles, sessions
from traceforge.errors import StoreRefused
from traceforge.ids import new_id

_KIND = "session"

_BASE_BUNDLES = (
    select(session_bundles)
    .where(session_bundles.c.session_id.in_(bindparam("sessions", expanding=True)))
    .order_by(session_bundles.c.session_id, session_bundles.c.position)
)


def create_session(tx: StoreTransaction, body: NewSession) -> Session:
    """Make a session and its first branch, which is empty.

    Raises:
        StoreRefused: a bundle does not exist, or is listed twice; `param` says which.
    """
    generation = tx.lock_generation()  # First, so that no purge runs between the checks and the insert.
    for position, bundle_id in enumerate(body.base_bundle_ids):
        if bundle_id in body.base_bundle_ids[:position]:
            raise StoreRefused(
                f"bundle {bundle_id} is listed twice: its blocks would have the same ids twice",
                reason="duplicate_bundle",
                param=f"base_bundle_ids[{position}]",
            )
        tx.load(bundles, "bundle", bundle_id, param=f"base_bundle_ids[{position}]")
    session_id, branch_id, created_at = new_id("ses"), new_id("br"), now_text()
    sealed = tx.sealer.seal("sessions", session_id, generation, pack_metadata(body.metadata))
    own = {"project_id": tx.project_id, "created_at": created_at}
    row = {"id": session_id, "default_branch_id": branch_id, "status": SessionStatus.ACTIVE.value}
    tx.lock_inserts()
    tx.execute(insert(sessions), [{**row, **own, **sealed._asdict()}])
    first = {"id": branch_id, "session_id": session_id, "forked_at": 0, "version": 0}
    tx.execute(insert(branches), [{**first, **own}])
    base = [
        {"session_id": session_id, "position": position, "bundle_id": bundle_id}
        for position, bundle_id in enumerate(body.base_bundle_ids)
    ]
    if base:
        tx.execute(insert(session_bundles), base)
    return get_session(tx, session_id)


def get_session(tx: StoreTransaction, session_id: str) -> Session:
    """A session by its id."""
    return _sessions(tx, [tx.load(sessions, _KIND, session_id)])[0]


def list_sessions(tx: StoreTransaction, limit: int, after: str | None) -> Page[Session]:
    hidden = (sessions.c.deleted_at.is_(None), sessions.c.purged_by.is_(None))
    return list_page(tx, sessions, (), lambda rows: _sessions(tx, rows), limit=limit, after=after, visible=hidden)


def update_session(tx: StoreTransaction, session_id: str, body: SessionChange) -> Session:
    """Replace the metadata, archive the session, or make it active again."""
    tx.load(sessions, _KIND, session_id)
    values: dict[str, Any] = {}
    if body.metadata is not UNSET:
        metadata = pack_metadata(body.metadata)
        values |= tx.sealer.seal("sessions", session_id, tx.lock_generation(), metadata)._asdict()
    if body.status is not UNSET:
        values["status"] = SessionStatus(body.status).value
    if values:
        tx.execute(update(sessions).where(sessions.c.id == session_id).values(values))
    return get_session(tx, session_id)


def delete_session(tx: StoreTransaction, session_id: str) -> Deleted:
    """Hide it from lists and lookups. Snapshots of the session stay as they are."""
    tx.load(sessions, _KIND, session_id)
    values = {"deleted_at": now_text(), "status": SessionStatus.TOMBSTONED.value}
    tx.execute(update(sessions).where(sessions.c.id == session_id).values(values))
    return Deleted(id=session_id)


def base_bundle_ids(tx: StoreTransaction, session_ids: list[str]) -> dict[str, list[str]]:
    """The base bundles of each session, in order."""
    base: dict[str, list[str]] = {session_id: [] for session_id in session_ids}
    for row in tx.connection.execute(_BASE_BUNDLES, {"sessions": session_ids}):
        base[row.session_id].append(row.bundle_id)
    return base


def open_metadata(tx: StoreTransaction, row: AnyRow) -> Metadata:
    """Decrypt the metadata of a session's row."""
    return unpack_metadata(
        tx.sealer.open("sessions", row.id, SealedColumns(row.sealed, row.wrapped_key, row.generation))
    )


def _sessions(tx: StoreTransaction, rows: Iterable[AnyRow]) -> list[Session]:
    rows = list(rows)
    base = base_bundle_ids(tx, [row.id for row in rows])
    return [
        Session(
            id=row.id,
            base_bundle_ids=base[row.id],
            default_branch_id=row.default_branch_id,
            status=SessionStatus(row.status),
            metadata=open_metadata(tx, row),
            created_at=row.created_at,
        )
        for row in rows
    ]
