"""The order of lists, where several make something at once.

In: a connection, and the name of what is listed. Out: nothing; whoever makes something says so before it gets its
number, and whoever lists waits for those who have said so. Never: a wait of one who makes for another who makes, or
of an append: an event has its number from its branch.

PostgreSQL gives a number when a row is made, and shows the row when it is committed. So the row with number 7 may
appear after the one with number 8, when somebody has read up to 8 and goes on behind it. The locks here are
PostgreSQL's advisory ones, which end with the transaction: shared by all who make something in one project, taken
alone by who lists it. SQLite has one writer at a time, and needs none.
"""

from __future__ import annotations

from zlib import crc32

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

WAIT_S = 10  # Nothing that is made takes as long; a process that hangs shall not stop who reads.

PROJECT_LIST = "projects"  # The list of all projects.
API_KEY_LIST = "api keys"  # The list of keys, which may be those of all projects.
_SPACE = 0x7F0C  # Any number: which locks are these.
_LOCK_SHARED = text("SELECT pg_advisory_xact_lock_shared(:space, :name)")
_LOCK_EXCLUSIVE = text(f"SELECT set_config('lock_timeout', '{WAIT_S}s', true), pg_advisory_xact_lock(:space, :name)")
_LOCK_NOT_AVAILABLE = "55P03"


class InsertsPending(Exception):
    """Somebody has not come to an end for WAIT_S."""


def lock_inserts(connection: Connection, name: str) -> None:
    """Say that something with a number is about to be made: in this project, or a project."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK_SHARED, _lock_id(name))


def wait_for_inserts(connection: Connection, name: str) -> None:
    """Wait until what has a number can be seen; the first statement of a transaction that is READ COMMITTED.

    Raises:
        InsertsPending: it took too long. The transaction is of no more use.
    """
    if connection.dialect.name != "postgresql":
        return
    try:
        connection.execute(_LOCK_EXCLUSIVE, _lock_id(name))
    except OperationalError as exc:
        if getattr(exc.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise InsertsPending from None
        raise


def _lock_id(name: str) -> dict[str, int]:
    """Two names with one number wait for each other, and nothing worse."""
    return {"space": _SPACE, "name": crc32(name.encode()) - (1 << 31)}
