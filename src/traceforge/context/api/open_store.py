"""Opens the store of a project in this process."""

from __future__ import annotations

import os

from traceforge.context.history.artifact_expiry import read_ephemeral_hours
from traceforge.context.model_calls import ModelClients
from traceforge.context.project_store import Store
from traceforge.context.purge.purge_jobs import finish_purges
from traceforge.context.storage import projects
from traceforge.context.storage.database import Database, find_database_file
from traceforge.context.storage.keyring import Keyring
from traceforge.errors import StoreUnavailable

KEYS_VARIABLE = "TRACEFORGE_CONTEXT_KEYS"


def open_store(
    target: str, *, keys: str | None = None, project_id: str | None = None, traces_dir: str | None = None
) -> Store:
    """Open a database by its path or URL, and one of its projects: by default the oldest, which is made if need be.

    The keyring is the file `keys`, or the one that TRACEFORGE_CONTEXT_KEYS names, or the path of the database with
    `.keys` appended. A purge that a crash has interrupted is finished first.

    Raises:
        StoreUnavailable: the database or its keyring cannot be used.
        StoreRefused: the project does not exist.
    """
    read_ephemeral_hours()  # Raises where the setting is wrong.
    keyring = open_keyring(target, keys)
    database = Database.open(target, keyring)
    try:
        if project_id is None:
            project = database.read(projects.find_oldest_project) or database.write(
                lambda connection: projects.ensure_default_project(connection, keyring)
            )
        else:
            project = database.read(lambda connection: projects.load_project(connection, project_id))
        store = Store(database, keyring, project.id, ModelClients(traces_dir=traces_dir))
        finish_purges(store)
        if not keyring.generations(project.id):
            keyring.cipher(project.id, project.generation)  # Raises KeyMissing, which names the key.
    except BaseException:
        database.close()
        raise
    return store


def open_keyring(target: str, keys: str | None = None) -> Keyring:
    """The keyring of a database that is named by its path or URL.

    Raises:
        StoreUnavailable: the database is a server, and neither `keys` nor the environment names a keyring.
    """
    file = find_database_file(target)
    path = keys or os.environ.get(KEYS_VARIABLE) or (f"{file}.keys" if file else None)
    if path is None:
        raise StoreUnavailable(
            "the keyring of this database is not configured",
            hint=f"Name a file with --keys or in {KEYS_VARIABLE}; keep it away from the database's backups.",
        )
    return Keyring(path)
