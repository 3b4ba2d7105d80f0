"""The store of one project: its transactions, its keys, and the models that it may call.

In: functions that work in a transaction. Out: what they return. Never: an object of another project, or half of a
change.

    store = open_store("context.db")
    session = store.write(lambda tx: create_session(tx, NewSession()))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from sqlalchemy import Connection

from traceforge.context.model_calls import ModelClients
from traceforge.context.storage.database import Database
from traceforge.context.storage.insert_locks import InsertsPending, wait_for_inserts
from traceforge.context.storage.keyring import KeyMissing, Keyring
from traceforge.context.storage.sealing import Sealer
from traceforge.context.storage.store_transaction import StoreTransaction

T = TypeVar("T")
Work = Callable[[StoreTransaction], T]


class Store:
    """One project of one database. Safe to use from many threads."""

    def __init__(
        self, database: Database, keyring: Keyring, project_id: str, models: ModelClients | None = None
    ) -> None:
        self.database = database
        self.models = models or ModelClients()
        self.keyring = keyring
        self.project_id = project_id
        self._sealer = Sealer(keyring, project_id)
        self._joined: StoreTransaction | None = None
        self._after_commit: list[Callable[[], None]] = []

    def close(self) -> None:
        """Close the database, and write the traces of model calls to their files."""
        self.models.close()
        self.database.close()

    def of_project(self, project_id: str) -> Self:
        """The store of another project in the same database."""
        return type(self)(self.database, self.keyring, project_id, self.models)

    def read(self, work: Work[T]) -> T:
        """Let `work` look at one state of the project."""
        if self._joined is not None:
            return work(self._joined)
        return _retry_with_new_keys(
            lambda: self.database.read(lambda connection: work(self._begin(connection))),
        )

    def read_list(self, work: Work[T], list_name: str | None = None) -> T:
        """Let `work` read a page. The next page misses nothing that was inserted meanwhile.

        `list_name` is a list of all projects (`storage.insert_locks`); None: the lists of this project.
        """
        if self._joined is not None:
            return work(self._joined)
        try:
            return _retry_with_new_keys(
                lambda: self.database.read_after(
                    lambda connection: wait_for_inserts(connection, list_name or self.project_id),
                    lambda connection: work(self._begin(connection)),
                )
            )
        except InsertsPending:
            return self.read(work)

    def write(self, work: Work[T]) -> T:
        """Let `work` change the project: all of it, or nothing where it raises.

        `work` may be called a second time where the connection was lost before anything was committed.
        """
        if self._joined is not None:
            return work(self._joined)
        return _retry_with_new_keys(
            lambda: self.database.write(lambda connection: work(self._begin(connection))),
        )

    def transaction(self, work: Callable[[Self], T]) -> T:
        """Like `write`, for a function that needs a store: `work` gets one that has joined the transaction."""
        if self._joined is not None:
            return work(self)
        after_commit: list[Callable[[], None]] = []

        def work_joined(tx: StoreTransaction) -> T:
            store = self.of_project(self.project_id)
            store._joined = tx
            result = work(store)
            after_commit[:] = store._after_commit
            return result

        result = self.write(work_joined)
        for callback in after_commit:
            callback()
        return result

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the joined transaction is committed; at once where there is none."""
        if self._joined is not None:
            self._after_commit.append(callback)
        else:
            callback()

    @property
    def tx(self) -> StoreTransaction:
        """The transaction that this store has joined."""
        assert self._joined is not None, "only inside of Store.transaction"
        return self._joined

    @property
    def is_joined(self) -> bool:
        """Whether this store has joined a transaction. No model may be called inside of one."""
        return self._joined is not None

    def _begin(self, connection: Connection) -> StoreTransaction:
        return StoreTransaction(connection, self.project_id, self._sealer)


def _retry_with_new_keys(work: Callable[[], T]) -> T:
    """A purge may destroy a key after a row was read and before it was opened: then read the row once more."""
    try:
        return work()
    except KeyMissing:
        return work()
