"""Statements that are run so often that SQLAlchemy's way to the driver counts.

In: a statement, once; parameters, with every call. Out: rows as plain tuples. Never: SQL written by hand; it is
compiled from the same tables as everything else, once for each kind of database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql import ClauseElement


class PreparedStatement:
    """A statement that is compiled once for each kind of database; `columns` are those of an insert."""

    def __init__(self, statement: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = None if columns is None else list(columns)
        self._compiled: dict[str, tuple[str, Sequence[str] | None]] = {}

    def compile_for(self, dialect: Dialect) -> tuple[str, Sequence[str] | None]:
        """The SQL, and the order of its parameters where it takes them by position."""
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            statement: Any = self._statement.compile(dialect=dialect, column_keys=self._columns)
            compiled = self._compiled[dialect.name] = (str(statement), statement.positiontup)
        return compiled


class StatementCursor:
    """A cursor of the driver, inside a transaction."""

    __slots__ = ("_cursor", "_dialect")

    def __init__(self, cursor: DBAPICursor, dialect: Dialect) -> None:
        self._cursor = cursor
        self._dialect = dialect

    def execute(self, statement: PreparedStatement, parameters: Mapping[str, Any]) -> int:
        """Run the statement; the number of rows it changed."""
        text, names = statement.compile_for(self._dialect)
        self._cursor.execute(text, parameters if names is None else [parameters[name] for name in names])
        return self._cursor.rowcount

    def fetch_one(self, statement: PreparedStatement, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
        """Run the statement; its only row, or None.

        The statement is read to its end: SQLite keeps the state that an unfinished one saw.
        """
        self.execute(statement, parameters)
        rows = self._cursor.fetchall()
        return rows[0] if rows else None
