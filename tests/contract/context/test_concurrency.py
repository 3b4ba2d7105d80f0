"""Many concurrent writers on one branch, some of them killed: no event is lost or written twice."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.concurrent_writers import check_events, run_all
from support.context_builders import list_all_events, new_session
from support.databases import empty_database, memory_folder, start_postgres
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
    """Four processes with two writers each make 400 appends; each writer retries after a conflict."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        ids = (store.project_id, session.id, session.default_branch_id)
        start = time.monotonic()
        run_all(target, keys, ids, processes=4, threads=2, each=100)
        took = time.monotonic() - start
        events = list_all_events(store, session)
        branch = store.get_branch(session.id, session.default_branch_id)

        check_events(events, expected(4, 2, 100))
        assert (400, events[-1].id) == (branch.version, branch.head_event_id)
        assert store.verify().valid
    record_property("summary", f"context store, {backend}: 400 appends of 8 writers in {took:.1f} s")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sixty_four_writers_lose_nothing_while_some_are_killed(
    kind: str, tmp_path: Path, keys: str, record_property: Any
) -> None:
    """10,000 appends by eight processes of eight writers; 20 of them are killed, and PostgreSQL is restarted."""
    with memory_folder() as folder:
        server = start_postgres(folder) if kind == "postgresql" else None
        try:
            with empty_database(kind, server and server.get_uri(), tmp_path) as target:
                _run(target, keys, server, kind, record_property)
        finally:
            if server is not None:
                server.cleanup()


def _run(target: str, keys: str, server: Any, kind: str, record_property: Any) -> None:
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        ids = (store.project_id, session.id, session.default_branch_id)
        restarts: list[int] = []

        def restart_in_the_middle() -> None:
            while store.get_branch(session.id, session.default_branch_id).version < 4000:
                time.sleep(0.2)
            server.stop()  # Cuts every connection, at whichever statement it is.
            server.start()
            restarts.append(1)

        helper = threading.Thread(target=restart_in_the_middle) if server is not None else None
        if helper is not None:
            helper.start()
        start = time.monotonic()
        killed = run_all(target, keys, ids, processes=8, threads=8, each=1256, kills=20)
        took = time.monotonic() - start
        if helper is not None:
            helper.join()
        events = list_all_events(store, session)
        branch = store.get_branch(session.id, session.default_branch_id)

        check_events(events, expected(8, 8, 1256))
        assert (len(events), events[-1].id) == (branch.version, branch.head_event_id)
        assert 20 == killed
        assert (1 if server is not None else 0) == len(restarts)
        assert store.verify().valid
    record_property(
        "summary",
        f"context store, {kind}: {len(events)} appends of 64 writers in {took:.0f} s, {killed} killed,"
        f" {len(restarts)} restarts",
    )
