"""The database: opened, brought up to date, and changed in whole transactions only.

In: a path (SQLite) or a URL. Out: a connection inside a transaction, lent to one function at a time. Never: half of a
change; a transaction that may have been committed is not repeated.

SQLite runs in WAL mode with `synchronous=FULL`: what was answered is on the disk. Who writes takes the write lock
when the transaction begins, so that what it reads is what it changes. PostgreSQL runs as it is configured; the rules
of the store hold under any isolation level.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from traceforge.context.storage.prepared_statements import StatementCursor
from traceforge.context.storage.schema_migration import bring_up_to_date
from traceforge.context.storage.write_lock import BUSY_S, Busy, KeptCursor, Turn
from traceforge.errors import MissingExtra, StoreUnavailable, TraceForgeError

POOL = 8  # Connections that are kept.
POOL_MORE = 120  # And those that are made when as many threads ask at once.
RETRY_PAUSE_S = 0.2  # A PostgreSQL that is being restarted refuses connections for about as long.

_WAL_PAUSE_S = 0.005
_SCHEME = re.compile(r"^[a-z][a-z0-9+]*://")
_RETRIABLE = frozenset({"40001", "40P01"})  # Serialization failure, deadlock: rolled back for certain.
_WRITES = "traceforge_writes"

T = TypeVar("T")
Work = Callable[[Connection], T]


class Database:
    """An open database of the current version."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        if self.is_sqlite:
            self._reading: Engine = engine
            self._listing: Engine = engine
            self._writing: Engine = engine.execution_options(**{_WRITES: True})
        else:
            self._reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._listing = engine.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=True)
            self._writing = engine
        self._turn: AbstractContextManager[object] = Turn() if self.is_sqlite else nullcontext()
        self._kept: KeptCursor | None = None
        self._abandoned: object = None
        self._mutex = threading.Lock()
        self._turns: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        if hasattr(os, "register_at_fork"):
            known = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _forget_connections(known))

    @classmethod
    def open(cls, target: str) -> Database:
        """Open a database, make it where it is a file that is not there, and bring it up to date.

        Raises:
            StoreUnavailable: it cannot be reached, is of a newer version, or is no database.
        """
        url = database_url(target)
        database = cls(_engine(url))
        try:
            bring_up_to_date(database._writing)
        except DBAPIError as exc:
            path = database.path
            database.close()
            raise _unavailable(exc) if path is None else _not_opened(path, exc) from None
        except BaseException:
            database.close()
            raise
        return database

    @property
    def path(self) -> str | None:
        """The file of an SQLite database."""
        return os.path.abspath(self.engine.url.database or "") if self.is_sqlite else None

    def read(self, work: Work[T]) -> T:
        """Let `work` look at one state of the database.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        return self._again(lambda: _transact(self._reading, work, writes=False))

    def read_after(self, wait: Callable[[Connection], None], work: Work[T]) -> T:
        """The same for who has to wait for something first: what was committed meanwhile is seen.

        On PostgreSQL a statement of `work` may see more than the one before it.
        """

        def waited(connection: Connection) -> T:
            wait(connection)
            return work(connection)

        return self._again(lambda: _transact(self._listing, waited, writes=False))

    def write(self, work: Work[T]) -> T:
        """Let `work` change the database: all of it, or nothing where it raises.

        A connection that was lost before the commit was sent is replaced and `work` is called once more.

        Raises:
            StoreUnavailable: the database cannot be reached; `outcome_unknown` says whether it may have committed.
        """
        with self._turn:
            return self._again(lambda: _transact(self._writing, work, writes=True))

    def write_quickly(self, work: Callable[[StatementCursor], T], about: str) -> T:
        """The same as `write`, for what needs nothing but a cursor and is done thousands of times a second.

        Of this process, one at a time works on what `about` names: whoever would wait for a row of it waits here,
        where that costs nobody anything.
        """
        with self._turn if self.is_sqlite else self._turn_of(about):
            if self.is_sqlite:
                return self._transact_alone(work)
            return self._again(lambda: self._transact_quickly(work))

    def write_at_once(self, work: Callable[[StatementCursor], T]) -> T | None:
        """The same for a caller that must not wait for another writer; None where it would have to, or might."""
        if not isinstance(self._turn, Turn) or not self._turn.take_if_free():
            return None
        try:
            return self._transact_alone(work, waits=False)
        except Busy:
            return None
        finally:
            self._turn.give_back()

    def close(self) -> None:
        """Close every connection."""
        with self._turn:
            self._leave_kept()
        self.engine.dispose()

    def _again(self, transact: Callable[[], T]) -> T:
        try:
            return transact()
        except _Lost:
            time.sleep(0 if self.is_sqlite else RETRY_PAUSE_S)
        try:
            return transact()
        except _Lost as exc:
            raise _unavailable(exc.cause) from None

    def _turn_of(self, about: str) -> Turn:
        with self._mutex:
            turn = self._turns.get(about)
            if turn is None:
                turn = self._turns[about] = Turn()
            return turn

    def _transact_quickly(self, work: Callable[[StatementCursor], T]) -> T:
        dialect = self.engine.dialect
        try:
            connection = self.engine.raw_connection()
        except (dialect.loaded_dbapi.Error, PoolTimeout) as exc:
            raise _Lost(exc) from None
        committing = False
        try:
            cursor = connection.cursor()
            try:
                made = work(StatementCursor(cursor, dialect))
                committing = True
                connection.commit()
            finally:
                cursor.close()
            return made
        except dialect.loaded_dbapi.Error as exc:
            raise _failed(self.engine, exc, connection, committing=committing) from None
        finally:
            connection.close()  # Back to the pool, which rolls back what was not committed.

    def _transact_alone(self, work: Callable[[StatementCursor], T], *, waits: bool = True) -> T:
        """The same on SQLite, where one connection is kept for it: only one writer works at a time anyway.

        Raises:
            Busy: another process writes, and this must not wait for it. Nothing was done.
        """
        failure = self.engine.dialect.loaded_dbapi.Error
        committing = False
        try:
            if self._kept is None:
                self._kept = KeptCursor(self.engine.raw_connection())
            cursor = self._kept.enter(waits=waits)
            try:
                cursor.execute("BEGIN IMMEDIATE")
            except failure as exc:
                if not waits and _is_busy(exc):
                    raise Busy from None
                raise
            try:
                made = work(StatementCursor(cursor, self.engine.dialect))
            except BaseException:
                with suppress(failure):  # Some failures have rolled back already.
                    cursor.execute("ROLLBACK")
                raise
            committing = True
            cursor.execute("COMMIT")
            return made
        except failure as exc:
            self._leave_kept()
            raise _unavailable(exc, unknown=committing) from None

    def _leave_kept(self) -> None:
        """Give the connection back to the pool, which rolls back what was not committed."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            kept.leave()


class _Lost(Exception):
    """A transaction that did not commit, and may be tried again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


def _transact(engine: Engine, work: Work[T], *, writes: bool) -> T:
    committing = False
    try:
        with engine.connect() as connection:
            transaction = connection.begin()
            try:
                made = work(connection)
                committing = writes  # Whoever only looked may look again.
                transaction.commit()
            except engine.dialect.loaded_dbapi.Error as exc:  # From a `Driver`, which does not wrap what it gets.
                raise _failed(engine, exc, connection.connection, committing=False) from None
            except BaseException:
                transaction.close()
                raise
            return made
    except DBAPIError as exc:
        if committing:
            raise _unavailable(exc, unknown=True) from None
        if _may_be_tried_again(exc):
            raise _Lost(exc) from None
        raise _unavailable(exc) from exc
    except PoolTimeout as exc:
        raise _unavailable(exc) from None


def _failed(engine: Engine, exc: Any, connection: PoolProxiedConnection, *, committing: bool) -> Exception:  # noqa: ANN401 (the driver's own)
    """What a failure of the driver means, also for the connections that are kept."""
    lost = engine.dialect.is_disconnect(exc, connection, None)
    if lost:
        connection.invalidate(exc)
        engine.dispose()  # The others are as dead as this one.
    if committing:
        return _unavailable(exc, unknown=True)
    return _Lost(exc) if lost or getattr(exc, "sqlstate", None) in _RETRIABLE else _unavailable(exc)


def _may_be_tried_again(exc: DBAPIError) -> bool:
    if exc.connection_invalidated or getattr(exc.orig, "sqlstate", None) in _RETRIABLE:
        return True
    return type(exc.orig).__module__.startswith("psycopg") and exc.statement is None  # It did not even connect.


def _unavailable(exc: Exception, *, unknown: bool = False) -> StoreUnavailable:
    orig = getattr(exc, "orig", None) or exc
    told = str(orig).strip().partition("\n")[0] or type(orig).__name__
    if unknown:
        return StoreUnavailable(
            f"the database was lost while a change was committed, and nobody knows whether it was: {told}",
            hint="Look whether it is there before you try again, or send it with an idempotency key.",
            outcome_unknown=True,
        )
    return StoreUnavailable(
        f"the database cannot be used: {told}", hint="Nothing was written. See that it runs, and try again."
    )


def _not_opened(path: str, exc: DBAPIError) -> StoreUnavailable:
    hint = "Name a file of SQLite, or one that is not there yet, in a folder that is there and may be written to."
    return StoreUnavailable(f"{path} cannot be opened: {exc.orig}", hint=hint)


def database_url(target: str) -> URL:
    """The URL of a database that is named by a URL or by a path.

    Raises:
        StoreUnavailable: a URL of a database that we do not speak to.
    """
    if not _SCHEME.match(target):
        return URL.create("sqlite", database=os.path.abspath(target))
    try:
        url = make_url(target)
    except ArgumentError:
        raise _unknown_url() from None
    kind = url.get_backend_name()
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return URL.create("sqlite", database=os.path.abspath(url.database))
    raise _unknown_url()


def _unknown_url() -> TraceForgeError:
    return StoreUnavailable(
        "the URL names no database that the context store knows",
        hint="Name a file, sqlite:///FILE, or postgresql://USER@HOST/DATABASE.",
    )


def _engine(url: URL) -> Engine:
    options = {"poolclass": QueuePool, "pool_size": POOL, "max_overflow": POOL_MORE, "pool_timeout": BUSY_S}
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, **options)
        except ImportError:
            raise MissingExtra("PostgreSQL cannot be spoken to here: psycopg is not installed", "context") from None
    engine = create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False}, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # The driver shall begin nothing on its own.
    cursor = connection.cursor()
    _use_wal(cursor)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _is_busy(exc: BaseException) -> bool:
    return getattr(exc, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _use_wal(cursor: DBAPICursor) -> None:
    """Where two open a new file at once, SQLite refuses one of them this change without a wait, so we do."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as exc:
            if not _is_busy(exc) or time.monotonic() > until:
                raise
            time.sleep(_WAL_PAUSE_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _forget_connections(known: weakref.ref[Database]) -> None:
    """A child must not speak on its parent's connections."""
    database = known()
    if database is not None:
        database.engine.dispose(close=False)
        database._mutex = threading.Lock()
        database._turns = weakref.WeakValueDictionary()
        database._abandoned, database._kept = database._kept, None  # Kept, so that nothing closes it.
        if database.is_sqlite:
            database._turn = Turn()
