"""Brings the schema of a database up to date.

In: an engine whose transactions write. Out: a database of this version. Never: half of a migration: each is one
transaction together with the row that records it, also on SQLite. Never a downgrade: a database of a newer version is
refused. Alembic is imported only where a migration is missing: its import takes a fifth of a command's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, column, inspect, select, table

from traceforge.context.storage.dialect_statements import lock_for_transaction
from traceforge.errors import StoreUnavailable

if TYPE_CHECKING:
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

LEDGER = "traceforge_version"  # The table that holds the revision of the database.
_FOLDER = str(Path(__file__).parent / "migrations")
_LOCK = 7_236_531_402  # Any number, the same everywhere: one process migrates at a time.


def bring_up_to_date(engine: Engine, folder: str = _FOLDER) -> None:
    """Run every migration that the database does not have.

    Raises:
        StoreUnavailable: the database is of a newer version.
    """
    with engine.connect() as connection:
        current = _current(connection)
    if current == last_of(folder):
        return
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(folder)
    known = [revision.revision for revision in script.walk_revisions()][::-1]
    while _step(engine, script, known):
        pass


def last_of(folder: str = _FOLDER) -> str:
    """The newest revision: a file `m0001.py` makes 0001."""
    return max(path.stem for path in Path(folder, "versions").glob("m*.py")).removeprefix("m")


def _step(engine: Engine, script: ScriptDirectory, known: list[str]) -> bool:
    """Run the next migration; whether more are left."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    with engine.begin() as connection:
        lock_for_transaction(connection, _LOCK)
        current = _current(connection)
        if current is not None and current not in known:
            raise StoreUnavailable(
                f"the database has schema version {current}, which is newer than this program knows ({known[-1]})",
                hint="Install the TraceForge version that wrote it. Nothing was changed.",
            )
        missing = known[known.index(current) + 1 :] if current is not None else known
        if not missing:
            return False

        def upgrade(heads: Any, _: MigrationContext) -> Iterable[Any]:  # noqa: ANN401 (Alembic's own)
            return script._upgrade_revs(missing[0], heads)

        context = MigrationContext.configure(
            connection, opts={"version_table": LEDGER, "fn": upgrade, "transactional_ddl": True}
        )
        with Operations.context(context):
            context.run_migrations()
        return len(missing) > 1


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table(LEDGER):
        return None
    revision: str | None = connection.execute(
        select(column("version_num")).select_from(table(LEDGER))
    ).scalar_one_or_none()
    return revision
