"""The database itself: opened, migrated, refused, lost and found again."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import Engine

from support.context_builders import append_event, list_all_events, new_session
from support.operation_store import Store
from traceforge.context.model.inputs import Append, NewEvent, NewProject
from traceforge.context.model.objects import EventType
from traceforge.context.storage import database as database_module
from traceforge.context.storage import schema_migration
from traceforge.context.storage.database import Database, database_url
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.schema_migration import LEDGER, bring_up_to_date
from traceforge.context.storage.tables import metadata
from traceforge.errors import StoreRefused, StoreUnavailable

LAST = "0004"


@contextmanager
def plain_engine(target: str) -> Iterator[Engine]:
    """The database without us."""
    engine = create_engine(database_url(target))
    yield engine
    engine.dispose()


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
