"""The database: opened, brought up to date, and changed in whole transactions only.

In: a path (SQLite) or a URL. Out: a connection inside a transaction, lent to one function at a time. Never: half of a
change; a transaction that may have been committed is not repeated.

SQLite runs in WAL mode with `synchronous=FULL`: a change that was answered is on the disk. A writer takes the write
lock when its transaction begins, so that it changes the state it has read. PostgreSQL runs as it is configured; the
rules of the store hold under any isolation level.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from traceforge.addresses import is_host
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.schema_migration import bring_up_to_date
from traceforge.errors import InvalidStoreAddress, MissingExtra, StoreUnavailable, TraceForgeError
from traceforge.files import check_not_planted, close_to_others, create_private_file

POOL_SIZE = 8  # Connections that stay open.
# Further connections, for as long as that many threads need one; more threads wait. So two processes have fewer than
# the 100 that PostgreSQL allows by default, also when hundreds of model calls end at once.
POOL_OVERFLOW = 40
BUSY_TIMEOUT_S = 60  # How long a writer waits for another one before it gives up.
RETRY_PAUSE_S = 0.2  # A PostgreSQL that is being restarted refuses connections for about as long.

_WAL_PAUSE_S = 0.005
# Of a connection string as libpq takes it: host=h password=p.
_CONNECTION_WORD = re.compile(r"(?:^|[\s'\"])(?:host|hostaddr|port|dbname|user|password|passfile|service)\s*=")
_BRACKETED_HOST = re.compile(r"/*\[[^/\]]*:")  # [::1]:5432/db, or half of it, without a scheme.
_PORT_MAX = 65535
_RETRIABLE = frozenset({"40001", "40P01"})  # Serialization failure, deadlock: rolled back for certain.
_WRITES = "traceforge_writes"
_FILE_SUFFIXES = ("", "-wal", "-shm")  # Of an SQLite database: its file, its write-ahead log, its shared memory.

T = TypeVar("T")
Work = Callable[[Connection], T]
Connect = Callable[[], AbstractContextManager[Connection]]


class Database:
    """An open database of the current schema version. Safe to use from many threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        if self.is_sqlite:
            self._read_engine: Engine = engine
            self._list_engine: Engine = engine
            self._write_engine: Engine = engine.execution_options(**{_WRITES: True})
        else:
            self._read_engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._list_engine = engine.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=True)
            self._write_engine = engine
        self._write_lock = threading.Lock()  # SQLite has one writer: threads queue here, and do not poll the file.
        self._writer: Connection | None = None
        self._parents_writer: Connection | None = None
        if hasattr(os, "register_at_fork"):
            database = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _forget_connections(database))

    @classmethod
    def open(cls, target: str, keyring: Keyring | None = None) -> Database:
        """Open a database, create the file if it does not exist, and bring its schema up to date.

        Raises:
            StoreUnavailable: it cannot be reached, is of a newer version, or is not a database.
            CannotWrite: another user can read its file, or has put it there.
        """
        url = database_url(target)
        database = cls(_engine(url))
        if database.path is not None:
            for suffix in _FILE_SUFFIXES:
                check_not_planted(database.path + suffix)
            create_private_file(database.path)  # SQLite gives its log and its index of the log the same mode.
        try:
            if bring_up_to_date(database._write_engine, keyring=keyring):
                database.truncate_log()  # It holds what an older version did not seal.
            database._close_files_to_others()
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
        return self._retry_once(self._read_engine.connect, work, writes=False)

    def read_after(self, wait: Callable[[Connection], None], work: Work[T]) -> T:
        """Call `wait`, then let `work` see everything that was committed until `wait` returned.

        On PostgreSQL a statement of `work` may see more than the one before it.
        """

        def wait_and_work(connection: Connection) -> T:
            wait(connection)
            return work(connection)

        return self._retry_once(self._list_engine.connect, wait_and_work, writes=False)

    def write(self, work: Work[T]) -> T:
        """Let `work` change the database: all of it, or nothing where it raises.

        A connection that was lost before the commit was sent is replaced and `work` is called once more.

        Raises:
            StoreUnavailable: the database cannot be reached; `outcome_unknown` says whether it may have committed.
        """
        connect = self._reserve_writer if self.is_sqlite else self._write_engine.connect
        return self._retry_once(connect, work, writes=True)

    def truncate_log(self) -> None:
        """Let SQLite write back and cut its write-ahead log, where no other process uses it."""
        if self.path is not None:
            with suppress(sqlite3.Error), closing(sqlite3.connect(self.path, timeout=0)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _close_files_to_others(self) -> None:
        """Take from other users what an older version, a copy or a file system without links left them.

        After SQLite has seen that it is a database: to open the file here would release the locks of this process.
        """
        if self.path is not None:
            for suffix in _FILE_SUFFIXES:
                close_to_others(self.path + suffix)

    def close(self) -> None:
        with self._locked():
            self._close_writer()
        event.listen(self.engine, "checkin", _close_returned)  # by a thread that works on while the store is closed
        self.engine.dispose()

    def _retry_once(self, connect: Connect, work: Work[T], *, writes: bool) -> T:
        try:
            return self._transact(connect, work, writes=writes)
        except _TransactionLost:
            time.sleep(0 if self.is_sqlite else RETRY_PAUSE_S)
        try:
            return self._transact(connect, work, writes=writes)
        except _TransactionLost as exc:
            raise _unavailable(exc.cause) from None

    def _transact(self, connect: Connect, work: Work[T], *, writes: bool) -> T:
        committing = False
        try:
            with connect() as connection:
                transaction = connection.begin()
                try:
                    result = work(connection)
                    committing = writes  # A transaction that only read may be repeated.
                    transaction.commit()
                except self.engine.dialect.loaded_dbapi.Error as exc:  # A `StatementCursor` wraps no error.
                    raise _failed(self.engine, exc, connection.connection) from None
                except BaseException:
                    transaction.close()
                    raise
                return result
        except DBAPIError as exc:
            if committing:
                raise _unavailable(exc, unknown=True) from None
            if _may_be_tried_again(exc):
                raise _TransactionLost(exc) from None
            raise _unavailable(exc) from exc
        except PoolTimeout as exc:
            raise _unavailable(exc) from None

    @contextmanager
    def _reserve_writer(self) -> Iterator[Connection]:
        """The one connection that writes to SQLite: to take one from the pool costs a quarter of an append."""
        with self._locked():
            if self._writer is None:
                self._writer = self._write_engine.connect()
            try:
                yield self._writer
            except BaseException:
                self._close_writer()
                raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self._write_lock.acquire(timeout=BUSY_TIMEOUT_S):
            raise StoreUnavailable(
                f"another writer of this process has held the database for {BUSY_TIMEOUT_S} s",
                hint="Inside of Store.transaction, use the store that it hands over.",
            )
        try:
            yield
        finally:
            self._write_lock.release()

    def _close_writer(self) -> None:
        """Give the connection back to the pool, which rolls back what was not committed."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()


class _TransactionLost(Exception):
    """A transaction that did not commit, and may be tried again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


def _failed(engine: Engine, exc: Any, connection: PoolProxiedConnection) -> Exception:  # noqa: ANN401 (the driver's own)
    """What a failure of the driver before the commit means, also for the other connections."""
    lost = engine.dialect.is_disconnect(exc, connection, None)
    if lost:
        connection.invalidate(exc)
        engine.dispose()  # The others are as dead as this one.
    return _TransactionLost(exc) if lost or getattr(exc, "sqlstate", None) in _RETRIABLE else _unavailable(exc)


def _may_be_tried_again(exc: DBAPIError) -> bool:
    if exc.connection_invalidated or getattr(exc.orig, "sqlstate", None) in _RETRIABLE:
        return True
    return type(exc.orig).__module__.startswith("psycopg") and exc.statement is None  # It did not even connect.


def _unavailable(exc: Exception, *, unknown: bool = False) -> StoreUnavailable:
    orig = getattr(exc, "orig", None) or exc
    reason = str(orig).strip().partition("\n")[0] or type(orig).__name__
    if unknown:
        return StoreUnavailable(
            f"the connection to the database was lost during a commit; the change may or may not be stored: {reason}",
            hint="Check whether the change is there before you try again, or send it with an idempotency key.",
            outcome_unknown=True,
        )
    return StoreUnavailable(
        f"the database cannot be used: {reason}",
        hint="Nothing was written. Check that the database is running, and try again.",
    )


def _not_opened(path: str, exc: DBAPIError) -> StoreUnavailable:
    hint = "Name an SQLite file, or a new file in an existing folder that you may write to."
    return StoreUnavailable(f"{path} cannot be opened: {exc.orig}", hint=hint)


def database_url(target: str) -> URL:
    """The URL of a database that is named by a URL or by a path.

    A variable may hold spaces and quotes around the URL, and its scheme in any case. What is not a URL and yet may
    hold a password is refused: taken for a path, it would be printed, and a file would get its name.

    Raises:
        InvalidStoreAddress: a URL of a database that we do not speak to, or one that cannot be read.
    """
    if "\0" in target:
        raise _unknown_url()
    address = target.strip(" \t\r\n\"'")
    scheme, is_url, location = address.partition("://")
    if not is_url:
        if _CONNECTION_WORD.search(target) or _BRACKETED_HOST.match(address):
            raise _unknown_url()
        return URL.create("sqlite", database=os.path.abspath(target))
    try:
        url = make_url(f"{scheme.lower()}://{location}")
    except (ArgumentError, ValueError):
        raise _unknown_url() from None
    kind = url.get_backend_name()
    if kind in ("postgresql", "postgres"):
        if "@" in (url.host or ""):
            raise InvalidStoreAddress("the URL of the database has two @", hint="Write an @ in the password as %40.")
        if not is_host(url.host or "localhost") or not 0 < (url.port or 1) <= _PORT_MAX:
            raise _unknown_url()
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return URL.create("sqlite", database=os.path.abspath(url.database))
    raise _unknown_url()


def find_database_file(target: str) -> str | None:
    """The absolute path of the file of an SQLite database, whether it exists or not; None for another database.

    Raises:
        InvalidStoreAddress: as `database_url`.
    """
    url = database_url(target)
    return url.database if url.get_backend_name() == "sqlite" else None


def _unknown_url() -> TraceForgeError:
    return InvalidStoreAddress(
        "the context store does not support the database of this URL",
        hint="Give a file, sqlite:///FILE, or postgresql://USER@HOST/DATABASE.",
    )


def _engine(url: URL) -> Engine:
    options = {
        "poolclass": QueuePool,
        "pool_size": POOL_SIZE,
        "max_overflow": POOL_OVERFLOW,
        "pool_timeout": BUSY_TIMEOUT_S,
    }
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, **options)
        except ImportError:
            raise MissingExtra("PostgreSQL needs psycopg, which is not installed", "context") from None
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _close_returned(connection: DBAPIConnection | None, _: ConnectionPoolEntry) -> None:
    """Close a connection that a thread returns to the pool after the store was closed."""
    if connection is not None:
        connection.close()


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
    until = time.monotonic() + BUSY_TIMEOUT_S
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


def _forget_connections(reference: weakref.ref[Database]) -> None:
    """Give a forked child connections of its own: those of its parent are the parent's to use and to close."""
    database = reference()
    if database is not None:
        database.engine.dispose(close=False)
        database._write_lock = threading.Lock()
        database._parents_writer, database._writer = database._writer, None  # Referenced, so that it is not closed.
