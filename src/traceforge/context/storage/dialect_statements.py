"""What SQLite and PostgreSQL do not share, in one place: the other rooms do not know which database it is.

In: a connection inside a transaction. Out: the same effect on both databases. Never: a lock on SQLite, which has one
writer at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Executable, Table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError

_LOCK_NOT_AVAILABLE = "55P03"
_ADVISORY_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")
_READ_COMMITTED = text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
_SYNCHRONOUS_COMMIT = text("SET LOCAL synchronous_commit = on")
_NO_LOCK_TIMEOUT = text("SET LOCAL lock_timeout = DEFAULT")


class LockTimeout(Exception):
    """Another transaction held a lock for too long. This transaction can only be rolled back."""


def is_postgresql(connection: Connection) -> bool:
    """Whether locks are needed: SQLite has one writer at a time."""
    return connection.dialect.name == "postgresql"


def insert_missing(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> int:
    """Insert the rows whose key is not there yet; how many of one row were inserted (0 or 1)."""
    insert: Any = postgresql.insert if is_postgresql(connection) else sqlite.insert
    statement = insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    return connection.execute(statement, rows if len(rows) > 1 else rows[0]).rowcount


def insert_missing_within(connection: Connection, table: Table, row: dict[str, Any], wait_s: int) -> bool:
    """Insert a row unless its key is there; wait `wait_s` for a transaction that has just inserted it.

    Raises:
        LockTimeout: that transaction took longer.
    """
    if not is_postgresql(connection):
        return insert_missing(connection, table, [row]) == 1
    connection.execute(text(f"SET LOCAL lock_timeout = '{wait_s}s'"))
    with_timeout = postgresql.insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    inserted = execute_or_time_out(connection, with_timeout, row).one_or_none() is not None
    connection.execute(_NO_LOCK_TIMEOUT)
    return inserted


def execute_or_time_out(connection: Connection, statement: Executable, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 (SQLAlchemy's result)
    """Run a statement under a `lock_timeout` that was set before.

    Raises:
        LockTimeout: it had to wait for longer.
    """
    try:
        return connection.execute(statement, parameters)
    except OperationalError as exc:
        if getattr(exc.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise LockTimeout from None
        raise


def lock_for_transaction(connection: Connection, number: int) -> None:
    """Let one transaction at a time go on from here, among all processes that use the same number."""
    if is_postgresql(connection):
        connection.execute(_ADVISORY_LOCK, {"lock": number})


def require_durable_commit(connection: Connection) -> None:
    """Let every statement see what was committed before it, and let the commit wait for the disk.

    The first call of its transaction. SQLite is opened so that both are true of every transaction.
    """
    if is_postgresql(connection):
        connection.execute(_READ_COMMITTED)
        connection.execute(_SYNCHRONOUS_COMMIT)
