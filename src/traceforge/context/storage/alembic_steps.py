"""Migrations of the database, run one by one with Alembic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from traceforge.context.storage.dialect_statements import lock_for_transaction
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.schema_migration import LEDGER, read_revision
from traceforge.errors import StoreUnavailable

KEYRING_OPTION = "keyring"  # Of the migration's context: the keyring that seals what an older version did not.
_LOCK = 7_236_531_402  # Any number, the same everywhere: one process migrates at a time.


def run_missing_migrations(engine: Engine, folder: str, keyring: Keyring | None) -> None:
    """Run every migration in `folder` that the database does not have.

    Raises:
        StoreUnavailable: the database is of a newer version.
    """
    script = ScriptDirectory(folder)
    revisions = [revision.revision for revision in script.walk_revisions()][::-1]
    while _step(engine, script, revisions, keyring):
        pass


def _step(engine: Engine, script: ScriptDirectory, revisions: list[str], keyring: Keyring | None) -> bool:
    """Run the next migration; whether more are left."""
    with engine.begin() as connection:
        lock_for_transaction(connection, _LOCK)
        current = read_revision(connection)
        if current is not None and current not in revisions:
            raise StoreUnavailable(
                f"the database has schema version {current}, which is newer than this program knows "
                f"({revisions[-1]})",
                hint="Install the TraceForge version that wrote it. Nothing was changed.",
            )
        missing = revisions[revisions.index(current) + 1 :] if current is not None else revisions
        if not missing:
            return False

        def upgrade(heads: Any, _: MigrationContext) -> Iterable[Any]:  # noqa: ANN401 (Alembic's own)
            return script._upgrade_revs(missing[0], heads)

        options = {"version_table": LEDGER, "fn": upgrade, "transactional_ddl": True, KEYRING_OPTION: keyring}
        context = MigrationContext.configure(connection, opts=options)
        with Operations.context(context):
            context.run_migrations()
        return len(missing) > 1
