"""Bundles: ordered lists of artifacts, each with a role.

In: artifact ids with roles. Out: a bundle. Never: another order than the given one.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import insert, select, update

from traceforge.clock import now_text
from traceforge.context.model.content import pack_metadata, unpack_metadata
from traceforge.context.model.inputs import NewBundle
from traceforge.context.model.objects import Bundle, BundleItem, Deleted
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, check_usable, is_id, not_found
from traceforge.context.storage.tables import artifacts, bundle_items, bundles
from traceforge.ids import new_id

_KIND = "bundle"
_IDS_PER_STATEMENT = 500  # Ids in one statement; databases have a limit.


def create_bundle(tx: StoreTransaction, body: NewBundle) -> Bundle:
    """Make a bundle of artifacts.

    Raises:
        StoreRefused: an artifact does not exist; `param` says which.
        ContentPurged: an artifact was purged.
    """
    generation = tx.lock_generation()  # First, so that no purge runs between the checks and the insert.
    _check_artifacts(tx, body.items)
    bundle_id = new_id("bnd")
    sealed = tx.sealer.seal("bundles", bundle_id, generation, pack_metadata(body.metadata))
    row = {"id": bundle_id, "project_id": tx.project_id, "created_at": now_text(), **sealed._asdict()}
    tx.lock_inserts()
    tx.execute(insert(bundles), [row])
    items = [
        {
            "bundle_id": bundle_id,
            "position": position,
            "artifact_id": item.artifact_id,
            "role": item.role,
            "block_id": new_id("blk"),
        }
        for position, item in enumerate(body.items)
    ]
    if items:
        tx.execute(insert(bundle_items), items)
    return get_bundle(tx, bundle_id)


def get_bundle(tx: StoreTransaction, bundle_id: str) -> Bundle:
    """A bundle by its id."""
    return _bundles(tx, [tx.load(bundles, _KIND, bundle_id)])[0]


def list_bundles(tx: StoreTransaction, limit: int, after: str | None) -> Page[Bundle]:
    hidden = (bundles.c.deleted_at.is_(None), bundles.c.purged_by.is_(None))
    return list_page(tx, bundles, (), lambda rows: _bundles(tx, rows), limit=limit, after=after, visible=hidden)


def delete_bundle(tx: StoreTransaction, bundle_id: str) -> Deleted:
    """Hide it from lists and lookups. Sessions with this base bundle stay as they are."""
    tx.load(bundles, _KIND, bundle_id)
    tx.execute(update(bundles).where(bundles.c.id == bundle_id).values(deleted_at=now_text()))
    return Deleted(id=bundle_id)


def _check_artifacts(tx: StoreTransaction, items: list[BundleItem]) -> None:
    """Check that every artifact exists and was neither deleted nor purged."""
    wanted = list(dict.fromkeys(item.artifact_id for item in items))
    rows: dict[str, AnyRow] = {}
    columns = (artifacts.c.id, artifacts.c.deleted_at, artifacts.c.purged_by)
    for start in range(0, len(wanted), _IDS_PER_STATEMENT):
        ids = [artifact_id for artifact_id in wanted[start : start + _IDS_PER_STATEMENT] if is_id(artifact_id)]
        statement = select(*columns).where(artifacts.c.project_id == tx.project_id, artifacts.c.id.in_(ids))
        rows.update((row.id, row) for row in tx.fetch_all(statement))
    for position, item in enumerate(items):
        param = f"items[{position}].artifact_id"
        if item.artifact_id not in rows:
            raise not_found("artifact", item.artifact_id, param)
        check_usable(rows[item.artifact_id], "artifact", param)


def _bundles(tx: StoreTransaction, rows: Iterable[AnyRow]) -> list[Bundle]:
    rows = list(rows)
    items: dict[str, list[BundleItem]] = {row.id: [] for row in rows}
    order = (bundle_items.c.bundle_id, bundle_items.c.position)
    for item in tx.fetch_all(select(bundle_items).where(bundle_items.c.bundle_id.in_(list(items))).order_by(*order)):
        items[item.bundle_id].append(BundleItem(artifact_id=item.artifact_id, role=item.role))
    return [
        Bundle(
            id=row.id,
            items=items[row.id],
            metadata=unpack_metadata(
                tx.sealer.open("bundles", row.id, SealedColumns(row.sealed, row.wrapped_key, row.generation))
            ),
            created_at=row.created_at,
        )
        for row in rows
    ]
