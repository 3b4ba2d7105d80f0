"""Statements that are run so often that the way to the driver counts.

In: a statement, once; parameters, with every call. Out: rows as plain tuples. Never: SQL that was written by hand; it
is compiled from the same tables as everything else, once for each kind of database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql import ClauseElement


class PreparedStatement:
    """A statement that is compiled once."""

    def __init__(self, statement: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = None if columns is None else list(columns)  # Of an insert.
        self._compiled: dict[str, tuple[str, Sequence[str] | None]] = {}

    def compile_for(self, dialect: Dialect) -> tuple[str, Sequence[str] | None]:
        """The SQL, and the order of its parameters where it takes them by place."""
        known = self._compiled.get(dialect.name)
        if known is None:
            compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._columns)
            known = self._compiled[dialect.name] = (str(compiled), compiled.positiontup)
        return known


class StatementCursor:
    """A cursor inside a transaction."""

    __slots__ = ("_cursor", "_dialect")

    def __init__(self, cursor: DBAPICursor, dialect: Dialect) -> None:
        self._cursor = cursor
        self._dialect = dialect

    def execute(self, prepared: PreparedStatement, parameters: Mapping[str, Any]) -> int:
        """Run it; how many rows it changed."""
        text, names = prepared.compile_for(self._dialect)
        self._cursor.execute(text, parameters if names is None else [parameters[name] for name in names])
        return self._cursor.rowcount

    def fetch_one(self, prepared: PreparedStatement, parameters: Mapping[str, Any]) -> Sequence[Any] | None:
        """Its only row."""
        self.execute(prepared, parameters)
        return self._cursor.fetchone()
