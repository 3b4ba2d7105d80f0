"""One transaction of one project, lent to an operation.

In: a connection, a project, its keys. Out: rows of that project. Never: a row of another one; the id of another
project's object is as unknown as any other.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Executable, Row, Select, Table, bindparam, select

from traceforge.clock import now_text
from traceforge.context.storage.dialect_statements import (
    insert_missing,
    insert_missing_within,
    require_durable_commit,
)
from traceforge.context.storage.insert_locks import lock_inserts
from traceforge.context.storage.prepared_statements import StatementCursor
from traceforge.context.storage.sealing import Sealer
from traceforge.context.storage.tables import projects
from traceforge.errors import ContentPurged, StoreRefused
from traceforge.ids import id_pattern

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"


_ID = re.compile(id_pattern("[a-z]{2,4}"))
_LOCKED_GENERATION = select(projects.c.generation).with_for_update(read=True)


class StoreTransaction:
    """A connection, the project and its sealer; every operation of the store gets one."""

    __slots__ = ("_cursor", "_generation", "_inserts_locked", "connection", "project_id", "sealer")

    def __init__(self, connection: Connection, project_id: str, sealer: Sealer) -> None:
        self.connection = connection
        self.project_id = project_id
        self.sealer = sealer
        self._cursor: StatementCursor | None = None
        self._generation: int | None = None
        self._inserts_locked = False

    @property
    def cursor(self) -> StatementCursor:
        """For prepared statements, in the same transaction."""
        if self._cursor is None:
            self._cursor = StatementCursor(self.connection.connection.cursor(), self.connection.dialect)
        return self._cursor

    def fetch_one(self, statement: Executable) -> AnyRow | None:
        """The only row, or None."""
        return self.connection.execute(statement).one_or_none()

    def fetch_all(self, statement: Executable) -> list[AnyRow]:
        return list(self.connection.execute(statement).all())

    def execute(self, statement: Executable, rows: list[dict[str, Any]] | None = None) -> int:
        """Run a statement; the number of rows it changed."""
        return self.connection.execute(statement, rows).rowcount

    def lock_generation(self) -> int:
        """The generation to seal under; a purge waits until this transaction ends."""
        if self._generation is None:
            self._generation = lock_generation(self.connection, self.project_id)
        return self._generation

    def insert_missing(self, table: Table, rows: list[dict[str, Any]]) -> int:
        """Insert the rows whose key is not there yet; of one row, whether it was inserted (0 or 1)."""
        return insert_missing(self.connection, table, rows)

    def insert_missing_within(self, table: Table, row: dict[str, Any], wait_s: int) -> bool:
        """Insert a row unless its key is there; wait for a transaction that has just inserted it.

        Raises:
            LockTimeout: that transaction took longer than `wait_s`. This one can only be rolled back.
        """
        return insert_missing_within(self.connection, table, row, wait_s)

    def require_durable_commit(self) -> None:
        """See what others commit meanwhile, and let the commit wait for the disk. Before any other statement."""
        require_durable_commit(self.connection)

    def lock_inserts(self) -> None:
        """Let lists wait for what this transaction is about to insert.

        Call it before taking row locks, such as that of a branch: otherwise a writer and a list can deadlock.
        """
        if not self._inserts_locked:
            self.lock_generation()  # First: a transaction that waits for a purge must not hold the lists up.
            lock_inserts(self.connection, self.project_id)
            self._inserts_locked = True

    def find(self, table: Table, row_id: str) -> AnyRow | None:
        """A row of this project, also one that was deleted or purged."""
        if not is_id(row_id):
            return None
        return self.connection.execute(
            _select_by_id(table), {"row": row_id, "project": self.project_id}
        ).one_or_none()

    def load(self, table: Table, kind: str, row_id: str, *, param: str | None = None) -> AnyRow:
        """A row of this project that was neither deleted nor purged; `kind` is its name in errors.

        Raises:
            StoreRefused: it does not exist, was deleted, or has expired.
            ContentPurged: its content was purged.
        """
        row = self.find(table, row_id)
        if row is None:
            raise not_found(kind, row_id, param)
        return check_usable(row, kind, param)


@cache
def _select_by_id(table: Table) -> Select[tuple[Any, ...]]:
    """Built once for each table: SQLAlchemy takes longer to build a statement than to run it."""
    return select(table).where(table.c.id == bindparam("row"), table.c.project_id == bindparam("project"))


def lock_generation(connection: Connection, project_id: str, param: str | None = None) -> int:
    """The generation of a project to seal under; a purge of the project waits until the transaction ends.

    Raises:
        StoreRefused: the project does not exist.
    """
    row = None
    if is_id(project_id):
        row = connection.execute(_LOCKED_GENERATION.where(projects.c.id == project_id)).one_or_none()
    if row is None:
        raise not_found("project", project_id, param)
    generation: int = row.generation
    return generation


def check_usable(row: AnyRow, kind: str, param: str | None = None) -> AnyRow:
    """The row itself.

    Raises:
        StoreRefused: it was deleted, or has expired and is not purged yet.
        ContentPurged: its content was purged.
    """
    purged_by = getattr(row, "purged_by", None)
    if purged_by is not None:
        raise ContentPurged(row.id, purged_by)
    if getattr(row, "deleted_at", None) is not None:
        raise StoreRefused(f"{kind} {row.id} was deleted", reason="not_found", status=404, param=param)
    expires_at = getattr(row, "expires_at", None)
    if expires_at is not None and expires_at <= now_text():
        message = f"{row.id} was ephemeral and expired at {expires_at}"
        raise StoreRefused(message, reason="expired", status=410, param=param)
    return row


def is_id(text: str) -> bool:
    """Whether this has the form of an id. Check before a query: PostgreSQL refuses some texts, such as a NUL."""
    return _ID.match(text) is not None


def not_found(kind: str, name: str, param: str | None = None) -> StoreRefused:
    """The error for an object that does not exist, or belongs to another project."""
    return StoreRefused(f"there is no {kind} {name}", reason="not_found", status=404, param=param)


def check_text(text: str, param: str) -> str:
    """The text itself, which both databases can store.

    Raises:
        StoreRefused: it holds a NUL or an unpaired surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid_text(param) from None
    if "\0" in text:
        raise _invalid_text(param)
    return text


def _invalid_text(param: str) -> StoreRefused:
    return StoreRefused(
        f"{param} contains a NUL or an unpaired surrogate",
        reason="invalid_text",
        param=param,
    )
