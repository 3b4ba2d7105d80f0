"""Complete lists, where several transactions insert at once.

PostgreSQL numbers a row when it is inserted and shows it when it is committed. So row 7 may appear after row 8, when
a caller has read up to row 8 and continues after it. To prevent that, a transaction that inserts takes a shared
advisory lock, and a list waits for the exclusive one. Both end with their transactions. An append takes no lock: the
number of an event is that of its branch. SQLite has one writer at a time and needs no lock.
"""

from __future__ import annotations

from zlib import crc32

from sqlalchemy import Connection, text

from traceforge.context.storage.dialect_statements import LockTimeout, execute_or_time_out, is_postgresql

WAIT_S = 10  # An insert takes much less; a process that hangs must not stop every list.

PROJECT_LIST = "projects"  # The list of all projects.
API_KEY_LIST = "api keys"  # The list of API keys, which may be those of all projects.
_LOCK_SPACE = 0x7F0C  # Any number: tells these advisory locks from others.
_LOCK_SHARED = text("SELECT pg_advisory_xact_lock_shared(:space, :name)")
_LOCK_EXCLUSIVE = text(f"SELECT set_config('lock_timeout', '{WAIT_S}s', true), pg_advisory_xact_lock(:space, :name)")


class InsertsPending(Exception):
    """A transaction that inserts did not end within WAIT_S."""


def lock_inserts(connection: Connection, name: str) -> None:
    """Announce an insert into the lists of `name`, a project or one of the lists above."""
    if is_postgresql(connection):
        connection.execute(_LOCK_SHARED, _lock_id(name))


def wait_for_inserts(connection: Connection, name: str) -> None:
    """Wait for announced inserts. The first statement of a READ COMMITTED transaction.

    Raises:
        InsertsPending: it took too long. The transaction can only be rolled back.
    """
    if is_postgresql(connection):
        try:
            execute_or_time_out(connection, _LOCK_EXCLUSIVE, _lock_id(name))
        except LockTimeout:
            raise InsertsPending from None


def _lock_id(name: str) -> dict[str, int]:
    """Two names with the same checksum wait for each other, and nothing worse."""
    return {"space": _LOCK_SPACE, "name": crc32(name.encode()) - (1 << 31)}
