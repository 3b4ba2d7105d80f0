"""A purge that is killed at any point is finished later; concurrent writers lose nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from support.concurrent_writers import check_events, run_all
from support.context_builders import append_event, branch_ids, list_all_events, new_artifact, new_session
from support.operation_store import Store
from support.purge_rows import insert_response, purge, purged_ids, search_files, trace_with_text
from traceforge.context.model.inputs import NewPurge, NewSnapshot
from traceforge.context.model.objects import Receipt
from traceforge.context.purge.purge_jobs import RemainingTraces, create_purge_job, remove_remaining_traces
from traceforge.context.storage.tables import responses
from traceforge.errors import ContentPurged, StoreRefused, StoreUnavailable
from traceforge.traces.spool import SpoolWriter
from traceforge.web.janitor import running_janitor

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


def _purge_elsewhere(target: str, keys: str, folder: Path, trace_id: str) -> Receipt:
    """Purge a session whose response has this trace, by a process whose traces are in `folder`."""
    with closing(Store.open(target, keys=keys, traces_dir=str(folder))) as store:
        talk = new_session(store)
        append_event(store, talk, "secret")
        snapshot = store.create_snapshot(*branch_ids(talk), NewSnapshot())
        insert_response(store, snapshot.id, "secret", trace_id=trace_id)
        return purge(store, talk.id)


def test_a_purge_in_another_folder_reports_the_traces_that_it_did_not_find(
    target: str, keys: str, tmp_path: Path
) -> None:
    """They are not counted as removed, until they are removed where they were recorded."""
    traces, another, trace = tmp_path / "traces", tmp_path / "another", trace_with_text("a secret elsewhere")
    writer = SpoolWriter(str(traces))
    writer.append(trace)
    receipt = _purge_elsewhere(target, keys, another, trace.summary.id)
    with closing(Store.open(target, keys=keys, traces_dir=str(another))) as store:
        again = remove_remaining_traces(store, receipt.purge_job_id)
    assert search_files("a secret elsewhere", traces)
    with closing(Store.open(target, keys=keys, traces_dir=str(traces))) as store:
        completed = remove_remaining_traces(store, receipt.purge_job_id)
    writer.seal()

    assert set() == purged_ids(receipt, "trace")
    assert [(1, [trace.summary.id])] == [(group.count, group.ids) for group in receipt.not_found]
    assert receipt == again
    assert {trace.summary.id} == purged_ids(completed, "trace")
    assert [] == completed.not_found
    assert [] == search_files("a secret elsewhere", traces)


def test_a_server_removes_its_traces_after_a_purge_in_another_folder(target: str, keys: str, tmp_path: Path) -> None:
    """Its janitor looks for what the purge did not find, and adds it to the receipt."""
    traces, trace = tmp_path / "traces", trace_with_text("a secret elsewhere")
    writer = SpoolWriter(str(traces))
    writer.append(trace)
    with (
        closing(Store.open(target, keys=keys, traces_dir=str(traces))) as store,
        running_janitor(store, every_s=0.05),
    ):
        job_id = _purge_elsewhere(target, keys, tmp_path / "another", trace.summary.id).purge_job_id
        end = time.monotonic() + 60
        while (receipt := store.get_receipt(job_id)).not_found and time.monotonic() < end:
            time.sleep(0.05)
    writer.seal()

    assert ([], {trace.summary.id}) == (receipt.not_found, purged_ids(receipt, "trace"))
    assert [] == search_files("a secret elsewhere", traces)


def test_a_late_trace_that_another_process_did_not_find_is_removed_by_the_server(
    target: str, keys: str, tmp_path: Path
) -> None:
    """A call ends after its response was purged, and a command elsewhere opens the store before the janitor."""
    traces, another = tmp_path / "traces", tmp_path / "another"
    gone, late = trace_with_text("a secret elsewhere"), trace_with_text("a secret elsewhere", 1)
    writer = SpoolWriter(str(traces))
    writer.append(late)
    job_id = _purge_elsewhere(target, keys, another, gone.summary.id).purge_job_id
    with closing(Store.open(target, keys=keys, traces_dir=str(traces))) as store:
        remaining = RemainingTraces()
        remaining.remove(store)
        first = store.get_receipt(job_id)
        store.write(lambda tx: tx.execute(update(responses).values(trace_id=late.summary.id)))
        with closing(Store.open(target, keys=keys, traces_dir=str(another))):
            second = store.get_receipt(job_id)
        remaining.remove(store)
        third = store.get_receipt(job_id)
    writer.seal()

    assert [[gone.summary.id]] == [group.ids for group in first.not_found]
    assert [sorted([gone.summary.id, late.summary.id])] == [group.ids for group in second.not_found]
    assert [[gone.summary.id]] == [group.ids for group in third.not_found]
    assert {late.summary.id} == purged_ids(third, "trace")
    assert [] == search_files("a secret elsewhere", traces)
