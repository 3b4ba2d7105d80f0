"""The change that a purge makes, inside of one transaction.

In: what goes, and the receipt that says so. Out: tombstones without content, and every other data key of the project
under the key of the next generation. Never: a row that is forgotten; where a data key is left under the old key, the
transaction fails and nothing was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, bindparam, case, delete, func, select, tuple_, update
from sqlalchemy.sql.dml import Update

from traceforge.context.compiler.branch_compilation import PAGE
from traceforge.context.model.objects import Progress, Removed, SessionStatus
from traceforge.context.purge.purge_reach import Reach, at_once
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

BATCH = 1000  # Rows that are wrapped anew together.
IDS_TOLD = 10_000  # So many ids of one kind stand in a receipt; the count is always whole.

_UNSEALED: dict[str, Any] = {"sealed": None, "wrapped_key": None, "generation": None}
_LIVE = (Progress.QUEUED.value, Progress.RUNNING.value)


def remove(tx: StoreTransaction, found: Reach, receipt_id: str) -> tuple[list[Removed], list[Removed]]:
    """Take the content of everything that goes; what was removed, and what cannot be read any more because of it."""
    gone = {**_UNSEALED, "purged_by": receipt_id}
    plain = {"content_digest": None, "size_bytes": None, "content_media_type": "", "sealed_metadata": None}
    _change(tx, artifacts, found.artifacts, {**gone, **plain})
    _change(tx, bundles, found.bundles, gone)
    _change(tx, events, found.events, {**gone, "content_digest": None})
    _change(tx, sessions, found.sessions, {**gone, "status": SessionStatus.TOMBSTONED.value})
    for some in at_once(sorted(found.sessions)):
        tx.execute(update(branches).where(branches.c.session_id.in_(some)).values(label=""))
    _change(tx, snapshots, found.snapshots, {"manifest_digest": None, "purged_by": receipt_id})
    _stop(tx, responses, found.responses, {**gone, "trace_id": None})
    _stop(tx, replay_runs, found.runs, {**gone, "evidence_digest": None})
    for items in at_once(sorted(found.items)):
        name = tuple_(replay_items.c.run_id, replay_items.c.position)
        tx.execute(update(replay_items).where(name.in_(items)).values({**gone, "trace_ids": None}))
    for answers in at_once(sorted(found.answers)):
        name = tuple_(idempotency.c.path, idempotency.c.key_digest)
        mine = idempotency.c.project_id == tx.project_id
        tx.execute(update(idempotency).where(mine, name.in_([tuple(one) for one in answers])).values(gone))
    states = _forget_compiled(tx, found)
    removed = [
        _told("artifact", found.artifacts),
        _told("event", found.events),
        _told("session", found.sessions),
        _told("bundle", found.bundles),
        _told("response", found.responses),
        _told("trace", found.traces),
        _told("replay_item", {f"{run_id}/{position}" for run_id, position in found.items}),
        Removed(kind="idempotency_answer", count=len(found.answers), ids=[]),
        Removed(kind="compiler_state", count=states, ids=[]),
    ]
    invalidated = [_told("snapshot", found.snapshots), _told("replay_run", found.runs)]
    return [one for one in removed if one.count], [one for one in invalidated if one.count]


def _told(kind: str, ids: Iterable[str]) -> Removed:
    ordered = sorted(ids)
    return Removed(kind=kind, count=len(ordered), ids=ordered[:IDS_TOLD])


def _change(tx: StoreTransaction, table: Table, ids: Iterable[str], values: dict[str, Any]) -> None:
    for some in at_once(sorted(ids)):
        tx.execute(update(table).where(table.c.id.in_(some), table.c.project_id == tx.project_id).values(values))


def _stop(tx: StoreTransaction, table: Table, ids: Iterable[str], values: dict[str, Any]) -> None:
    """The same for what may still be at work: it is told to stop, and finds that there is nothing to go on with."""
    working = table.c.status.in_(_LIVE)
    failed = {
        "status": case((working, Progress.FAILED.value), else_=table.c.status),
        "error_code": case((working, "purged"), else_=table.c.error_code),
        "cancel_requested": True,
    }
    _change(tx, table, ids, {**values, **failed})


def _forget_compiled(tx: StoreTransaction, found: Reach) -> int:
    """What was kept to compile faster, from the first block on that goes."""
    forgotten = 0
    whole = found.sessions | found.based
    for some in at_once(sorted(whole)):
        own = select(branches.c.id).where(branches.c.session_id.in_(some))
        forgotten += tx.execute(delete(prefixes).where(prefixes.c.branch_id.in_(own)))
        forgotten += tx.execute(delete(pages).where(pages.c.branch_id.in_(own)))
    for branch_id, sequence in found.first.items():
        later = and_(prefixes.c.branch_id == branch_id, prefixes.c.sequence >= sequence)
        forgotten += tx.execute(delete(prefixes).where(later))
        holding = and_(pages.c.branch_id == branch_id, (pages.c.page + 1) * PAGE >= sequence)
        forgotten += tx.execute(delete(pages).where(holding))
    return forgotten


def wrap_anew(tx: StoreTransaction, generation: int) -> int:
    """Put every data key of the project under the key of this generation; how many there are.

    Raises:
        DoesNotOpen: a row was damaged. Nothing may be changed: its key would be lost.
    """
    wrapped = 0
    for kind in SEALED_TABLES:
        wrapped += _wrap_table(tx, kind, generation)
        left = _of_project(tx, kind, select(func.count()).select_from(kind.table))
        behind = tx.fetch_one(
            left.where(kind.table.c.wrapped_key.is_not(None), kind.table.c.generation != generation)
        )
        if behind is None or behind[0]:
            raise BrokenSeal(f"some rows of {kind.name} are not under the new key", hint="Nothing was purged.")
    return wrapped


def _wrap_table(tx: StoreTransaction, kind: SealedTable, generation: int) -> int:
    table = kind.table
    name = [table.c[column] for column in kind.key]
    rows = _of_project(tx, kind, select(*name, table.c.wrapped_key, table.c.generation))
    rows = rows.where(table.c.wrapped_key.is_not(None)).order_by(*name).limit(BATCH)
    change = _wrapping(tx, kind)
    last: AnyRow | None = None
    wrapped = 0
    while batch := tx.fetch_all(rows if last is None else rows.where(_behind(name, last))):
        changes = [
            {
                **{f"key_{column}": getattr(row, column) for column in kind.key},
                "wrapped": tx.sealer.rewrap(kind.name, kind.row_id(row), row.wrapped_key, row.generation, generation),
                "now": generation,
            }
            for row in batch
        ]
        tx.execute(change, changes)
        wrapped += len(batch)
        last = batch[-1]
    return wrapped


def _behind(name: Sequence[ColumnElement[Any]], last: AnyRow) -> ColumnElement[bool]:
    return name[0] > last[0] if len(name) == 1 else tuple_(*name) > tuple(last[: len(name)])


def _wrapping(tx: StoreTransaction, kind: SealedTable) -> Update:
    table = kind.table
    named = [table.c[column] == bindparam(f"key_{column}") for column in kind.key]
    if kind.owner is None:
        named.append(table.c.project_id == tx.project_id)
    return update(table).where(*named).values(wrapped_key=bindparam("wrapped"), generation=bindparam("now"))


def _of_project(tx: StoreTransaction, kind: SealedTable, statement: Any) -> Any:  # noqa: ANN401 (a statement of any columns)
    table = kind.table
    if kind.owner is None:
        return statement.where(table.c.project_id == tx.project_id)
    owned = select(kind.owner.c.id).where(kind.owner.c.project_id == tx.project_id)
    return statement.where(table.c[kind.key[0]].in_(owned))
