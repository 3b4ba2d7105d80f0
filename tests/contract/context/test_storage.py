"""The database itself: opened, migrated, refused, lost and found again."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.engine import Engine

from support.context_builders import append_event, append_events, list_all_events, new_session
from support.operation_store import Store
from traceforge.context.api.open_store import open_keyring
from traceforge.context.model.inputs import Append, NewEvent, NewProject, NewPurge, NewSnapshot
from traceforge.context.model.objects import EventType
from traceforge.context.storage import database as database_module
from traceforge.context.storage import schema_migration
from traceforge.context.storage.database import Database, database_url
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.projects import get_project
from traceforge.context.storage.schema_migration import LEDGER, bring_up_to_date
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.context.storage.tables import metadata
from traceforge.errors import BranchConflict, ContentPurged, StoreRefused, StoreUnavailable

LAST = "0004"


@contextmanager
def plain_engine(target: str) -> Iterator[Engine]:
    """The database without us."""
    engine = create_engine(database_url(target))
    yield engine
    engine.dispose()


def note(version: int, head: str | None) -> Append:
    """What is to be appended to a branch that stands there."""
    event = NewEvent(event_type=EventType.NOTE, content="x")
    return Append(expected_version=version, expected_head_event_id=head, event=event)


def tables(target: str) -> list[str]:
    """Which tables there are."""
    with plain_engine(target) as engine:
        return sorted(inspect(engine).get_table_names())


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """The migrations, and one more that can be made to fail or to hang."""
    folder = tmp_path / "migrations"
    shutil.copytree(schema_migration._FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "m9000.py").write_text(
        textwrap.dedent('''
            """One more table, and then whatever the test says."""
            import os, sys, time
            import sqlalchemy as sa
            from alembic import op
            revision = "9000"
            down_revision = "LAST"
            def upgrade():
                op.create_table("extra", sa.Column("id", sa.Integer, primary_key=True))
                op.add_column("projects", sa.Column("extra", sa.Text))
                then = os.environ.get("THEN")
                if then == "fail":
                    raise RuntimeError("it broke")
                if then == "hang":
                    print("here", flush=True)
                    time.sleep(60)
        ''').replace("LAST", LAST)
    )
    return folder


def test_the_migrations_create_the_declared_tables(target: str) -> None:
    """The same tables, columns, indexes and keys; one row records the last revision."""
    with closing(Database.open(target)) as database, database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": LEDGER, "compare_type": True})
        assert [] == compare_metadata(context, metadata)
        assert [(LAST,)] == connection.execute(text(f"SELECT version_num FROM {LEDGER}")).all()


def test_a_migration_file_is_named_after_its_revision(steps: Path) -> None:
    """So that the newest is known without importing any of them."""
    for folder in (schema_migration._FOLDER, str(steps)):
        revisions = [revision.revision for revision in ScriptDirectory(folder).walk_revisions()]

        assert (revisions[0], revisions) == (schema_migration.last_of(folder), sorted(revisions, reverse=True))


@pytest.mark.slow
def test_a_database_that_is_up_to_date_is_opened_without_alembic(target: str, keys: str) -> None:
    """Importing it takes a fifth of a command's time. A new database needs it."""
    program = (
        "import sys\n"
        "from traceforge.context.api.open_store import open_store\n"
        "open_store(sys.argv[1], keys=sys.argv[2]).close()\n"
        "print('alembic' in sys.modules)\n"
    )
    words = [sys.executable, "-c", program, target, keys]

    outputs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for _ in range(2)]

    assert ["True\n", "False\n"] == outputs


def test_a_database_of_a_newer_version_is_refused(target: str, keys: str) -> None:
    """It is left unchanged."""
    Store.open(target, keys=keys).close()
    with plain_engine(target) as engine, engine.begin() as connection:
        connection.execute(text(f"UPDATE {LEDGER} SET version_num = '9999'"))

    with pytest.raises(
        StoreUnavailable, match=rf"schema version 9999, which is newer than this program knows \({LAST}\)"
    ):
        Store.open(target, keys=keys)

    with plain_engine(target) as engine, engine.connect() as connection:
        assert [("9999",)] == connection.execute(text(f"SELECT version_num FROM {LEDGER}")).all()


def test_a_migration_that_fails_leaves_the_old_state(
    target: str, keys: str, steps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its tables nor its row; the store keeps working, and the migration can be retried."""
    with closing(Store.open(target, keys=keys)) as store:
        append_event(store, new_session(store), "before")
    before = tables(target)
    monkeypatch.setenv("THEN", "fail")
    with closing(Database.open(target)) as database:
        with pytest.raises(RuntimeError, match="it broke"):
            bring_up_to_date(database._write_engine, str(steps))
        assert before == tables(target)
        with database.engine.connect() as connection:
            assert [(LAST,)] == connection.execute(text(f"SELECT version_num FROM {LEDGER}")).all()
            assert "extra" not in [column["name"] for column in inspect(connection).get_columns("projects")]

        monkeypatch.delenv("THEN")
        bring_up_to_date(database._write_engine, str(steps))
        assert "extra" in tables(target)


@pytest.mark.slow
def test_a_migration_that_is_killed_leaves_the_old_state(target: str, keys: str, steps: Path) -> None:
    """With SIGKILL, in the middle of the migration."""
    Store.open(target, keys=keys).close()
    before = tables(target)
    program = (
        "import sys\n"
        "from traceforge.context.storage.database import Database\n"
        "from traceforge.context.storage.schema_migration import bring_up_to_date\n"
        "bring_up_to_date(Database.open(sys.argv[1])._write_engine, sys.argv[2])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, target, str(steps)],
        stdout=subprocess.PIPE,
        env={**os.environ, "THEN": "hang"},
    )
    assert process.stdout is not None
    assert b"here\n" == process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    assert before == tables(target)
    with closing(Store.open(target, keys=keys)) as store:
        append_event(store, new_session(store), "after")


def test_many_processes_can_open_an_empty_database_at_once(target: str, keys: str) -> None:
    """It is created once, with one default project."""

    def use(_: int) -> str:
        with closing(Store.open(target, keys=keys)) as store:
            return store.project_id

    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(use, range(6)))

    assert 1 == len(set(results))


def test_many_processes_can_create_the_same_file_at_once(tmp_path: Path) -> None:
    """SQLite itself would refuse some of them, whatever their timeout."""
    for number in range(30):
        path = str(tmp_path / f"{number}.db")
        together = threading.Barrier(6)

        def use(_: int, path: str = path, together: threading.Barrier = together) -> str:
            engine = database_module._engine(database_url(path))
            together.wait()
            with engine.connect() as connection:
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            engine.dispose()
            return str(mode)

        with ThreadPoolExecutor(6) as threads:
            assert ["wal"] * 6 == list(threads.map(use, range(6)))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_user_can_read_a_new_database_file(tmp_path: Path) -> None:
    """Nor its write-ahead log, whatever the umask is. A file that others could read is closed to them."""
    path = tmp_path / "context.db"
    umask = os.umask(0)
    try:
        database = Database.open(str(path))
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        database.close()
        path.chmod(0o640)
        Database.open(str(path)).close()
    finally:
        os.umask(umask)

    assert {"context.db": 0o600, "context.db-shm": 0o600, "context.db-wal": 0o600} == files
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_a_reopened_store_has_the_same_project_and_content(target: str, keys: str) -> None:
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        event = append_event(store, session, "remember")
    with closing(Store.open(target, keys=keys)) as store:
        assert [event] == list_all_events(store, session)
        another = store.create_project(NewProject(name="another"))
    with closing(Store.open(target, keys=keys, project_id=another.id)) as store:
        assert "another" == store.get_project().name
    with pytest.raises(StoreRefused, match="there is no project"):
        Store.open(target, keys=keys, project_id="prj_" + "0" * 26)


def test_without_its_keyring_a_database_cannot_be_read(target: str, keys: str, tmp_path: Path) -> None:
    """Another or an empty keyring opens nothing, and no new key is made."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        append_event(store, session, "the words")
    none = str(tmp_path / "none.keys")
    with pytest.raises(StoreUnavailable, match="no key for project"):
        Store.open(target, keys=none)
    with closing(Store(Database.open(target), Keyring(none), store.project_id)) as store:
        with pytest.raises(StoreUnavailable, match="no key for project"):
            list_all_events(store, session)
        with pytest.raises(StoreUnavailable, match="no key for project"):
            append_event(store, session)
    assert not (tmp_path / "none.keys").exists()


def test_a_lost_connection_is_replaced(target: str, keys: str, backend: str) -> None:
    """The next operation works, even if every connection of the pool is dead."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        append_event(store, session, "one")
        if backend == "postgresql":
            with plain_engine(target) as engine, engine.begin() as connection:
                connection.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
                )
        else:
            store.database.engine.dispose()

        assert 2 == append_event(store, session, "two").sequence
        assert ["one", "two"] == [event.content for event in list_all_events(store, session)]


def test_a_missing_database_is_an_error_in_every_operation(target: str, keys: str, backend: str) -> None:
    """For reads, writes and appends; nothing is reported as written."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        body = Append(
            expected_version=0,
            expected_head_event_id=None,
            event=NewEvent(event_type=EventType.USER_MESSAGE, content="x"),
        )
        if backend == "postgresql":
            with plain_engine(str(database_url(target).set(database="postgres"))) as engine:
                drop = text(f"DROP DATABASE {database_url(target).database} WITH (FORCE)")
                with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                    connection.execute(drop)
        else:
            store.database.engine.dispose()
            for name in Path(target).parent.glob("context.db*"):
                name.write_bytes(b"no database, for certain" * 100)
        uses: tuple[Callable[[], object], ...] = (
            lambda: store.get_session(session.id),
            lambda: new_session(store),
            lambda: store.append_event(session.id, session.default_branch_id, body),
        )
        for use in uses:
            with pytest.raises(StoreUnavailable, match="the database cannot be used") as error:
                use()
            assert not error.value.outcome_unknown


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
