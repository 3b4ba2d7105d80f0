"""Seal what the first schema stored in the clear: labels, reasons, targets with their parameters, media types.

The responses' targets and finish reasons move into the content that is sealed already. Nothing else may change here
later: databases of the first schema are migrated by these lines for ever.

Revision ID: 0002
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from traceforge.canon import json_bytes, parse_json
from traceforge.context.storage.alembic_steps import KEYRING_OPTION
from traceforge.context.storage.sealing import Sealer
from traceforge.errors import StoreUnavailable

revision = "0002"
down_revision = "0001"

_BATCH = 500
_TEXTS = {"api_keys": "label", "branches": "label", "purge_jobs": "reason", "releases": "targets"}
_SEALED = ("sealed", "wrapped_key", "generation")
_MEDIA_TYPE = "sealed_media_type"


def upgrade() -> None:
    """Add the sealed columns, fill them, and drop the plain ones."""
    for table in _TEXTS:
        op.add_column(table, sa.Column("sealed", sa.LargeBinary(), nullable=True))
        op.add_column(table, sa.Column("wrapped_key", sa.LargeBinary(), nullable=True))
        op.add_column(table, sa.Column("generation", sa.Integer(), nullable=True))
    op.add_column("artifacts", sa.Column(_MEDIA_TYPE, sa.LargeBinary(), nullable=True))
    for table, column in _TEXTS.items():
        _seal_texts(table, column)
    _seal_media_types()
    _seal_responses()
    op.drop_index(op.f("ix_releases_project_id_targets_digest"), table_name="releases")
    plain = [*_TEXTS.items(), ("releases", "targets_digest"), ("artifacts", "content_media_type"),
             ("responses", "target"), ("responses", "finish_reason")]  # fmt: skip
    for table, column in plain:
        op.drop_column(table, column)


def _seal_texts(table: str, column: str) -> None:
    """Seal a text, in rows that had nothing sealed until now."""
    generations = dict(_fetch(sa.select(*_columns("projects", "id", "generation"))))

    def seal(row: Any) -> dict[str, Any]:  # noqa: ANN401 (a row of any columns)
        generation = generations[row.project_id]
        return _sealer(row.project_id).seal_text(table, row.id, generation, getattr(row, column))

    _change_rows(table, (column,), seal, {column: ""})


def _seal_media_types() -> None:
    def seal(row: Any) -> dict[str, Any]:  # noqa: ANN401
        row_key = _sealer(row.project_id).load_row_key("artifacts", row.id, row.wrapped_key, row.generation)
        return {_MEDIA_TYPE: row_key.seal(row.content_media_type.encode(), _MEDIA_TYPE.encode())}

    _change_rows("artifacts", ("content_media_type", *_SEALED), seal, {"content_media_type": ""})


def _seal_responses() -> None:
    def seal(row: Any) -> dict[str, Any]:  # noqa: ANN401
        row_key = _sealer(row.project_id).load_row_key("responses", row.id, row.wrapped_key, row.generation)
        content: Any = parse_json(row_key.open(row.sealed))
        content |= {"target": parse_json(row.target.encode()), "finish_reason": row.finish_reason}
        return {"sealed": row_key.seal(json_bytes(content))}

    plain = {"target": "", "finish_reason": None}
    _change_rows("responses", ("target", "finish_reason", *_SEALED), seal, plain)


def _change_rows(
    table: str, names: tuple[str, ...], seal: Callable[[Any], dict[str, Any]], plain: dict[str, str | None]
) -> None:
    """Seal the rows of a table and overwrite their plain columns. A row that was purged has nothing left to seal."""
    columns = _columns(table, "id", "project_id", *names)
    target = sa.table(table, *map(sa.column, ("id", *plain, *_SEALED, _MEDIA_TYPE)))
    for row in _read_rows(columns):
        was_purged = "wrapped_key" in names and row.wrapped_key is None
        values = plain if was_purged else {**plain, **seal(row)}
        op.get_bind().execute(sa.update(target).where(target.c.id == row.id).values(values))


def _read_rows(columns: list[sa.ColumnClause[Any]]) -> Iterator[Any]:
    """The rows in the order of their ids, some at a time."""
    last = ""
    statement = sa.select(*columns).order_by(columns[0]).limit(_BATCH)
    while rows := _fetch(statement.where(columns[0] > last)):
        yield from rows
        last = rows[-1].id


def _fetch(statement: sa.Select[Any]) -> list[Any]:
    return list(op.get_bind().execute(statement).all())


def _columns(table: str, *names: str) -> list[sa.ColumnClause[Any]]:
    return list(sa.table(table, *map(sa.column, names)).c)


def _sealer(project_id: str) -> Sealer:
    keyring = op.get_context().opts[KEYRING_OPTION]
    if keyring is None:
        message = "the database is of an older version, which can be migrated only with its keyring"
        raise StoreUnavailable(message, hint="Open it with `traceforge context`, and name the keyring with --keys.")
    return Sealer(keyring, project_id)
