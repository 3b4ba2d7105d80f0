"""Every test here that takes a `store` or a `target` runs on SQLite and on PostgreSQL, unless its module has its own
`backend`, because what it tests does not know which database it is.

The passed cases of each backend are counted by merge strategy, replay lane and purge (`support/case_counts.py`). The
counts are printed at the end of a run; a run of the whole suite fails if one of them is zero.

To be counted, a test

- has a parameter `strategy` (a MergeStrategy) or `lane` (recorded, baseline, candidate), or
- is marked `@pytest.mark.counted("merge rebase")`, `("lane candidate")`, `("purge")`, or several at once.

Its backend is that of the fixture `backend`; a test that has none is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.case_counts import COUNTED, find_cells
from support.databases import BACKENDS, empty_database, memory_folder, postgres_on_demand
from support.loopback_models import chat_answer, connect_models, scripted_provider
from support.operation_store import Store
from support.upstream import ScriptedResponse, Upstream
from traceforge.context.model.inputs import NewAlias, NewProject
from traceforge.context.model.objects import Target

# Modules whose tests run on PostgreSQL in `make test` too: what a database can do differently. The others ask what
# every database answers alike, and run on PostgreSQL in `make test-all`.
ON_BOTH_DATABASES = frozenset({
    "test_concurrency.py", "test_merges.py", "test_properties.py", "test_purge.py", "test_purge_properties.py",
    "test_repeated_merges.py", "test_replay_runs.py", "test_storage.py", "test_storage_connections.py",
    "test_tenancy.py",
})  # fmt: skip


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave PostgreSQL to `make test-all` where SQLite tells enough for a short run."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if parameters.get("backend") == "postgresql" and item.path.name not in ON_BOTH_DATABASES:
        item.add_marker("slow")


@pytest.fixture(scope="session")
def started_postgres() -> Iterator[Callable[[], str]]:
    """A PostgreSQL server for all tests of this process, started when the first of them asks for it."""
    with postgres_on_demand() as find:
        yield find


@pytest.fixture
def postgres(started_postgres: Callable[[], str]) -> str:
    """The URL of the server."""
    return started_postgres()


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Which database."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _counted(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Say what this test counts for; it does where it passes."""
    for cell in find_cells(request.node):
        record_property(COUNTED, cell)


@pytest.fixture
def server(backend: str, started_postgres: Callable[[], str]) -> str | None:
    """The server, where the database has one."""
    return started_postgres() if backend == "postgresql" else None


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
def shared_stores(started_postgres: Callable[[], str]) -> Iterator[Callable[[str], Store]]:
    """One database of each kind, opened when the first test asks for it.

    By name, not by a parameter of the session: a module that runs on one database only has a `backend` of its own,
    and what depends on a parameter would be taken over from there.
    """
    opened: dict[str, Store] = {}
    with ExitStack() as stack:

        def find(backend: str) -> Store:
            if backend not in opened:
                server = started_postgres() if backend == "postgresql" else None
                folder = Path(stack.enter_context(memory_folder()))
                name = stack.enter_context(empty_database(backend, server, folder))
                opened[backend] = stack.enter_context(closing(Store.open(name, keys=str(folder / "shared.keys"))))
            return opened[backend]

        yield find


@pytest.fixture
def shared_store(backend: str, shared_stores: Callable[[str], Store]) -> Store:
    """One database for many tests, each with a project of its own."""
    stores = shared_stores(backend)
    assert (backend == "sqlite") == stores.database.is_sqlite
    return stores


@pytest.fixture
def store(shared_store: Store) -> Store:
    """A new project."""
    return shared_store.of_project(shared_store.create_project(NewProject(name="test")).id)


@pytest.fixture
def other(shared_store: Store) -> Store:
    """Another project of the same database."""
    return shared_store.of_project(shared_store.create_project(NewProject(name="other")).id)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A scripted provider."""
    with scripted_provider() as provider:
        provider.respond_with(ScriptedResponse([chat_answer("Yes.")]))
        yield provider


@pytest.fixture
def model_store(store: Store, upstream: Upstream) -> Store:
    """A store that asks it; `bot` is an alias."""
    connected = connect_models(store, upstream.url)
    connected.create_alias(NewAlias(name="bot", targets=[Target(provider="openai", model="m-1")]))
    return connected
