"""The index: lists and searches over a hundred thousand traces without reading them.

`index/traces.sqlite`, a SQLite database that can be thrown away at any time: everything in it is made from the
traces. Its rows are summaries, and where each trace stands; `texts` holds the words of prompts and answers. A row's
number is its time in milliseconds and the first digits of its id, so that the newest rows are at one end of every
table.

In: summaries, places and texts. Out: the same, filtered, newest first. Never: the only copy of anything, or a reason
to fail: an index that is broken, or of another version, is made anew; where none can be written, it is kept in
memory.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from traceforge.clock import find_instant
from traceforge.files import make_private_folder
from traceforge.traces.summary import Summary
from traceforge.traces.words import match_expression, pull_together, spread_out

FOLDER = "index"
FILE = "traces.sqlite"
VERSION = 1  # Another one: the index is made anew.
MILLISECONDS_MAX = 2**42  # Year 2109 and 1830; whatever says that it is beyond stands at the end of a list.
BUSY_MS = 10_000  # How long to wait for another process that writes.

_FIELDS = Summary.__struct_fields__
_COLUMNS = ", ".join(_FIELDS)
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
PRAGMA user_version = {VERSION};
"""

BROKEN = (sqlite3.DatabaseError, UnicodeDecodeError)  # SQLite names what is spoilt, and that may be no text any more.


class Place(NamedTuple):
    """Where a trace stands: a file, or a segment or an archive and the place in it."""

    container: str = ""  # from the traces folder; empty for a file of its own
    start: int = 0  # in the segment or archive; of a file, its inode


class Row(NamedTuple):
    """A summary and its place."""

    summary: Summary
    place: Place


class Hit(NamedTuple):
    """What a search found, and the words around it."""

    summary: Summary
    snippet: str


class Filter(Struct, frozen=True):
    """What a list is narrowed to; empty means everything."""

    provider: str = ""
    model: str = ""  # `*` stands for anything
    status: str = ""
    session_id: str = ""
    endpoint: str = ""
    since: str = ""  # a timestamp
    until: str = ""
    before: str = ""  # the file name of a trace: only older ones


class Session(NamedTuple):
    """What is known about a session without reading its traces."""

    session_id: str
    steps: int
    first: str  # timestamps
    last: str
    errors: int
    tokens: float
    models: tuple[str, ...]


class Index:
    """One open index. Used by one thread."""

    def __init__(self, traces_dir: str, *, in_memory: bool = False) -> None:
        is_there = os.path.isdir(traces_dir) and not in_memory  # Looking at nothing makes no folder.
        self._connection = _open(os.path.join(traces_dir, FOLDER)) if is_there else _prepared(":memory:")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Everything inside happens, or nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def add(self, rows: Iterable[Row]) -> None:
        """Put rows in. One that is there is moved to the new place and keeps its words, unless its file changed."""
        for summary, place in rows:
            values = [getattr(summary, field) for field in _FIELDS]
            name = summary.file_name
            query = "SELECT 1 FROM traces WHERE name = ? AND place = '' AND start != ?"
            if not place.container and self._connection.execute(query, (name, place.start)).fetchone():
                self.remove([name])
            if self.move(name, place):
                continue
            number = self._free_number(summary)
            marks = ", ".join("?" * (4 + len(values)))
            self._connection.execute(
                f"INSERT INTO traces(number, name, place, start, {_COLUMNS}) VALUES ({marks})",  # noqa: S608
                (number, name, place.container, place.start, *values),
            )

    def move(self, name: str, place: Place) -> bool:
        """A trace stands somewhere else now; False where the index does not know it."""
        query = "UPDATE traces SET place = ?, start = ? WHERE name = ?"
        return self._connection.execute(query, (*place, name)).rowcount > 0

    def _free_number(self, summary: Summary) -> int:
        number = row_number(summary)
        if not self._connection.execute("SELECT 1 FROM traces WHERE number = ?", (number,)).fetchone():
            return number
        query = """SELECT number + 1 FROM traces AS this WHERE number >= ?
            AND NOT EXISTS (SELECT 1 FROM traces WHERE number = this.number + 1) ORDER BY number LIMIT 1"""
        return int(self._connection.execute(query, (number,)).fetchone()[0])

    def remove(self, names: Iterable[str]) -> None:
        """Take rows out, with their words."""
        query = "DELETE FROM traces WHERE name = ? RETURNING number"
        for name in names:
            found = self._connection.execute(query, (_stored(name),)).fetchone()
            if found:
                self._connection.execute("DELETE FROM texts WHERE rowid = ?", found)

    def names_at(self, container: str) -> dict[str, int]:
        """The names of the traces that stand in one place, and where there; the files, for the empty one."""
        return dict(self._connection.execute("SELECT name, start FROM traces WHERE place = ?", (container,)))

    def containers(self, prefix: str) -> set[str]:
        """The segments or archives that the index knows."""
        query = "SELECT DISTINCT place FROM traces WHERE place LIKE ?"
        return {place for (place,) in self._connection.execute(query, (f"{prefix}/%",))}

    def stamp(self, name: str) -> int:
        """What was remembered about a folder or a container; -1 where nothing was."""
        found = self._connection.execute("SELECT stamp FROM stamps WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else -1

    def remember(self, name: str, stamp: int) -> None:
        """Remember how far a container was read, or how a folder was."""
        self._connection.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?)", (name, stamp))

    def forget(self, name: str) -> None:
        """Forget what was remembered."""
        self._connection.execute("DELETE FROM stamps WHERE name = ?", (name,))

    def unread(self) -> dict[str, tuple[int, str]]:
        """Files that are no traces: how they were when that was found out, and why."""
        query = "SELECT name, stamp, reason FROM unread ORDER BY name"
        return {name: (stamp, reason) for name, stamp, reason in self._connection.execute(query)}

    def set_unread(self, files: dict[str, tuple[int, str]]) -> None:
        """Replace what is known about files that are no traces."""
        self._connection.execute("DELETE FROM unread")
        rows = [(_stored(name), stamp, _stored(reason)) for name, (stamp, reason) in files.items()]
        self._connection.executemany("INSERT OR REPLACE INTO unread VALUES (?, ?, ?)", rows)

    def rows(self, narrowed: Filter, limit: int = -1, *, oldest_first: bool = False) -> list[Row]:
        """Summaries, newest first."""
        where, values = _where(narrowed)
        order = "ASC" if oldest_first else "DESC"
        query = f"SELECT place, start, {_COLUMNS} FROM traces {where} ORDER BY number {order} LIMIT ?"  # noqa: S608
        return [_row(found) for found in self._connection.execute(query, (*values, limit))]

    def count(self, narrowed: Filter) -> int:
        """How many there are."""
        where, values = _where(narrowed)
        query = f"SELECT count(*) FROM traces {where}"  # noqa: S608
        return int(self._connection.execute(query, values).fetchone()[0])

    def find(self, name: str) -> Row | None:
        """The row of a file name."""
        query = f"SELECT place, start, {_COLUMNS} FROM traces WHERE name = ?"  # noqa: S608
        found = self._connection.execute(query, (_stored(name),)).fetchone()
        return _row(found) if found else None

    def find_ids(self, prefix: str, limit: int) -> list[Row]:
        """Rows whose id begins with `prefix`."""
        query = f"""SELECT place, start, {_COLUMNS} FROM traces
            WHERE id >= ? COLLATE NOCASE AND id < ? COLLATE NOCASE ORDER BY id COLLATE NOCASE LIMIT ?"""  # noqa: S608
        first = _stored(prefix)
        return [_row(found) for found in self._connection.execute(query, (first, first + "\x7f", limit))]

    def session(self, session_id: str) -> list[Row]:
        """The traces of a session, in the order of their steps."""
        query = f"SELECT place, start, {_COLUMNS} FROM traces WHERE session_id = ? ORDER BY step_index, number"  # noqa: S608
        return [_row(found) for found in self._connection.execute(query, (_stored(session_id),))]

    def sessions(self, limit: int = -1) -> list[Session]:
        """Every session, the one with the newest trace first."""
        query = """
            SELECT session_id, count(*), min(timestamp), max(timestamp), sum(status = 'error'), total(tokens),
                   json_group_array(DISTINCT model)
            FROM traces WHERE session_id != '' GROUP BY session_id ORDER BY max(number) DESC LIMIT ?"""
        return [
            Session(name, steps, first, last, errors, tokens, tuple(sorted(filter(None, orjson.loads(models)))))
            for name, steps, first, last, errors, tokens, models in self._connection.execute(query, (limit,))
        ]

    def without_words(self, limit: int) -> list[tuple[int, Row]]:
        """Rows whose words are not known yet, newest first, with their numbers."""
        query = f"""SELECT number, place, start, {_COLUMNS} FROM traces
            WHERE NOT worded ORDER BY number DESC LIMIT ?"""  # noqa: S608
        return [(found[0], _row(found[1:])) for found in self._connection.execute(query, (limit,))]

    def add_words(self, words: Iterable[tuple[int, str]]) -> None:
        """Make rows findable by these texts."""
        for number, text in words:
            query = "UPDATE traces SET worded = 1 WHERE number = ? AND NOT worded"
            if self._connection.execute(query, (number,)).rowcount:  # Nobody else was faster, and it is still there.
                self._connection.execute("INSERT INTO texts(rowid, text) VALUES (?, ?)", (number, spread_out(text)))

    def search(self, query: str, narrowed: Filter, limit: int) -> list[Hit]:
        """Traces that hold every word of `query`, newest first."""
        where, values = _where(narrowed)
        beside = f"AND {where.removeprefix('WHERE ')}" if where else ""
        columns = ", ".join(f"traces.{field}" for field in _FIELDS)
        sql = f"""SELECT snippet(texts, 0, '\x02', '\x03', '…', 24), {columns}
            FROM texts JOIN traces ON traces.number = texts.rowid
            WHERE texts MATCH ? {beside} ORDER BY texts.rowid DESC LIMIT ?"""  # noqa: S608
        found = self._connection.execute(sql, (match_expression(query), *values, limit))
        return [Hit(_summary(fields), pull_together(snippet)) for snippet, *fields in found]


def row_number(summary: Summary) -> int:
    """A number that grows with the time: milliseconds, then the beginning of the id."""
    return (_milliseconds(summary.timestamp) << 20) + int(summary.id[:5], 16)


def _milliseconds(timestamp: str) -> int:
    instant = find_instant(timestamp)
    milliseconds = int(instant[0].timestamp() * 1000) + instant[1] // 1_000_000 if instant else 0
    return max(-MILLISECONDS_MAX, min(milliseconds, MILLISECONDS_MAX))


def _stored(text: str) -> str:
    """A text as SQLite can take it: a name that is not UTF-8 has lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _row(found: Sequence[Any]) -> Row:
    place, start, *fields = found
    return Row(_summary(fields), Place(place, start))


def _summary(fields: Sequence[Any]) -> Summary:
    return Summary(**dict(zip(_FIELDS, (*fields[:-1], bool(fields[-1])), strict=True)))


def _where(narrowed: Filter) -> tuple[str, list[str | int]]:
    clauses: list[str] = []
    values: list[str | int] = []
    for field in ("provider", "status", "session_id", "endpoint"):
        if getattr(narrowed, field):
            clauses.append(f"traces.{field} = ?")
            values.append(_stored(getattr(narrowed, field)))
    if narrowed.model:
        clauses.append("traces.model GLOB ?")
        values.append(_stored(narrowed.model).replace("[", "[[]").replace("?", "[?]"))
    for field, comparison in (("since", ">="), ("until", "<")):
        if find_instant(getattr(narrowed, field)):
            clauses.append(f"traces.number {comparison} ?")
            values.append(_milliseconds(getattr(narrowed, field)) << 20)
    if narrowed.before:
        clauses.append("traces.number < (SELECT number FROM traces WHERE name = ?)")
        values.append(_stored(narrowed.before))
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _open(folder: str) -> sqlite3.Connection:
    path = os.path.join(folder, FILE)
    for _ in range(2):
        try:
            make_private_folder(folder)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            return _prepared(path)
        except (OSError, sqlite3.OperationalError):  # not ours to write, full, or locked for too long
            break
        except BROKEN:
            discard(folder)
    return _prepared(":memory:")


def _prepared(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # It can be made anew.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("another version")
        if version == 0:
            _create(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:  # Nobody else was faster.
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
    connection.execute("COMMIT")


def discard(folder: str) -> None:
    """Throw an index away; the next one is made anew."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            os.unlink(os.path.join(folder, FILE) + suffix)
