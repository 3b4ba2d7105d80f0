"""Removes the content of a purge and wraps all other data keys again, in one transaction.

In: the reach of a purge, and the id of its receipt. Out: tombstones without content, and every other data key of the
project under the key of the next generation. Never: a forgotten row: where a data key is left under the old key, the
transaction fails and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, bindparam, case, delete, func, select, tuple_, update
from sqlalchemy.sql.dml import Update

from traceforge.context.compiler.branch_compilation import PAGE_EVENTS
from traceforge.context.model.objects import Progress, Removed, SessionStatus
from traceforge.context.purge.purge_reach import PurgeReach, batches
from traceforge.context.storage.sealed_tables import SEALED_TABLES, SealedTable
from traceforge.context.storage.sealing import BrokenSeal
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import (
    artifacts,
    branches,
    bundles,
    events,
    idempotency,
    pages,
    prefixes,
    replay_items,
    replay_runs,
    responses,
    sessions,
    snapshots,
)

BATCH = 1000  # Rows that are rewrapped together.
RECEIPT_IDS_MAX = 10_000  # Ids of one kind in a receipt; the count is always complete.

_UNSEALED: dict[str, Any] = {"sealed": None, "wrapped_key": None, "generation": None}
_LIVE = (Progress.QUEUED.value, Progress.RUNNING.value)


def remove_content(tx: StoreTransaction, reach: PurgeReach, receipt_id: str) -> tuple[list[Removed], list[Removed]]:
    """Remove the content of everything in reach; the removed objects, and those that became unreadable by it."""
    emptied = {**_UNSEALED, "purged_by": receipt_id}
    emptied_artifact = {
        "content_digest": None,
        "size_bytes": None,
        "expires_at": None,
        "sealed_media_type": None,
        "sealed_metadata": None,
    }
    _update_rows(tx, artifacts, reach.artifacts, {**emptied, **emptied_artifact})
    _update_rows(tx, bundles, reach.bundles, emptied)
    _update_rows(tx, events, reach.events, {**emptied, "content_digest": None})
    _update_rows(tx, sessions, reach.sessions, {**emptied, "status": SessionStatus.TOMBSTONED.value})
    for batch in batches(sorted(reach.sessions)):
        tx.execute(update(branches).where(branches.c.session_id.in_(batch)).values(_UNSEALED))
    _update_rows(tx, snapshots, reach.snapshots, {"manifest_digest": None, "purged_by": receipt_id})
    _stop_rows(tx, responses, reach.responses, {**emptied, "trace_id": None})
    _stop_rows(tx, replay_runs, reach.runs, {**emptied, "evidence_digest": None})
    for items in batches(sorted(reach.items)):
        name = tuple_(replay_items.c.run_id, replay_items.c.position)
        tx.execute(update(replay_items).where(name.in_(items)).values({**emptied, "trace_ids": None}))
    for answers in batches(sorted(reach.answers)):
        name = tuple_(idempotency.c.path, idempotency.c.key_digest)
        mine = idempotency.c.project_id == tx.project_id
        tx.execute(update(idempotency).where(mine, name.in_([tuple(answer) for answer in answers])).values(emptied))
    states = _delete_compiled(tx, reach)
    removed = [
        count_removed("artifact", reach.artifacts),
        count_removed("event", reach.events),
        count_removed("session", reach.sessions),
        count_removed("bundle", reach.bundles),
        count_removed("response", reach.responses),
        count_removed("replay_item", {f"{run_id}/{position}" for run_id, position in reach.items}),
        Removed(kind="idempotency_answer", count=len(reach.answers), ids=[]),
        Removed(kind="compiler_state", count=states, ids=[]),
    ]
    invalidated = [count_removed("snapshot", reach.snapshots), count_removed("replay_run", reach.runs)]
    return [kind for kind in removed if kind.count], [kind for kind in invalidated if kind.count]


def count_removed(kind: str, ids: Iterable[str]) -> Removed:
    """A line of a receipt."""
    ordered = sorted(ids)
    return Removed(kind=kind, count=len(ordered), ids=ordered[:RECEIPT_IDS_MAX])


def _update_rows(tx: StoreTransaction, table: Table, ids: Iterable[str], values: dict[str, Any]) -> None:
    for batch in batches(sorted(ids)):
        tx.execute(update(table).where(table.c.id.in_(batch), table.c.project_id == tx.project_id).values(values))


def _stop_rows(tx: StoreTransaction, table: Table, ids: Iterable[str], values: dict[str, Any]) -> None:
    """Like `_update_rows`, for work that may still run: it is marked as failed and canceled."""
    working = table.c.status.in_(_LIVE)
    failed = {
        "status": case((working, Progress.FAILED.value), else_=table.c.status),
        "error_code": case((working, "purged"), else_=table.c.error_code),
        "cancel_requested": True,
    }
    _update_rows(tx, table, ids, {**values, **failed})


def _delete_compiled(tx: StoreTransaction, reach: PurgeReach) -> int:
    """Delete the stored states and pages of compilers, from the first removed block on; how many."""
    deleted = 0
    whole_sessions = reach.sessions | reach.dependent_sessions
    for batch in batches(sorted(whole_sessions)):
        own = select(branches.c.id).where(branches.c.session_id.in_(batch))
        deleted += tx.execute(delete(prefixes).where(prefixes.c.branch_id.in_(own)))
        deleted += tx.execute(delete(pages).where(pages.c.branch_id.in_(own)))
    for branch_id, sequence in reach.first_sequences.items():
        later = and_(prefixes.c.branch_id == branch_id, prefixes.c.sequence >= sequence)
        deleted += tx.execute(delete(prefixes).where(later))
        holding = and_(pages.c.branch_id == branch_id, (pages.c.page + 1) * PAGE_EVENTS >= sequence)
        deleted += tx.execute(delete(pages).where(holding))
    return deleted


def rewrap_keys(tx: StoreTransaction, generation: int) -> int:
    """Wrap every data key of the project under the key of this generation; how many there are.

    Raises:
        BrokenSeal: a row was damaged. The purge must not go on: the key of the row would be lost.
    """
    wrapped = 0
    for sealed_table in SEALED_TABLES:
        wrapped += _rewrap_table(tx, sealed_table, generation)
        rows = _of_project(tx, sealed_table, select(func.count()).select_from(sealed_table.table))
        outdated = tx.fetch_one(
            rows.where(sealed_table.table.c.wrapped_key.is_not(None), sealed_table.table.c.generation != generation)
        )
        if outdated is None or outdated[0]:
            raise BrokenSeal(
                f"some rows of {sealed_table.name} are not under the new key; nothing was purged",
                hint="List damaged objects with `traceforge context verify`, and restore the database from a backup.",
            )
    return wrapped


def _rewrap_table(tx: StoreTransaction, sealed_table: SealedTable, generation: int) -> int:
    table = sealed_table.table
    name = [table.c[column] for column in sealed_table.key]
    rows = _of_project(tx, sealed_table, select(*name, table.c.wrapped_key, table.c.generation))
    rows = rows.where(table.c.wrapped_key.is_not(None)).order_by(*name).limit(BATCH)
    change = _rewrap_statement(tx, sealed_table)
    last: AnyRow | None = None
    wrapped = 0
    while batch := tx.fetch_all(rows if last is None else rows.where(_is_after(name, last))):
        changes = [
            {
                **{f"key_{column}": getattr(row, column) for column in sealed_table.key},
                "wrapped": tx.sealer.rewrap(
                    sealed_table.name, sealed_table.row_id(row), row.wrapped_key, row.generation, generation
                ),
                "now": generation,
            }
            for row in batch
        ]
        tx.execute(change, changes)
        wrapped += len(batch)
        last = batch[-1]
    return wrapped


def _is_after(name: Sequence[ColumnElement[Any]], last: AnyRow) -> ColumnElement[bool]:
    return name[0] > last[0] if len(name) == 1 else tuple_(*name) > tuple(last[: len(name)])


def _rewrap_statement(tx: StoreTransaction, sealed_table: SealedTable) -> Update:
    table = sealed_table.table
    conditions = [table.c[column] == bindparam(f"key_{column}") for column in sealed_table.key]
    if sealed_table.owner is None:
        conditions.append(table.c.project_id == tx.project_id)
    return update(table).where(*conditions).values(wrapped_key=bindparam("wrapped"), generation=bindparam("now"))


def _of_project(tx: StoreTransaction, sealed_table: SealedTable, statement: Any) -> Any:  # noqa: ANN401 (a statement of any columns)
    table = sealed_table.table
    if sealed_table.owner is None:
        return statement.where(table.c.project_id == tx.project_id)
    owned = select(sealed_table.owner.c.id).where(sealed_table.owner.c.project_id == tx.project_id)
    return statement.where(table.c[sealed_table.key[0]].in_(owned))
