"""Finds and opens the context store of a project. Import it when a page needs it: it loads the extra `context`.

Raises at its import:
    MissingExtra: the packages of the extra `context` are not installed.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from traceforge.config import LoadedConfig
from traceforge.context import Client
from traceforge.context.api.project_client import (
    connect_to_server,
    find_named_database,
    find_server_address,
    project_database,
)
from traceforge.context.storage.database import find_database_file
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state

NO_FILE = (0, 0)  # The file id of a store that is not in a file.


class StoreLocation(NamedTuple):
    """Where a store is: on a server, or in a database, which may be a file."""

    server: str | None
    database: str
    file_id: tuple[int, int] | None  # Tells a file from another one of the same name; None if it does not exist.


def find_store(loaded: LoadedConfig, server: str) -> StoreLocation:
    """The store that the user named, or else that of the project."""
    database = find_named_database(server) or project_database(loaded.project)
    address = find_server_address(database)
    if address is not None:
        return StoreLocation(address, database, NO_FILE)
    path = find_database_file(database)
    return StoreLocation(None, database, _find_file_id(path) if path is not None else NO_FILE)


def open_store(loaded: LoadedConfig, location: StoreLocation) -> Client:
    """A client of this store.

    Raises:
        StoreUnavailable: the database or the server cannot be used.
        TrackedState: Git tracks the folder of the database.
    """
    if location.server is not None:
        return connect_to_server(location.server)
    refuse_tracked_state(loaded.project)
    return Client.open(location.database, traces_dir=os.path.join(loaded.project, loaded.config.traces_dir))


def _find_file_id(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
