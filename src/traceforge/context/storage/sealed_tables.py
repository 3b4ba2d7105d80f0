"""Every table that holds something sealed, and what the seal of a row is bound to.

In: nothing. Out: for each such table how its rows are found and named. Never: a second opinion; whoever seals a row
names it as it is named here, or a purge, which wraps every data key anew, refuses to go on. A test holds this list
against the tables.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Table

from traceforge.context.storage.store_transaction import AnyRow
from traceforge.context.storage.tables import (
    artifacts,
    bundles,
    events,
    idempotency,
    replay_items,
    replay_runs,
    responses,
    sessions,
)


class SealedTable(NamedTuple):
    """A table, the columns that name a row within a project, and the table that knows the project."""

    table: Table
    key: tuple[str, ...]
    owner: Table | None = None  # None: the table has a project_id of its own. Otherwise joined by its first column.

    @property
    def name(self) -> str:
        """What the seal calls the table."""
        return str(self.table.name)

    def row_id(self, row: AnyRow) -> str:
        """What the seal calls a row."""
        return row_name(*(getattr(row, column) for column in self.key))


SEALED_TABLES = (
    SealedTable(artifacts, ("id",)),
    SealedTable(bundles, ("id",)),
    SealedTable(sessions, ("id",)),
    SealedTable(events, ("id",)),
    SealedTable(responses, ("id",)),
    SealedTable(replay_runs, ("id",)),
    SealedTable(replay_items, ("run_id", "position"), replay_runs),
    SealedTable(idempotency, ("path", "key_digest")),
)


def row_name(*key: object) -> str:
    """The name of a row for its seal: what tells it from the others of its table."""
    return " ".join(str(one) for one in key)
