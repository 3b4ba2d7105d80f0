"""The index: list and search a hundred thousand traces without reading them.

`index/traces.sqlite` is a SQLite database that can be deleted at any time: it is rebuilt from the traces. Its rows
are summaries and locations of traces; `texts` holds the text of prompts and responses. A row's number is its time
in milliseconds and the first digits of its id, so that the newest rows are at one end of every table.

An index never makes a command fail: one that is broken or of another version is rebuilt, and where it cannot be
written it is kept in memory.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from traceforge.canon import parse_json
from traceforge.clock import find_instant
from traceforge.files import make_private_folder
from traceforge.traces.search_text import join_characters, match_expression, separate_characters
from traceforge.traces.trace_summary import TraceSummary

INDEX_FOLDER = "index"
INDEX_FILE = "traces.sqlite"
INDEX_VERSION = 1  # An index of another version is rebuilt.
MILLISECONDS_MAX = 2**42  # Years 1830 to 2109; times beyond are sorted to the ends.
BUSY_MS = 10_000  # how long to wait for another process that writes

_FIELDS = TraceSummary.__struct_fields__
_COLUMNS = ", ".join(_FIELDS)
_INSERT_UNLESS_TAKEN = f"""INSERT OR IGNORE INTO traces(number, name, place, start, {_COLUMNS})
    VALUES ({", ".join("?" * (4 + len(_FIELDS)))})"""  # noqa: S608
_SCHEMA = f"""
CREATE TABLE traces(
  number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, place TEXT NOT NULL, start INTEGER NOT NULL,
  worded INTEGER NOT NULL DEFAULT 0, {_COLUMNS});
CREATE INDEX by_id ON traces(id COLLATE NOCASE);
CREATE INDEX by_place ON traces(place);
CREATE INDEX by_session ON traces(session_id, step_index);
CREATE INDEX unworded ON traces(number) WHERE NOT worded;
CREATE TABLE unread(name TEXT PRIMARY KEY, stamp INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE stamps(name TEXT PRIMARY KEY, stamp INTEGER NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
PRAGMA user_version = {INDEX_VERSION};
"""

# SQLite quotes damaged names in its errors, and these may not be UTF-8.
BROKEN_INDEX_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)


class TraceLocation(NamedTuple):
    """Where a trace is stored: in its own file, a segment or an archive."""

    container: str = ""  # relative to the traces folder; "" for its own file
    position: int = 0  # the offset in a segment, the entry of an archive, or the inode of a file


class TraceRow(NamedTuple):
    """One trace in the index."""

    summary: TraceSummary
    location: TraceLocation


class SearchHit(NamedTuple):
    """A trace that a search found, and the text around the match."""

    summary: TraceSummary
    snippet: str


class TraceFilter(Struct, frozen=True):
    """Which traces to list; an empty field matches every trace."""

    provider: str = ""
    model: str = ""  # `*` matches anything
    status: str = ""
    session_id: str = ""
    endpoint: str = ""
    since: str = ""  # a timestamp
    until: str = ""
    before: str = ""  # the file name of a trace: only older ones
    parent_id: str = ""  # the id of the parent


class TraceSession(NamedTuple):
    """A summary of the traces of one session."""

    session_id: str
    steps: int
    first: str  # timestamps
    last: str
    errors: int
    tokens: float
    models: tuple[str, ...]


class CallGroup(NamedTuple):
    """The calls of one model and one call site that began in one bucket of time."""

    start_ms: int  # since 1970
    model: str
    source: str
    calls: int
    errors: int
    tokens: float
    durations: list[int]  # in tenths of a millisecond, in no order


class TraceIndex:
    """One open index. Used by one thread."""

    def __init__(self, traces_dir: str, *, in_memory: bool = False, busy_ms: int | None = None) -> None:
        is_there = os.path.isdir(traces_dir) and not in_memory  # Listing nothing creates no folder.
        self._path = "" if in_memory else os.path.join(traces_dir, INDEX_FOLDER, INDEX_FILE)
        self._connection = (
            _open_or_rebuild(os.path.dirname(self._path), busy_ms) if is_there else _connect(":memory:")
        )
        self._file_id = _find_file_id(self._path)

    def close(self) -> None:
        self._connection.close()

    def is_replaced(self) -> bool:
        """Whether its file was removed or replaced since: SQLite would go on reading the old one."""
        return self._file_id != _find_file_id(self._path)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes of a `with` block together, or none."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def add_rows(self, rows: Iterable[TraceRow]) -> None:
        """Add rows. One that exists gets the new location and keeps its text, unless its file was replaced."""
        rows = list(rows)
        values = [
            (row_number(summary), summary.file_name, *location, *astuple(summary)) for summary, location in rows
        ]
        # All at once takes half the time, and new traces rarely share a name or a number with others.
        if self._connection.executemany(_INSERT_UNLESS_TAKEN, values).rowcount < len(rows):
            for row in rows:
                self._add_row(row)

    def _add_row(self, row: TraceRow) -> None:
        summary, location = row
        name = summary.file_name
        query = "SELECT 1 FROM traces WHERE name = ? AND place = '' AND start != ?"
        if not location.container and self._connection.execute(query, (name, location.position)).fetchone():
            self.remove_rows([name])
        if not self.move_trace(name, location):
            values = (self._free_number(summary), name, *location, *astuple(summary))
            self._connection.execute(_INSERT_UNLESS_TAKEN, values)

    def move_trace(self, name: str, location: TraceLocation) -> bool:
        """Change the location of a trace; False where the index does not have it."""
        query = "UPDATE traces SET place = ?, start = ? WHERE name = ?"
        return self._connection.execute(query, (*location, name)).rowcount > 0

    def _free_number(self, summary: TraceSummary) -> int:
        number = row_number(summary)
        if not self._connection.execute("SELECT 1 FROM traces WHERE number = ?", (number,)).fetchone():
            return number
        query = """SELECT number + 1 FROM traces AS this WHERE number >= ?
            AND NOT EXISTS (SELECT 1 FROM traces WHERE number = this.number + 1) ORDER BY number LIMIT 1"""
        return int(self._connection.execute(query, (number,)).fetchone()[0])

    def remove_rows(self, names: Iterable[str]) -> None:
        """Remove rows and their texts."""
        query = "DELETE FROM traces WHERE name = ? RETURNING number"
        for name in names:
            row = self._connection.execute(query, (_sqlite_text(name),)).fetchone()
            if row:
                self._connection.execute("DELETE FROM texts WHERE rowid = ?", row)

    def names_in(self, container: str) -> dict[str, int]:
        """The names and positions of the traces in a segment or archive; for "", of those in their own files."""
        return dict(self._connection.execute("SELECT name, start FROM traces WHERE place = ?", (container,)))

    def containers(self, prefix: str) -> set[str]:
        """The segments or archives that hold indexed traces."""
        query = "SELECT DISTINCT place FROM traces WHERE place LIKE ?"
        return {place for (place,) in self._connection.execute(query, (f"{prefix}/%",))}

    def read_stamp(self, name: str) -> int:
        """How far a container was read, or the time of a folder; -1 where it was not read."""
        row = self._connection.execute("SELECT stamp FROM stamps WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else -1

    def save_stamp(self, name: str, stamp: int) -> None:
        """Save how far a container was read, or the time of a folder."""
        self._connection.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?)", (name, stamp))

    def delete_stamp(self, name: str) -> None:
        self._connection.execute("DELETE FROM stamps WHERE name = ?", (name,))

    def unreadable_files(self) -> dict[str, tuple[int, str]]:
        """Files that are not valid traces: their modification time and the reason."""
        query = "SELECT name, stamp, reason FROM unread ORDER BY name"
        return {name: (stamp, reason) for name, stamp, reason in self._connection.execute(query)}

    def set_unreadable_files(self, files: dict[str, tuple[int, str]]) -> None:
        self._connection.execute("DELETE FROM unread")
        rows = [(_sqlite_text(name), stamp, _sqlite_text(reason)) for name, (stamp, reason) in files.items()]
        self._connection.executemany("INSERT OR REPLACE INTO unread VALUES (?, ?, ?)", rows)

    def list_rows(self, trace_filter: TraceFilter, limit: int = -1, *, oldest_first: bool = False) -> list[TraceRow]:
        """The rows that match, newest first."""
        where, values = _where_clause(trace_filter)
        order = "ASC" if oldest_first else "DESC"
        query = f"SELECT place, start, {_COLUMNS} FROM traces {where} ORDER BY number {order} LIMIT ?"  # noqa: S608
        return [_make_row(columns) for columns in self._connection.execute(query, (*values, limit))]

    def count_rows(self, trace_filter: TraceFilter) -> int:
        where, values = _where_clause(trace_filter)
        query = f"SELECT count(*) FROM traces {where}"  # noqa: S608
        return int(self._connection.execute(query, values).fetchone()[0])

    def find_by_name(self, name: str) -> TraceRow | None:
        """The row of a trace by its file name."""
        query = f"SELECT place, start, {_COLUMNS} FROM traces WHERE name = ?"  # noqa: S608
        columns = self._connection.execute(query, (_sqlite_text(name),)).fetchone()
        return _make_row(columns) if columns else None

    def find_by_id_prefix(self, prefix: str, limit: int) -> list[TraceRow]:
        """At most `limit` rows whose id begins with `prefix`."""
        query = f"""SELECT place, start, {_COLUMNS} FROM traces
            WHERE id >= ? COLLATE NOCASE AND id < ? COLLATE NOCASE ORDER BY id COLLATE NOCASE LIMIT ?"""  # noqa: S608
        first = _sqlite_text(prefix)
        return [_make_row(columns) for columns in self._connection.execute(query, (first, first + "\x7f", limit))]

    def session_rows(self, session_id: str) -> list[TraceRow]:
        """The traces of a session, in the order of their steps."""
        query = f"SELECT place, start, {_COLUMNS} FROM traces WHERE session_id = ? ORDER BY step_index, number"  # noqa: S608
        return [_make_row(columns) for columns in self._connection.execute(query, (_sqlite_text(session_id),))]

    def list_sessions(self, limit: int = -1) -> list[TraceSession]:
        """Every session; the one with the newest trace first."""
        query = """
            SELECT session_id, count(*), min(timestamp), max(timestamp), sum(status = 'error'), total(tokens),
                   json_group_array(DISTINCT model)
            FROM traces WHERE session_id != '' GROUP BY session_id ORDER BY max(number) DESC LIMIT ?"""
        return [
            TraceSession(name, steps, first, last, errors, tokens, _model_names(models))
            for name, steps, first, last, errors, tokens, models in self._connection.execute(query, (limit,))
        ]

    def sum_calls(self, trace_filter: TraceFilter, bucket_ms: int) -> list[CallGroup]:
        """The sums of all calls that match, by buckets of time, models and call sites.

        Their durations come as one text each: a row for every call would take longer than all the rest.
        """
        where, values = _where_clause(trace_filter)
        query = f"""
            SELECT number / ?, model, source, count(*), sum(status != 'success'), total(tokens),
                   group_concat(CAST(duration_ms * 10 AS INTEGER))
            FROM traces {where} GROUP BY 1, 2, 3"""  # noqa: S608
        return [
            CallGroup(bucket * bucket_ms, model, source, calls, errors, tokens, list(map(int, durations.split(","))))
            for bucket, model, source, calls, errors, tokens, durations in self._connection.execute(
                query, (bucket_ms << 20, *values)
            )
        ]

    def find_time_range(self) -> tuple[int, int] | None:
        """When the first and the last call began, in milliseconds since 1970; None if there is none."""
        first, last = self._connection.execute("SELECT min(number), max(number) FROM traces").fetchone()
        return None if first is None else (first >> 20, last >> 20)

    def rows_without_text(self, limit: int) -> list[tuple[int, TraceRow]]:
        """Rows without a searchable text, newest first, with their numbers."""
        query = f"""SELECT number, place, start, {_COLUMNS} FROM traces
            WHERE NOT worded ORDER BY number DESC LIMIT ?"""  # noqa: S608
        return [(columns[0], _make_row(columns[1:])) for columns in self._connection.execute(query, (limit,))]

    def add_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add the searchable texts of rows, by number."""
        for number, text in texts:
            query = "UPDATE traces SET worded = 1 WHERE number = ? AND NOT worded"
            if self._connection.execute(query, (number,)).rowcount:  # not added meanwhile, nor removed
                self._connection.execute(
                    "INSERT INTO texts(rowid, text) VALUES (?, ?)", (number, separate_characters(text))
                )

    def search(self, query: str, trace_filter: TraceFilter, limit: int) -> list[SearchHit]:
        """Traces that contain every term of `query`, newest first."""
        where, values = _where_clause(trace_filter)
        conditions = f"AND {where.removeprefix('WHERE ')}" if where else ""
        columns = ", ".join(f"traces.{field}" for field in _FIELDS)
        sql = f"""SELECT snippet(texts, 0, '\x02', '\x03', '…', 24), {columns}
            FROM texts JOIN traces ON traces.number = texts.rowid
            WHERE texts MATCH ? {conditions} ORDER BY texts.rowid DESC LIMIT ?"""  # noqa: S608
        matches = self._connection.execute(sql, (match_expression(query), *values, limit))
        return [SearchHit(_make_summary(fields), join_characters(snippet)) for snippet, *fields in matches]


def row_number(summary: TraceSummary) -> int:
    """A number that grows with time: milliseconds, then the first digits of the id."""
    return (_milliseconds(summary.timestamp) << 20) + int(summary.id[:5], 16)


def _model_names(json_list: str) -> tuple[str, ...]:
    names = parse_json(json_list.encode())
    return tuple(sorted(name for name in names if isinstance(name, str) and name)) if isinstance(names, list) else ()


def _milliseconds(timestamp: str) -> int:
    instant = find_instant(timestamp)
    milliseconds = int(instant[0].timestamp() * 1000) + instant[1] // 1_000_000 if instant else 0
    return max(-MILLISECONDS_MAX, min(milliseconds, MILLISECONDS_MAX))


def _sqlite_text(text: str) -> str:
    """A text that SQLite accepts: a file name that is not UTF-8 has lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _make_row(columns: Sequence[Any]) -> TraceRow:
    place, start, *fields = columns
    return TraceRow(_make_summary(fields), TraceLocation(place, start))


def _make_summary(fields: Sequence[Any]) -> TraceSummary:
    return TraceSummary(**dict(zip(_FIELDS, (*fields[:-1], bool(fields[-1])), strict=True)))


def _where_clause(trace_filter: TraceFilter) -> tuple[str, list[str | int]]:
    clauses: list[str] = []
    values: list[str | int] = []
    for field in ("provider", "status", "session_id", "endpoint"):
        if getattr(trace_filter, field):
            clauses.append(f"traces.{field} = ?")
            values.append(_sqlite_text(getattr(trace_filter, field)))
    if trace_filter.parent_id:
        clauses.append("traces.parent_trace_id = ?")
        values.append(_sqlite_text(trace_filter.parent_id))
    if trace_filter.model:
        clauses.append("traces.model GLOB ?")
        values.append(_sqlite_text(trace_filter.model).replace("[", "[[]").replace("?", "[?]"))
    for field, comparison in (("since", ">="), ("until", "<")):
        if find_instant(getattr(trace_filter, field)):
            clauses.append(f"traces.number {comparison} ?")
            values.append(_milliseconds(getattr(trace_filter, field)) << 20)
    if trace_filter.before:
        clauses.append("traces.number < (SELECT number FROM traces WHERE name = ?)")
        values.append(_sqlite_text(trace_filter.before))
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _find_file_id(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open_or_rebuild(folder: str, busy_ms: int | None) -> sqlite3.Connection:
    path = os.path.join(folder, INDEX_FILE)
    for _ in range(2):
        try:
            make_private_folder(folder)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            return _connect(path, busy_ms)
        except (OSError, sqlite3.OperationalError):  # not writable, full, or locked for too long
            break
        except BROKEN_INDEX_ERRORS:
            discard_index(folder)
    return _connect(":memory:")


def _connect(path: str, busy_ms: int | None = None) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=(busy_ms or BUSY_MS) / 1000, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # It can be rebuilt.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, INDEX_VERSION):
            raise sqlite3.DatabaseError("another version")
        if version == 0:
            _create_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_schema(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:  # No other process created it.
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
    connection.execute("COMMIT")


def discard_index(folder: str) -> None:
    """Delete an index; it is rebuilt when it is needed."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            os.unlink(os.path.join(folder, INDEX_FILE) + suffix)
