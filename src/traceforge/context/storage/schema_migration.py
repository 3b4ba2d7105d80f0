"""Brings the schema up to date.

In: an engine whose transactions write. Out: a database of this version. Never: half of a migration; each one is one
transaction together with the row that says it was made, also on SQLite. Never a way back: a database of a newer
version is refused. Never Alembic where nothing is missing: to import it takes a fifth of a command's time.
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

LEDGER = "traceforge_version"  # The table with the revision that the database has.
_FOLDER = str(Path(__file__).parent / "migrations")
_LOCK = 7_236_531_402  # Any number, the same everywhere: one process migrates at a time.


def bring_up_to_date(engine: Engine, folder: str = _FOLDER) -> None:
    """Make every migration that is missing.

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
    """The revision that the last migration makes: a file `m0001.py` makes 0001."""
    return max(path.stem for path in Path(folder, "versions").glob("m*.py")).removeprefix("m")


def _step(engine: Engine, script: ScriptDirectory, known: list[str]) -> bool:
    """Make the next migration; False where there is none."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    with engine.begin() as connection:
        lock_for_transaction(connection, _LOCK)
        current = _current(connection)
        if current is not None and current not in known:
            raise StoreUnavailable(
                f"the database is of a newer version ({current}) than this program knows ({known[-1]})",
                hint="Install the version of TraceForge that wrote it. Nothing was changed.",
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
    found: str | None = connection.execute(
        select(column("version_num")).select_from(table(LEDGER))
    ).scalar_one_or_none()
    return found
