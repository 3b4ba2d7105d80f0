"""Many concurrent writers on one branch, some of them killed: no event is lost or written twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.concurrent_writers import check_events, run_all
from support.context_builders import list_all_events, new_session
from support.databases import empty_database, memory_folder, start_postgres
from support.example_counts import RunLength, lengthen, seeded_rounds
from support.operation_store import Store

NAMES = "w{process}.{thread}-{number}"


def expected(processes: int, threads: int, each: int) -> set[str]:
    """What every writer says."""
    return {
        NAMES.format(process=process, thread=thread, number=number)
        for process in range(processes)
        for thread in range(threads)
        for number in range(each // threads)
    }


def test_eight_writers_lose_nothing(target: str, keys: str, record_property: Any, backend: str) -> None:
    """Eight writers in several processes make 400 appends, 64 in a short run; a writer retries after a conflict."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        ids = (store.project_id, session.id, session.default_branch_id)
        processes, threads, each = (2, 4, 32) if RunLength.is_short else (4, 2, 100)  # A process is a second of CPU.
        start = time.monotonic()
        run_all(target, keys, ids, processes=processes, threads=threads, each=each)
        took = time.monotonic() - start
        events = list_all_events(store, session)
        branch = store.get_branch(session.id, session.default_branch_id)

        check_events(events, expected(processes, threads, each))
        assert (processes * each, events[-1].id) == (branch.version, branch.head_event_id)
        assert store.verify().valid
    record_property("summary", f"context store, {backend}: {processes * each} appends of 8 writers in {took:.1f} s")


@contextmanager
def _database_of_its_own(kind: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """The address of a database, and its server, which a test may restart; SQLite has none."""
    with memory_folder() as memory:
        server = start_postgres(memory) if kind == "postgresql" else None
        try:
            with empty_database(kind, server and server.get_uri(), folder) as target:
                yield target, server
        finally:
            if server is not None:
                server.cleanup()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sixty_four_writers_lose_nothing_while_some_are_killed(
    kind: str, tmp_path: Path, keys: str, record_property: Any
) -> None:
    """10,000 appends by eight processes of eight writers; 20 of them are killed, and PostgreSQL is restarted."""
    with _database_of_its_own(kind, tmp_path) as (target, server):
        start = time.monotonic()
        appends, killed, restarts = _kill_writers(target, keys, server, each=1256, kills=20)
        took = time.monotonic() - start

    assert 20 == killed
    record_property(
        "summary",
        f"context store, {kind}: {appends} appends of 64 writers in {took:.0f} s, {killed} killed,"
        f" {restarts} restarts",
    )


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_writers_that_are_killed_in_a_soak_lose_nothing(
    kind: str, tmp_path: Path, keys: str, record_property: Any
) -> None:
    """A branch in each round, in one database that grows; PostgreSQL is restarted in each."""
    appends = killed = restarts = 0
    with _database_of_its_own(kind, tmp_path) as (target, server):
        for _ in seeded_rounds(lengthen(1)):
            counts = _kill_writers(target, keys, server, each=256, kills=4)
            appends, killed, restarts = appends + counts[0], killed + counts[1], restarts + counts[2]

    assert killed > 0
    record_property(
        "summary", f"context store, {kind}: {appends} appends of 64 writers, {killed} killed, {restarts} restarts"
    )


def _kill_writers(target: str, keys: str, server: Any, *, each: int, kills: int) -> tuple[int, int, int]:
    """Let 64 writers append to a new branch while some are killed; the numbers of appends, kills and restarts."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        ids = (store.project_id, session.id, session.default_branch_id)
        restarts: list[int] = []

        def restart_in_the_middle() -> None:
            while store.get_branch(session.id, session.default_branch_id).version < each * 3:
                time.sleep(0.2)
            server.stop()  # Cuts every connection, at whichever statement it is.
            server.start()
            restarts.append(1)

        helper = threading.Thread(target=restart_in_the_middle) if server is not None else None
        if helper is not None:
            helper.start()
        killed = run_all(target, keys, ids, processes=8, threads=8, each=each, kills=kills)
        if helper is not None:
            helper.join()
        events = list_all_events(store, session)
        branch = store.get_branch(session.id, session.default_branch_id)

        check_events(events, expected(8, 8, each))
        assert (len(events), events[-1].id) == (branch.version, branch.head_event_id)
        assert (1 if server is not None else 0) == len(restarts)
        assert store.verify().valid
    return len(events), killed, len(restarts)
