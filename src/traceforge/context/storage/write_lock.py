"""Whose turn it is to write, and the one connection that is kept for what is done most.

In: nothing but who asks. Out: a turn, or a cursor. Never: two writers of this process at once where the database has
one anyway; they wait here in order, and not at the file, where they would poll.
"""

from __future__ import annotations

import threading

from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.pool import PoolProxiedConnection

from traceforge.errors import StoreUnavailable

BUSY_S = 60  # How long a writer waits for another one before it gives up.


class KeptCursor:
    """A cursor on a connection of its own, for what is done thousands of times a second on SQLite."""

    def __init__(self, connection: PoolProxiedConnection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._waits = True  # For a writer of another process.

    def enter(self, *, waits: bool) -> DBAPICursor:
        """Its cursor; whoever takes it says whether it waits."""
        if waits is not self._waits:
            self._cursor.execute(f"PRAGMA busy_timeout={BUSY_S * 1000 if waits else 0}")
            self._waits = waits
        return self._cursor

    def leave(self) -> None:
        """Give it back to the pool; one that does not wait as the others do goes away."""
        self._cursor.close()
        if not self._waits:
            self._connection.invalidate()
        self._connection.close()


class Turn:
    """One writer of this process at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=BUSY_S):
            raise StoreUnavailable(
                f"another writer of this process has held the database for {BUSY_S} s",
                hint="Inside of Store.transaction, use the store that it hands over.",
            )

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def take_if_free(self) -> bool:
        """Is it nobody's? Then it is the caller's, until it is given back."""
        return self._lock.acquire(blocking=False)

    def give_back(self) -> None:
        """The next one."""
        self._lock.release()


class Busy(Exception):
    """Another process writes."""
