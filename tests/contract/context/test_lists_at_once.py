"""Lists during concurrent inserts: a reader that continues after the last object misses none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from support.context_builders import fork_branch, new_artifact, new_bundle, new_session
from support.operation_store import Store
from traceforge.context.model.inputs import NewAlias, NewApiKey, NewProject, NewSession
from traceforge.context.model.objects import Target
from traceforge.context.storage import insert_locks

SOON_S = 20.0
TARGET = Target(provider="openai", model="m")


@contextmanager
def uncommitted(store: Store, make: Callable[[Store], Any]) -> Iterator[Callable[[], str]]:
    """Something that has its number and cannot be seen; it is committed when what is lent here is called."""
    inserted, go = threading.Event(), threading.Event()

    def work(joined: Store) -> str:
        name = name_of(make(joined))
        inserted.set()
        assert go.wait(SOON_S)
        return name

    with ThreadPoolExecutor() as pool:
        slow = pool.submit(store.transaction, work)
        assert inserted.wait(SOON_S)

        def commit() -> str:
            go.set()
            return slow.result(SOON_S)

        try:
            yield commit
        finally:
            go.set()


def name_of(item: Any) -> str:
    """The cursor of an object in a list."""
    return str(getattr(item, "id", None) or item.name)


def alias(store: Store) -> Any:
    """Aliases are listed by name."""
    return store.create_alias(NewAlias(name=f"a-{uuid4()}", targets=[TARGET]))


KINDS: dict[str, tuple[Callable[[Store], Any], Callable[..., Any]]] = {
    "artifacts": (new_artifact, lambda store, **page: store.list_artifacts(**page)),
    "bundles": (new_bundle, lambda store, **page: store.list_bundles(**page)),
    "sessions": (new_session, lambda store, **page: store.list_sessions(**page)),
    "aliases": (alias, lambda store, **page: store.list_aliases(**page)),
    "api_keys": (
        lambda store: store.create_api_key(NewApiKey(scopes=["read"])),
        lambda store, **page: store.list_api_keys(**page),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_does_not_skip_a_row_that_is_committed_late(store: Store, kind: str) -> None:
    """The first row has the lower number and is committed last; a reader past that number would never see it."""
    make, show = KINDS[kind]
    with uncommitted(store, make) as commit, ThreadPoolExecutor() as pool:
        quick = pool.submit(make, store)
        if not store.database.is_sqlite:  # Which has one writer: the second waits for the first.
            quick.result(SOON_S)
        listing = pool.submit(show, store, limit=100)
        threading.Event().wait(0.2)  # It would be over by now, if it did not wait.
        late = commit()
        early = name_of(quick.result(SOON_S))
        listed = [name_of(item) for item in listing.result(SOON_S).data]
        later = [name_of(item) for item in show(store, limit=100, after=listed[-1] if listed else None).data]

    assert [late, early] == listed + later


def test_a_list_of_branches_waits_for_pending_inserts(store: Store) -> None:
    """A list of one session waits like the others."""
    session = new_session(store)
    with uncommitted(store, lambda joined: fork_branch(joined, session)) as commit, ThreadPoolExecutor() as pool:
        quick = pool.submit(fork_branch, store, session)
        if not store.database.is_sqlite:
            quick.result(SOON_S)
        listing = pool.submit(store.list_branches, session.id)
        threading.Event().wait(0.2)
        late = commit()
        early = quick.result(SOON_S).id
        listed = [branch.id for branch in listing.result(SOON_S).data]
        later = [branch.id for branch in store.list_branches(session.id, after=listed[-1]).data]

    assert [session.default_branch_id, late, early] == listed + later


def test_a_list_of_projects_waits_for_pending_inserts(store: Store) -> None:
    """They belong to no project, so they have their own lock."""
    first = store.list_projects(limit=100)
    while first.has_more:
        first = store.list_projects(limit=100, after=first.data[-1].id)
    last = first.data[-1].id

    def make(joined: Store) -> Any:
        return joined.create_project(NewProject(name="late"))

    with uncommitted(store, make) as commit, ThreadPoolExecutor() as pool:
        quick = pool.submit(store.create_project, NewProject(name="early"))
        if not store.database.is_sqlite:
            quick.result(SOON_S)
        listing = pool.submit(store.list_projects, after=last)
        threading.Event().wait(0.2)
        late = commit()
        early = quick.result(SOON_S).id
        listed = [project.id for project in listing.result(SOON_S).data]
        later = [project.id for project in store.list_projects(after=listed[-1] if listed else last).data]

    assert [late, early] == listed + later


def test_a_list_does_not_wait_for_inserts_of_another_project(store: Store, other: Store) -> None:
    """On a database with several writers, inserts do not wait for each other either."""
    mine = [other.create_session(NewSession())]
    with uncommitted(store, new_session) as commit, ThreadPoolExecutor() as pool:
        if not store.database.is_sqlite:
            mine.append(other.create_session(NewSession()))
            store.create_session(NewSession())
        listed = pool.submit(other.list_sessions).result(SOON_S).data
        commit()

    assert [session.id for session in mine] == [session.id for session in listed]


def test_a_list_stops_waiting_for_an_insert_that_hangs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a timeout the list returns the committed rows."""
    impatient = str(insert_locks._LOCK_EXCLUSIVE).replace("'10s'", "'100ms'")
    monkeypatch.setattr(insert_locks, "_LOCK_EXCLUSIVE", insert_locks.text(impatient))
    before = new_session(store)
    with uncommitted(store, new_session) as commit:
        listed = [session.id for session in store.list_sessions().data]
        commit()

    assert [before.id] == listed
    assert 2 == len(store.list_sessions().data)
