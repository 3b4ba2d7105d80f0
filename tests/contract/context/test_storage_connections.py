"""The connections of the database: lost, refused, shared by threads and processes, and closed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from support.context_builders import append_event, append_events, list_all_events, new_session
from support.operation_store import Store
from traceforge.context.api.open_store import open_keyring
from traceforge.context.model.inputs import Append, NewEvent, NewPurge, NewSnapshot
from traceforge.context.model.objects import EventType
from traceforge.context.storage import database as database_module
from traceforge.context.storage.database import Database
from traceforge.context.storage.projects import get_project
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.errors import BranchConflict, ContentPurged, StoreUnavailable


def note(version: int, head: str | None) -> Append:
    """What is to be appended to a branch that stands there."""
    event = NewEvent(event_type=EventType.NOTE, content="x")
    return Append(expected_version=version, expected_head_event_id=head, event=event)


def test_a_transaction_whose_connection_is_lost_is_retried_once(target: str, keys: str, backend: str) -> None:
    """If it surely was not committed, all of it is done again."""
    if backend != "postgresql":
        assert backend == "sqlite"  # A file is not lost.
        return
    with closing(Store.open(target, keys=keys)) as store:
        calls: list[int] = []

        def work(joined: Store) -> str:
            calls.append(1)
            session = new_session(joined)
            if len(calls) == 1:
                joined.tx.connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
            return session.id

        result = store.transaction(work)

        assert 2 == len(calls)
        assert [result] == [session.id for session in store.list_sessions().data]


def test_a_commit_with_an_unknown_outcome_is_an_error(
    target: str, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not repeated, and the error says so."""
    with closing(Store.open(target, keys=keys)) as store:
        dialect = store.database.engine.dialect
        failure = dialect.loaded_dbapi.OperationalError("the line went dead")
        commit = dialect.do_commit

        def lost(connection: object) -> None:
            commit(connection)  # type: ignore[arg-type]
            raise failure

        monkeypatch.setattr(dialect, "do_commit", lost)
        with pytest.raises(StoreUnavailable, match="may or may not be stored") as error:
            new_session(store)
        monkeypatch.undo()

        assert error.value.outcome_unknown
        assert 1 == len(store.list_sessions().data)


@pytest.mark.parametrize(
    "name", ["mysql://host/db", "postgresql://nobody@127.0.0.1:1/none", "sqlite://", "sqlite:///:memory:", "x://"]
)
def test_an_unusable_database_url_is_refused(name: str) -> None:
    """The error says what is wrong without quoting a password."""
    with pytest.raises(StoreUnavailable):
        Database.open(name)


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    """It is left unchanged."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"not a database, for certain" * 100)

    with pytest.raises(StoreUnavailable, match="not a database"):
        Database.open(str(path))

    assert b"not a database, for certain" * 100 == path.read_bytes()


def test_a_database_server_needs_a_path_for_its_keyring(
    target: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keyring of an SQLite file is next to the file."""
    monkeypatch.delenv("TRACEFORGE_CONTEXT_KEYS", raising=False)
    if backend == "sqlite":
        assert f"{target}.keys" == open_keyring(target).path
    else:
        with pytest.raises(StoreUnavailable, match="keyring of this database is not configured"):
            open_keyring(target)
    monkeypatch.setenv("TRACEFORGE_CONTEXT_KEYS", f"{target.rpartition('/')[0]}/elsewhere.keys")

    assert open_keyring(target).path.endswith("/elsewhere.keys")


def test_a_write_inside_a_transaction_that_does_not_join_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for itself for ever."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_S", 0.1)
    with closing(Store.open(str(tmp_path / "a.db"))) as store:
        with pytest.raises(StoreUnavailable, match="another writer of this process"):
            store.transaction(lambda _: new_session(store))

        assert [] == store.list_sessions().data


@pytest.mark.slow
def test_a_store_works_after_a_fork_of_the_process(target: str, keys: str) -> None:
    """The child opens its own connections, and the parent keeps its own."""
    program = textwrap.dedent(
        """
        import os, sys
        from support.context_builders import append_event, list_all_events, new_session
        from support.operation_store import Store
        store = Store.open(sys.argv[1], keys=sys.argv[2])
        session = new_session(store)
        append_event(store, session, "before")
        child = os.fork()
        append_event(store, session, "child") if child == 0 else os.waitpid(child, 0)
        if child == 0:
            os._exit(0)
        append_event(store, session, "parent")
        print([event.content for event in list_all_events(store, session)])
        """
    )
    tests = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", program, target, keys],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ("['before', 'child', 'parent']\n", 0) == (ran.stdout, ran.returncode), ran.stderr


def test_sqlite_commits_are_durable(tmp_path: Path) -> None:
    """WAL, and a sync to disk with every commit."""
    with closing(Database.open(str(tmp_path / "a.db"))) as database, database.engine.connect() as connection:
        settings = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert ["wal", 2] == settings
        assert 1 == connection.exec_driver_sql("PRAGMA foreign_keys").scalar()


def test_an_append_waits_for_a_writer_of_another_process(tmp_path: Path) -> None:
    """It is neither refused nor lost."""
    target = str(tmp_path / "context.db")
    with closing(Store.open(target)) as store, closing(sqlite3.connect(target, isolation_level=None)) as other:
        session = new_session(store)
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(store.append_event, session.id, session.default_branch_id, note(0, None))
            time.sleep(0.3)
            was_done = waiting.done()
            other.execute("ROLLBACK")
            event = waiting.result()

        assert not was_done
        assert [event] == list_all_events(store, session)


def test_an_append_after_a_refused_one_reads_the_current_state(target: str, keys: str) -> None:
    """A refusal leaves neither a transaction nor a lock on the shared connection."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        event = append_event(store, session)

        with pytest.raises(BranchConflict) as refused:
            store.append_event(session.id, session.default_branch_id, note(0, None))
        later = append_event(store, session)

        assert (1, event.id) == (refused.value.version, refused.value.head_event_id)
        assert [event, later] == list_all_events(store, session)


@pytest.mark.counted("purge")
def test_a_refused_operation_leaves_no_open_statement(target: str, keys: str) -> None:
    """An unfinished statement would show its old state to the next user of the connection."""
    store = Store.open(target, keys=keys)
    session = new_session(store)
    first, *_ = append_events(store, session, 4)
    store.create_purge_job(NewPurge(targets=[first.id]))
    errors = []  # As a server holds an error while it answers.
    for _ in range(3):
        with pytest.raises(ContentPurged) as error:
            store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())
        errors.append(error.value)
        for _ in range(2):  # On another connection, where the database is a file.
            latest = append_event(store, session)
            assert latest.id == store.get_branch(session.id, session.default_branch_id).head_event_id
        assert new_session(store).id == store.list_sessions().data[-1].id

    assert 3 == len(errors)
    store.close()


def test_a_connection_in_use_while_the_store_is_closed_is_closed_when_it_comes_back(target: str, keys: str) -> None:
    """A pool that is gone would leave it open until the garbage collector meets it."""
    Store.open(target, keys=keys).close()
    database = Database.open(target)
    held: list[Any] = []
    begun, end = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        held.append(connection.connection.dbapi_connection)
        begun.set()
        assert end.wait(60)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(database.read, work)
        assert begun.wait(60)
        database.close()
        end.set()
        reading.result(60)

    with pytest.raises(Exception, match="closed"):
        held[0].execute("SELECT 1")


@pytest.mark.slow
def test_threads_wait_for_a_connection_and_do_not_exceed_what_the_database_allows(target: str, keys: str) -> None:
    """PostgreSQL refuses the 98th by default. Hundreds of model calls may begin or end at once."""
    barrier = threading.Barrier(120)

    def read_slowly(store: Store) -> str:
        barrier.wait()

        def work(tx: StoreTransaction) -> str:
            name: str = get_project(tx).name
            time.sleep(1)  # Longer than a second attempt waits.
            return name

        return store.read(work)

    with closing(Store.open(target, keys=keys)) as store, ThreadPoolExecutor(120) as threads:
        names = list(threads.map(read_slowly, [store] * 120))

    assert ["default"] * 120 == names
