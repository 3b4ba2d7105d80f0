"""A purge that is killed at any point is finished later; concurrent writers lose nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.concurrent_writers import check_events, run_all
from support.context_builders import append_event, list_all_events, new_artifact, new_session
from support.operation_store import Store
from support.purge_rows import purge
from traceforge.context.model.inputs import NewPurge
from traceforge.context.purge.purge_jobs import create_purge_job
from traceforge.errors import ContentPurged, StoreRefused, StoreUnavailable

pytestmark = pytest.mark.counted("purge")

TESTS = Path(__file__).parents[2]


def _kill(target: str, folder: Path, first: int, every: int) -> int:
    rings, traces = folder / "rings", folder / "traces"
    for place in (rings, traces):
        place.mkdir()
    command = [sys.executable, "-m", "support.purge_crash", target, str(rings / "ring"), str(traces)]
    process = subprocess.run(
        [*command, str(first), str(every)], cwd=TESTS, capture_output=True, text=True, check=False, timeout=900
    )
    assert 0 == process.returncode, process.stderr[-3000:]
    return int(process.stdout)


@pytest.mark.slow
def test_a_killed_purge_is_finished_by_the_next_store(
    target: str, tmp_path: Path, backend: str, record_property: Any
) -> None:
    """Killed before some of its changes, from the first to the last."""
    killed = _kill(target, tmp_path, 7, 37)

    assert 2 <= killed
    record_property("summary", f"context store, {backend}: {killed} purges were killed and finished")


@pytest.mark.slow
def test_a_purge_killed_before_any_change_is_finished_by_the_next_store(
    target: str, tmp_path: Path, backend: str, record_property: Any
) -> None:
    """Killed before each of its changes."""
    killed = _kill(target, tmp_path, 1, 1)

    assert 80 <= killed
    record_property("summary", f"context store, {backend}: {killed} purges were killed anywhere, and finished")


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 400])
def test_writers_lose_nothing_while_purges_run(target: str, keys: str, count: int) -> None:
    """Four processes append while purges raise the key generation; every event can be read."""
    with closing(Store.open(target, keys=keys)) as store:
        session, other = new_session(store, "base"), new_session(store)
        ids = (store.project_id, session.id, session.default_branch_id)
        writers = threading.Thread(
            target=run_all, args=(target, keys, ids), kwargs={"processes": 4, "threads": 2, "each": count}
        )
        writers.start()
        purges = 0
        while writers.is_alive() or not purges:
            event = append_event(store, other, f"secret {purges}")
            purge(store, event.id, new_artifact(store, "secret").id)
            purges += 1
        writers.join()

        texts = {
            f"w{process}.{thread}-{number}"
            for process in range(4)
            for thread in range(2)
            for number in range(count // 2)
        }
        check_events(list_all_events(store, session), texts)
        assert purges + 1 == store.get_project().generation
        assert [purges + 1] == store.keyring.generations(store.project_id)
        assert [] == store.verify().problems
        assert 1 < purges


def test_a_read_that_overlaps_a_purge_is_repeated(target: str, keys: str) -> None:
    """A row read under a key that is destroyed before the row is opened is read once more."""
    with closing(Store.open(target, keys=keys)) as first_store, closing(Store.open(target, keys=keys)) as other:
        remaining, secret = new_artifact(first_store, "kept"), new_artifact(first_store, "secret")
        first_store.keyring._ciphers.clear()
        first_store.keyring._file_state = None
        tries = []

        def work(tx: Any) -> bytes:
            from traceforge.context.history import artifacts

            row = artifacts.artifacts
            loaded = tx.load(row, "artifact", remaining.id)
            tries.append(loaded.generation)
            if len(tries) == 1:
                purge(other, secret.id)
            return artifacts._row_key(tx, loaded).open(loaded.sealed)

        assert b"kept" == first_store.read(work)
        assert [1, 2] == tries


def test_a_row_that_cannot_be_decrypted_stops_a_purge_before_anything_is_lost(target: str, keys: str) -> None:
    """Its key would be lost with the old one. The job says so, and all content is unchanged."""
    from sqlalchemy import update

    from traceforge.context.storage.tables import artifacts

    with closing(Store.open(target, keys=keys)) as store:
        secret, remaining, damaged = (new_artifact(store, text) for text in ("secret", "kept", "damaged"))
        store.write(
            lambda tx: tx.execute(update(artifacts).where(artifacts.c.id == damaged.id).values(wrapped_key=bytes(60)))
        )

        with pytest.raises(StoreUnavailable, match=damaged.id):
            store.create_purge_job(NewPurge(targets=[secret.id]))

        [job] = store.list_purge_jobs().data
        assert ("failed", "store_damaged", None) == (job.status, job.error_code, job.receipt_id)
        assert b"secret" == store.get_artifact_content(secret.id).data
        assert b"kept" == store.get_artifact_content(remaining.id).data
        with pytest.raises(StoreRefused) as error:
            store.get_receipt(job.id)
        assert (409, "purge_not_completed") == (error.value.status, error.value.reason)
        purge(store, damaged.id, secret.id)  # What is damaged can go.
        assert [] == store.verify().problems


def test_a_job_that_was_not_started_runs_when_the_store_is_opened(target: str, keys: str) -> None:
    """Unless another process is working on it."""
    with closing(Store.open(target, keys=keys)) as store:
        secret = new_artifact(store, "secret")
        job = store.write(lambda tx: create_purge_job(tx, NewPurge(targets=[secret.id], reason="asked for")))
        assert ("queued", "asked for") == (job.status, job.reason)
        with store.keyring.lock_purges(wait=True):
            store.finish_purges()
        assert "queued" == store.get_purge_job(job.id).status
        with closing(Store.open(target, keys=keys)) as reopened:
            assert "completed" == reopened.get_purge_job(job.id).status
        with pytest.raises(ContentPurged):
            store.get_artifact(secret.id)


def test_the_trace_of_a_call_that_ends_after_the_purge_is_removed(target: str, keys: str, tmp_path: Path) -> None:
    """The response is purged while the call runs; the end of the call notes the trace, and it is removed."""
    from sqlalchemy import select, update

    from support.context_builders import branch_ids
    from support.purge_rows import insert_response, search_files, trace_with_text
    from traceforge.context.model.inputs import NewSnapshot
    from traceforge.context.storage.tables import responses
    from traceforge.traces.spool import SpoolWriter

    traces, trace = tmp_path / "traces", trace_with_text("a late secret")
    with closing(Store.open(target, keys=keys, traces_dir=str(traces))) as store:
        talk = new_session(store)
        append_event(store, talk, "secret")
        response = insert_response(store, store.create_snapshot(*branch_ids(talk), NewSnapshot()).id, "secret")
        purge(store, talk.id)
        writer = SpoolWriter(str(traces))
        writer.append(trace)
        late = update(responses).where(responses.c.id == response).values(trace_id=trace.summary.id)
        store.write(lambda tx: tx.execute(late))
        assert search_files("a late secret", traces)

        store.finish_purges()

        assert [] == search_files("a late secret", traces)
        assert [None] == [row.trace_id for row in store.read(lambda tx: tx.fetch_all(select(responses)))]
        writer.seal()
