"""The blocks of a snapshot with their contents.

In: a snapshot. Out: its blocks in order, decrypted. Never: purged content, or content of another project.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from sqlalchemy import Table, select

from traceforge.canon import JSON
from traceforge.context.compiler.branch_compilation import BlockOrigin
from traceforge.context.compiler.pinned_snapshots import read_blocks
from traceforge.context.history.artifacts import open_artifact
from traceforge.context.history.events import decrypt_event
from traceforge.context.model.content import ContentBlock, unpack
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, check_usable
from traceforge.context.storage.tables import artifacts, events

_IDS_PER_STATEMENT = 500  # Ids in one statement.


def open_snapshot(tx: StoreTransaction, row: AnyRow) -> list[ContentBlock]:
    """Every block of a snapshot, in the order of its manifest.

    Raises:
        ContentPurged: the content of a block was purged.
    """
    blocks = read_blocks(tx, row)
    contents = _BlockReader(tx, ((block.event_id, block.artifact_id) for block in blocks))
    return [
        contents.open_block(block.id, block.role, block.kind, block.event_id, block.artifact_id) for block in blocks
    ]


def open_origins(tx: StoreTransaction, origins: Sequence[BlockOrigin]) -> list[ContentBlock]:
    """The blocks of sources, in causal order."""
    contents = _BlockReader(tx, ((origin.event_id, origin.artifact_id) for origin in origins))
    return [
        contents.open_block(
            origin.source.block_id, origin.source.role, origin.source.kind, origin.event_id, origin.artifact_id
        )
        for origin in origins
    ]


class _BlockReader:
    """Reads the rows of many blocks at once, and decrypts them one by one."""

    def __init__(self, tx: StoreTransaction, origins: Iterable[tuple[str | None, str | None]]) -> None:
        pairs = list(origins)
        self._tx = tx
        self._artifacts = _read_rows(
            tx, artifacts, {artifact_id for _, artifact_id in pairs if artifact_id is not None}
        )
        self._events = _read_rows(
            tx, events, {event_id for event_id, artifact_id in pairs if event_id is not None and artifact_id is None}
        )

    def open_block(
        self, block_id: str, role: str, kind: str, event_id: str | None, artifact_id: str | None
    ) -> ContentBlock:
        if artifact_id is not None:
            row = self._artifacts[artifact_id]
            content, media_type = open_artifact(self._tx, row)
            return ContentBlock(block_id, role, kind, _value(content), media_type)
        row = self._events[cast("str", event_id)]
        return ContentBlock(block_id, role, kind, _value(unpack(kind, decrypt_event(self._tx, row)[1])))


def _value(content: Any) -> JSON | bytes:  # noqa: ANN401 (as it was packed)
    return cast("JSON | bytes", content)


def _read_rows(tx: StoreTransaction, table: Table, wanted: set[str]) -> dict[str, AnyRow]:
    ids = sorted(wanted)
    rows: dict[str, AnyRow] = {}
    for start in range(0, len(ids), _IDS_PER_STATEMENT):
        batch = ids[start : start + _IDS_PER_STATEMENT]
        statement = select(table).where(table.c.project_id == tx.project_id, table.c.id.in_(batch))
        for row in tx.fetch_all(statement):
            rows[row.id] = check_usable(row, table.name) if getattr(row, "deleted_at", None) is None else row
    return rows
