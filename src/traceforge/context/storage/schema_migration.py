"""Brings the schema of a database up to date.

In: an engine whose transactions write. Out: a database of this version. Never: half of a migration: each is one
transaction together with the row that records it, also on SQLite. Never a downgrade: a database of a newer version is
refused. Alembic is imported only where a migration is missing: its import takes a fifth of a command's time.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, column, inspect, select, table

from traceforge.context.storage.keyring import Keyring

LEDGER = "traceforge_version"  # The table that holds the revision of the database.
_FOLDER = str(Path(__file__).parent / "migrations")


def bring_up_to_date(engine: Engine, folder: str = _FOLDER, keyring: Keyring | None = None) -> bool:
    """Run every migration that the database does not have; whether there was one.

    A migration that seals content of an older version needs the keyring.

    Raises:
        StoreUnavailable: the database is of a newer version.
    """
    with engine.connect() as connection:
        current = read_revision(connection)
    if current == last_of(folder):
        return False
    from traceforge.context.storage.alembic_steps import run_missing_migrations  # Alembic is a fifth of a start.

    run_missing_migrations(engine, folder, keyring)
    return True


def last_of(folder: str = _FOLDER) -> str:
    """The newest revision: a file `m0001.py` makes 0001."""
    return max(path.stem for path in Path(folder, "versions").glob("m*.py")).removeprefix("m")


def read_revision(connection: Connection) -> str | None:
    """The revision of the database; None where it has none yet."""
    if not inspect(connection).has_table(LEDGER):
        return None
    revision: str | None = connection.execute(
        select(column("version_num")).select_from(table(LEDGER))
    ).scalar_one_or_none()
    return revision
