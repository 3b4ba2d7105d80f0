"""Every table with sealed columns, and the name that the seal of a row is bound to.

A purge wraps every data key under a new key, so it must find every sealed row and know its name. A row that was
sealed under another name than `row_id` gives stops the purge. A test compares this list with the tables.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Table

from traceforge.context.storage.store_transaction import AnyRow
from traceforge.context.storage.tables import (
    api_keys,
    artifacts,
    branches,
    bundles,
    events,
    idempotency,
    purge_jobs,
    releases,
    replay_items,
    replay_runs,
    responses,
    sessions,
)


class SealedTable(NamedTuple):
    """A table, the columns that identify a row within a project, and the table that has the project's id."""

    table: Table
    key: tuple[str, ...]
    owner: Table | None = None  # None: the table has a project_id itself. Otherwise joined by its first key column.

    @property
    def name(self) -> str:
        """The name of the table in a seal."""
        return str(self.table.name)

    def row_id(self, row: AnyRow) -> str:
        """The name of a row in its seal."""
        return row_name(*(getattr(row, column) for column in self.key))


SEALED_TABLES = (
    SealedTable(api_keys, ("id",)),
    SealedTable(artifacts, ("id",)),
    SealedTable(bundles, ("id",)),
    SealedTable(sessions, ("id",)),
    SealedTable(branches, ("id",)),
    SealedTable(events, ("id",)),
    SealedTable(releases, ("id",)),
    SealedTable(responses, ("id",)),
    SealedTable(replay_runs, ("id",)),
    SealedTable(replay_items, ("run_id", "position"), replay_runs),
    SealedTable(purge_jobs, ("id",)),
    SealedTable(idempotency, ("path", "key_digest")),
)


def row_name(*key: object) -> str:
    """The name of a row for its seal, unique in its table."""
    return " ".join(str(column) for column in key)
