"""Servers as people run them: several on one database, killed in the middle, and what they do beside requests."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import update

from support.command import traceforge
from support.context_builders import append_event, branch_ids, new_session
from support.databases import memory_folder, start_postgres
from support.loopback_models import chat_answer, connect_models, scripted_provider, streamed_response
from support.operation_store import Store
from support.store_servers import ServerProcess, server_process
from support.upstream import ScriptedResponse, Upstream
from traceforge.capture.recorder import MemoryRecorder
from traceforge.clock import now, timestamp_text
from traceforge.context import Client
from traceforge.context.api.client_verification import verify_store
from traceforge.context.comparison import replay_runs as runs
from traceforge.context.model.inputs import NewAlias, NewEvent, NewPurge, NewReplayRun, NewResponse, NewSnapshot
from traceforge.context.model.objects import EventType, Progress, ReplayRun, Target
from traceforge.context.model_calls import ModelClients
from traceforge.context.purge.purge_jobs import create_purge_job as create_job
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.tables import idempotency, replay_runs, responses
from traceforge.errors import BranchConflict, StoreRefused, StoreUnavailable
from traceforge.web.janitor import running_janitor

SECONDS_MAX = 30.0


@pytest.fixture
def shared_store(target: str, keys: str) -> Iterator[Store]:
    """A database of this test alone: a server that resumes every project would find the runs of other tests."""
    with closing(Store.open(target, keys=keys)) as store:
        yield store


def wait_for(is_done: Callable[[], object]) -> None:
    """Until it is true."""
    end = time.monotonic() + SECONDS_MAX
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.02)


# What a server does beside its requests.


def queued(store: Store) -> ReplayRun:
    """A run that no process works on, as left by a process that died before it began."""
    session = new_session(store)
    append_event(store, session, "How much?")
    snapshot = store.create_snapshot(*branch_ids(session), NewSnapshot())
    body = NewReplayRun(baseline="openai/old", candidate="openai/new", snapshot_ids=[snapshot.id])
    return store.create_replay_run(body, start=False)


@pytest.mark.slow
def test_interrupted_runs_of_every_project_are_resumed(store: Store, other: Store, upstream: Upstream) -> None:
    """Those that exist at the start, and those that are added later."""
    store, other = connect_models(store, upstream.url), connect_models(other, upstream.url)
    waiting = [(store, queued(store)), (other, queued(other))]

    with running_janitor(store, every_s=0.05):
        wait_for(
            lambda: all(run_store.get_replay_run(run.id).status is Progress.COMPLETED for run_store, run in waiting)
        )
        late = queued(other)
        wait_for(lambda: other.get_replay_run(late.id).status is Progress.COMPLETED)
    queue = queued(other)
    time.sleep(0.2)

    assert Progress.QUEUED is other.get_replay_run(queue.id).status
    assert 6 == len(upstream.received)


def test_a_purge_whose_process_died_is_finished(target: str, keys: str) -> None:
    """A job that is written down is done, without a request and without another purge."""
    with closing(Store.open(target, keys=keys)) as store:
        session = new_session(store)
        event = append_event(store, session, "Secret.")
        job = store.write(lambda tx: create_job(tx, NewPurge(targets=[event.id])))

        with running_janitor(store, every_s=0.05):
            wait_for(lambda: store.get_purge_job(job.id).status is Progress.COMPLETED)

        assert [2] == Keyring(keys).generations(store.project_id)
        assert None is store.list_events(*branch_ids(session)).data[0].content


def test_a_failure_in_one_background_task_is_logged_and_stops_no_other(store: Store, upstream: Upstream) -> None:
    """For example a recorder that cannot write files."""
    store = connect_models(store, upstream.url)
    store.models = Broken({"openai": upstream.url}, recorder=MemoryRecorder())
    errors: list[Exception] = []

    with running_janitor(store, every_s=0.05, fail=errors.append):
        wait_for(lambda: len(errors) > 1)
        run = queued(store)
        wait_for(lambda: store.get_replay_run(run.id).status is Progress.COMPLETED)

    assert {"disk"} == {str(exception) for exception in errors}


class Broken(ModelClients):
    """Models whose calls cannot be settled."""

    def drain_traces(self) -> None:
        """No room."""
        raise OSError("disk")


@pytest.mark.slow
def test_a_server_resumes_the_work_of_servers_that_died(
    target: str, keys: str, upstream: Upstream, tmp_path: Path
) -> None:
    """A waiting run, a run whose process died, and the traces of its calls, in a real process."""
    with closing(Store.open(target, keys=keys)) as store:
        first, dead = queued(store), queued(store)
        store.write(lambda tx: runs.claim_run(tx, dead.id))
        past = timestamp_text(now() - timedelta(seconds=1))
        store.write(lambda tx: tx.execute(update(replay_runs).values(lease_until=past)))
        with server_process("--db", target, "--keys", keys, "--upstream", f"openai={upstream.url}", cwd=tmp_path):
            for replay_run in (first, dead):
                wait_for(
                    lambda waiting_run=replay_run: store.get_replay_run(waiting_run.id).status is Progress.COMPLETED
                )  # type: ignore[misc]
            lanes = [store.get_replay_report(replay_run.id).items[0]["lanes"] for replay_run in (first, dead)]
            traces = {lane["trace_id"] for each in lanes for lane in each.values() if lane}
            wait_for(lambda: traces <= listed_traces(tmp_path))
            late = queued(store)
            wait_for(lambda: store.get_replay_run(late.id).status is Progress.COMPLETED)
    assert 4 == len(traces)


def listed_traces(folder: Path) -> set[str]:
    """The ids of the traces that a person sees."""
    return {trace["id"] for trace in json.loads(traceforge("trace", "list", "--json", cwd=folder).out)["data"]}


@pytest.mark.slow
def test_a_server_outlives_its_database(tmp_path: Path, keys: str, upstream: Upstream) -> None:
    """PostgreSQL goes and comes back: requests are refused meanwhile, and what is looked after is again."""
    with memory_folder() as folder:
        postgres = start_postgres(folder)
        try:
            target = postgres.get_uri()
            words = ("--db", target, "--keys", keys, "--upstream", f"openai={upstream.url}")
            with server_process(*words, cwd=tmp_path) as site, Client.connect(site.url) as client:
                client.create_session()
                postgres.stop()
                with pytest.raises(StoreUnavailable):
                    client.list_sessions()
                time.sleep(6)
                postgres.start()
                wait_for(lambda: _answers(client))
                with closing(Store.open(target, keys=keys)) as store:
                    run = queued(store)
                    wait_for(lambda: store.get_replay_run(run.id).status is Progress.COMPLETED)
        finally:
            postgres.cleanup()


def _answers(client: Client) -> bool:
    with suppress(StoreUnavailable):
        client.create_session()
        return True
    return False


# Where a server asks.


@pytest.mark.slow
def test_the_provider_url_comes_from_the_option_then_the_variable(tmp_path: Path) -> None:
    """Both, then without the first; another provider's is not taken for it."""
    with ExitStack() as stack:
        named, variable = (stack.enter_context(scripted_provider()) for _ in range(2))
        for setting, word in ((named, "option"), (variable, "variable")):
            setting.respond_with(ScriptedResponse([chat_answer(word)]))
        option = ("--upstream", f"openai={named.url}")
        environ = {"TRACEFORGE_UPSTREAM_OPENAI": variable.url}
        cases: list[tuple[tuple[str, ...], dict[str, str], str]] = [
            (option, environ, "option"), (option, {}, "option"), ((), environ, "variable"),
            (("--upstream", "anthropic=http://127.0.0.1:9"), environ, "variable"),
        ]  # fmt: skip
        for arguments, variables, expected in cases:
            with server_process(*arguments, cwd=tmp_path, **variables) as site, Client.connect(site.url) as client:
                response = client.create_response(
                    model="openai/m", session_id=client.create_session().id, input="Where?"
                )
            assert expected == (response.output or {}).get("content"), (arguments, variables)


# Which target answers.


@pytest.mark.slow
def test_targets_answer_by_their_weights_and_always_the_same(store: Store, upstream: Upstream) -> None:
    """1 to 3, over 160 snapshots: within five standard deviations of their share, and the same when asked again."""
    store = connect_models(store, upstream.url)
    targets = [Target(provider="openai", model="light", weight=1), Target(provider="openai", model="heavy", weight=3)]
    store.create_alias(NewAlias(name="both", targets=targets))
    session = new_session(store)
    append_event(store, session, "Hi")
    pinned = [store.create_snapshot(*branch_ids(session), NewSnapshot()).id for _ in range(160)]

    answered = [store.create_response(NewResponse(model="both", snapshot_id=snapshot_id)) for snapshot_id in pinned]
    model_counts = Counter(json.loads(request.body)["model"] for request in upstream.received)
    release = answered[0].alias_release_id
    responses = [
        store.create_response(NewResponse(model=release, snapshot_id=snapshot_id)) for snapshot_id in pinned[:20]
    ]

    assert {"light", "heavy"} == model_counts.keys()
    assert model_counts == Counter(response.target.model for response in answered)
    assert abs(model_counts["heavy"] - 120) <= 5 * (160 * 0.75 * 0.25) ** 0.5
    assert [answered_response.target for answered_response in answered[:20]] == [
        response.target for response in responses
    ]


# A server that is killed.


@contextmanager
def locked(target: str) -> Iterator[None]:
    """Hold the write lock, so that a transaction of a server waits."""
    if target.startswith("postgresql"):
        with psycopg.connect(target) as connection:
            connection.execute("LOCK TABLE responses IN EXCLUSIVE MODE")
            yield
            connection.rollback()
        return
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def kill(site: ServerProcess) -> None:
    """As the kernel does."""
    os.kill(site.process.pid, signal.SIGKILL)
    site.process.wait(SECONDS_MAX)


def age(store: Store, seconds: float) -> None:
    """As if every lease had ended so long ago."""
    past = timestamp_text(now() - timedelta(seconds=seconds))
    for table in (responses, idempotency):
        live = update(table).where(table.c.lease_until.is_not(None)).values(lease_until=past)
        store.write(lambda tx, live=live: tx.execute(live))  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "k-1"])
def test_a_server_that_is_killed_between_the_answer_and_its_transaction(
    target: str, keys: str, upstream: Upstream, tmp_path: Path, key: str | None
) -> None:
    """With a key, a retry goes on with the same response; without, it has failed. The input is there once."""
    permits = threading.Semaphore(0)
    lost = ScriptedResponse([chat_answer("Lost.")], waits_first=True, permits=permits)
    upstream.respond_with(lost, ScriptedResponse([chat_answer("Kept.")]))
    words = ("--db", target, "--keys", keys, "--upstream", f"openai={upstream.url}")
    failed: list[StoreUnavailable] = []
    with server_process(*words, cwd=tmp_path) as site, Client.connect(site.url) as client:
        talk = client.create_session()
        body: dict[str, Any] = {"model": "openai/m", "session_id": talk.id, "input": "Hi", "idempotency_key": key}

        def ask() -> None:
            with pytest.raises(StoreUnavailable) as error:
                client.create_response(**body)
            failed.append(error.value)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: upstream.received)
        with locked(target):
            permits.release()
            time.sleep(0.3)  # The answer is there, and its transaction waits.
            kill(site)
        thread.join(SECONDS_MAX)
    assert 1 == len(failed)

    with server_process(*words, cwd=tmp_path) as site, Client.connect(site.url) as client:
        [begun] = client.list_responses().data
        assert ("running", None) == (begun.status, begun.output)
        with closing(Store.open(target, keys=keys)) as store:
            if key is not None:
                with pytest.raises(StoreRefused) as refused:
                    client.create_response(**body)
                assert 409 == refused.value.status
            age(store, 1 if key else 400)
        if key is not None:
            response = client.create_response(**body)
            assert response == client.create_response(**body)
            assert (begun.id, begun.snapshot_id) == (response.id, response.snapshot_id)
        else:
            ended = client.get_response(begun.id)
            assert ended.error is not None
            assert ("failed", "interrupted") == (ended.status, ended.error.code)
            assert 1 == client.get_branch(talk.id, talk.default_branch_id).version
            response = client.create_response(model="openai/m", snapshot_id=begun.snapshot_id)
        assert ("completed", "Kept.") == (response.status, (response.output or {})["content"])
        contents = [event.content for event in client.iterate_events(talk.id, talk.default_branch_id)]
        assert ["Hi", "Kept."] == contents
        assert verify_store(client).valid
    assert 2 == len(upstream.received)


@pytest.mark.slow
def test_a_client_of_a_killed_server_learns_the_response_id_of_its_stream(tmp_path: Path, upstream: Upstream) -> None:
    """The error says that the outcome is unknown."""
    upstream.respond_with(streamed_response("One", " two", permits=threading.Semaphore(0)))
    with (
        server_process("--upstream", f"openai={upstream.url}", cwd=tmp_path) as site,
        Client.connect(site.url) as client,
    ):
        talk = client.create_session()
        events = client.stream_response(model="openai/m", session_id=talk.id, input="Count.")
        created, first = next(events), next(events)
        kill(site)
        with pytest.raises(StoreUnavailable) as error:
            next(events)

    assert "One" == first.delta
    assert created.response is not None
    assert created.response.id in error.value.hint
    assert error.value.outcome_unknown


# Two servers.


@pytest.mark.slow
def test_two_servers_share_a_database_and_its_keyring(target: str, keys: str, tmp_path: Path) -> None:
    """Both write to one branch and to their own, one of them purges meanwhile: nothing is lost, and the other goes on
    under the new key.
    """
    words = ("--db", target, "--keys", keys)
    with ExitStack() as stack:
        sites = [stack.enter_context(server_process(*words, cwd=tmp_path)) for _ in range(2)]
        clients = [stack.enter_context(Client.connect(site.url)) for site in sites]
        both = clients[0].create_session()
        over = threading.Event()
        faults: list[BaseException] = []
        counts = [Counter[str]() for _ in clients]
        writers = [
            threading.Thread(target=write, args=(client, name, both.id, over, count, faults))
            for name, client, count in zip("ab", clients, counts, strict=True)
        ]
        for writer in writers:
            writer.start()
        versions: list[tuple[int, int]] = []
        for number in range(4):
            before = counts[0].total(), counts[1].total()
            wait_for(lambda before=before: faults or all(  # type: ignore[misc]
                count.total() >= was + 3 for count, was in zip(counts, before, strict=True)))  # fmt: skip
            artifact = clients[0].create_artifact(artifact_type="policy", content=f"Secret {number}.")
            job = clients[0].create_purge_job(targets=[artifact.id])
            versions.append(
                (clients[0].get_receipt(job.id).generation, clients[1].list_projects().data[0].generation)
            )
        over.set()
        for writer in writers:
            writer.join(SECONDS_MAX)
        listed = [list(client.iterate_events(both.id, both.default_branch_id)) for client in clients]
        checks = [verify_store(client) for client in clients]

    assert [] == faults
    assert [(2, 2), (3, 3), (4, 4), (5, 5)] == versions
    assert listed[0] == listed[1]
    assert {name: count["both"] for name, count in zip("ab", counts, strict=True)} == Counter(
        str(event.content)[0] for event in listed[0]
    )
    assert checks[0] == checks[1]
    assert checks[0].valid
    assert sum(count.total() for count in counts) == checks[0].checked["event"]
    with closing(Store.open(target, keys=keys)) as store:
        assert [5] == Keyring(keys).generations(store.project_id)
        assert store.verify().valid


def write(
    client: Client, name: str, both: str, over: threading.Event, count: Counter[str], faults: list[BaseException]
) -> None:
    """Append to a session of one's own, and to the one that all share, until it is over."""
    try:
        own, shared = client.create_session(), client.get_session(both)
        while not over.is_set():
            for kind, at in (("own", own), ("both", shared)):
                branch = client.get_branch(at.id, at.default_branch_id)
                event = NewEvent(event_type=EventType.NOTE, content=f"{name} {count[kind]}")
                with suppress(BranchConflict):
                    client.append_event(
                        at.id, branch.id, expected_version=branch.version,
                        expected_head_event_id=branch.head_event_id, event=event,
                    )  # fmt: skip
                    count[kind] += 1
    except BaseException as exc:  # noqa: BLE001 (it is told where it is waited for)
        faults.append(exc)
