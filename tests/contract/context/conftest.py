"""Every test here that takes a `store` or a `target` runs on SQLite and on PostgreSQL.

What has run is counted: for each backend, every merge strategy, every lane of a replay, and purges. The numbers are
printed at the end of a run, and a run of the whole suite in which one of them is zero fails (`support/counting.py`).

To be counted, a test

- has a parameter `strategy` (a MergeStrategy) or `lane` (recorded, baseline, candidate), or
- is marked `@pytest.mark.counted("merge rebase")`, `("lane candidate")`, `("purge")`, or several at once.

Its backend is that of the fixture `backend`; a test that has none is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.counting import COUNTED, cells_of
from support.databases import BACKENDS, empty_database, postgres_server, quick_folder
from traceforge.context.inputs import NewProject
from traceforge.context.store import Store


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server, for all tests of this process."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Which database."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _counted(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Say what this test counts for; it does where it passes."""
    for cell in cells_of(request.node):
        record_property(COUNTED, cell)


@pytest.fixture(scope="session")
def server(backend: str, request: pytest.FixtureRequest) -> str | None:
    """The server, where the database has one."""
    return request.getfixturevalue("postgres") if backend == "postgresql" else None


@pytest.fixture
def target(backend: str, server: str | None, tmp_path: Path) -> Iterator[str]:
    """An empty database, for one test alone."""
    with empty_database(backend, server, tmp_path) as name:
        yield name


@pytest.fixture
def keys(tmp_path: Path) -> str:
    """Where the keyring of such a database is."""
    return str(tmp_path / "context.keys")


@pytest.fixture(scope="session")
def shared_store(backend: str, server: str | None) -> Iterator[Store]:
    """One database for many tests, each with a project of its own."""
    with quick_folder() as folder, empty_database(backend, server, Path(folder)) as name:
        store = Store.open(name, keys=str(Path(folder) / "shared.keys"))
        yield store
        store.close()


@pytest.fixture
def store(shared_store: Store) -> Store:
    """A new project."""
    return shared_store.of_project(shared_store.create_project(NewProject(name="test")).id)


@pytest.fixture
def other(shared_store: Store) -> Store:
    """Another project of the same database."""
    return shared_store.of_project(shared_store.create_project(NewProject(name="other")).id)
