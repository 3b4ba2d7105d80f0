"""The retention class of an artifact: ephemeral content expires, and is purged with everything made from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from support.context_builders import append_event, branch_ids, new_artifact, new_session
from support.operation_store import Store
from support.purge_rows import insert_response, purged_ids
from traceforge.clock import pinned
from traceforge.context.api.embedded_transport import EmbeddedTransport
from traceforge.context.api.store_client import Client
from traceforge.context.model.inputs import NewProject, NewSnapshot
from traceforge.context.model.objects import Artifact, PurgeJob
from traceforge.context.purge.expired_content import REASON, purge_expired
from traceforge.context.storage.tables import artifacts
from traceforge.errors import ContentPurged, InvalidConfig, StoreRefused, StoreUnavailable
from traceforge.web.janitor import running_janitor

JANITOR_SECONDS_MAX = 60.0  # On a busy machine.
STORED_AT = datetime(2026, 3, 1, 10, 20, tzinfo=UTC)
BEFORE, AFTER = STORED_AT + timedelta(hours=24), STORED_AT + timedelta(hours=24, minutes=40)


@pytest.fixture
def store(target: str, keys: str) -> Iterator[Store]:
    """A database of its own: what expires is purged in all its projects."""
    with closing(Store.open(target, keys=keys)) as store:
        yield store


def new_ephemeral(store: Store, content: str = "for today", stored_at: datetime = STORED_AT) -> Artifact:
    """An ephemeral artifact."""
    with pinned(stored_at):
        return new_artifact(store, content, retention_class="ephemeral")


def purge_expired_at(store: Store, instant: datetime) -> list[PurgeJob]:
    """Purge what has expired at this time."""
    with pinned(instant):
        return purge_expired(store)


@pytest.mark.parametrize("retention_class", ["standard", "extended"])
def test_other_content_never_expires(store: Store, retention_class: str) -> None:
    """It stays until it is purged."""
    with pinned(STORED_AT):
        artifact = new_artifact(store, retention_class=retention_class)

    assert None is artifact.expires_at
    assert [] == purge_expired_at(store, STORED_AT + timedelta(days=36_500))
    assert artifact == store.get_artifact(artifact.id)


def test_ephemeral_content_expires_at_the_first_full_hour_after_a_day(store: Store) -> None:
    """The artifact says when."""
    artifact = new_ephemeral(store)

    assert "2026-03-02T11:00:00.000Z" == artifact.expires_at
    with pinned(BEFORE):
        assert artifact == store.get_artifact(artifact.id)


def test_the_hours_of_ephemeral_content_are_a_setting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when an artifact is stored; those that are stored keep their time."""
    first = new_ephemeral(store)
    monkeypatch.setenv("TRACEFORGE_CONTEXT_EPHEMERAL_HOURS", "2")

    assert "2026-03-01T13:00:00.000Z" == new_ephemeral(store).expires_at
    with pinned(BEFORE):
        assert first == store.get_artifact(first.id)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "a day", "100000"])
def test_a_wrong_setting_is_refused_when_the_store_is_opened(
    target: str, keys: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The error names the setting."""
    monkeypatch.setenv("TRACEFORGE_CONTEXT_EPHEMERAL_HOURS", text)

    with pytest.raises(InvalidConfig, match="TRACEFORGE_CONTEXT_EPHEMERAL_HOURS: must be a whole number"):
        Store.open(target, keys=keys)


def test_expired_content_cannot_be_read_before_it_is_purged(store: Store) -> None:
    """Nor used: 410 `expired`. It is in no list."""
    artifact = new_ephemeral(store)
    session = new_session(store)

    with pinned(AFTER):
        for use in (
            lambda: store.get_artifact(artifact.id),
            lambda: store.get_artifact_content(artifact.id),
            lambda: append_event(store, session, payload_ref=artifact.id),
        ):
            with pytest.raises(StoreRefused) as error:
                use()
            assert (410, "expired") == (error.value.status, error.value.reason)
        assert [] == store.list_artifacts().data


@pytest.mark.counted("purge")
def test_expired_content_is_purged_with_everything_made_from_it(store: Store) -> None:
    """With a receipt, whose id everything that depends on it answers; the rest of the session stays."""
    artifact, other = new_ephemeral(store), new_ephemeral(store, "for tomorrow", AFTER)
    session = new_session(store)
    hello = append_event(store, session, "hello")
    with pinned(BEFORE):
        event = append_event(store, session, payload_ref=artifact.id)
        snapshot = store.create_snapshot(*branch_ids(session), NewSnapshot())
        response_id = insert_response(store, snapshot.id, "an answer")
    assert [] == purge_expired_at(store, BEFORE)

    [job] = purge_expired_at(store, AFTER)

    receipt = store.get_receipt(job.id)
    assert ("completed", [artifact.id], REASON) == (job.status, job.targets, job.reason)
    assert ({artifact.id}, {event.id}) == (purged_ids(receipt, "artifact"), purged_ids(receipt, "event"))
    uses: list[Callable[[], Any]] = [
        lambda: store.get_artifact(artifact.id),
        lambda: store.get_snapshot(snapshot.id),
        lambda: store.get_response(response_id),
    ]
    for use in uses:
        with pytest.raises(ContentPurged) as error:
            use()
        assert receipt.id == error.value.receipt_id
    assert hello == store.list_events(*branch_ids(session)).data[0]
    assert [] == purge_expired_at(store, AFTER)
    with pinned(AFTER):
        assert [other.id] == [listed.id for listed in store.list_artifacts().data]
        assert store.verify().valid


def test_a_client_in_this_process_purges_what_has_expired(store: Store) -> None:
    """Where no janitor runs, the next call does it: a snapshot already answers 410 with the receipt."""
    artifact = new_ephemeral(store)
    session = new_session(store)
    with pinned(BEFORE):
        append_event(store, session, payload_ref=artifact.id)
    snapshot = store.create_snapshot(*branch_ids(session), NewSnapshot())
    client = Client(EmbeddedTransport(store))
    with pinned(BEFORE):
        assert snapshot == client.get_snapshot(snapshot.id)

    with pinned(AFTER), pytest.raises(ContentPurged) as error:
        client.get_snapshot(snapshot.id)

    [job] = store.list_purge_jobs().data
    assert store.get_receipt(job.id).id == error.value.receipt_id


def test_the_janitor_of_a_server_purges_what_has_expired(store: Store) -> None:
    """In every project."""
    other = store.of_project(store.create_project(NewProject(name="other")).id)
    ids = [new_ephemeral(project).id for project in (store, other)]
    ended = threading.Event()

    with running_janitor(store, every_s=0.01, fail=lambda _: ended.set()):
        end = time.monotonic() + JANITOR_SECONDS_MAX
        while not (store.list_purge_jobs().data and other.list_purge_jobs().data) and time.monotonic() < end:
            if ended.wait(0.01):
                break

    assert not ended.is_set()
    for project, artifact_id in zip((store, other), ids, strict=True):
        assert [[artifact_id]] == [job.targets for job in project.list_purge_jobs().data]


def test_two_processes_purge_expired_content_once(store: Store) -> None:
    """The one that finds another at work leaves it to that one."""
    new_ephemeral(store)

    with store.keyring.lock_purges(wait=True):
        assert [] == purge_expired_at(store, AFTER)
    assert 1 == len(purge_expired_at(store, AFTER))
    assert 1 == len(store.list_purge_jobs().data)


def damage(store: Store, artifact: Artifact, wrapped_key: bytes = bytes(60)) -> None:
    """Make a row that cannot be decrypted: it stops every purge of its project."""
    own = update(artifacts).where(artifacts.c.id == artifact.id).values(wrapped_key=wrapped_key)
    store.write(lambda tx: tx.execute(own))


def test_a_project_that_cannot_be_purged_leaves_one_job_and_stops_no_other(store: Store) -> None:
    """It is tried again after an hour, or when the command asks for it; a janitor asks every few seconds."""
    other = store.of_project(store.create_project(NewProject(name="other")).id)
    new_ephemeral(store)
    kept = new_artifact(store, "damaged")
    new_ephemeral(other)
    damage(store, kept)

    with pytest.raises(StoreUnavailable, match=kept.id):
        purge_expired_at(store, AFTER)
    assert [[], []] == [purge_expired_at(store, AFTER + timedelta(seconds=5)) for _ in range(2)]
    for at_once, instant in ((True, AFTER), (False, AFTER + timedelta(hours=2))):
        with pinned(instant), pytest.raises(StoreUnavailable, match=kept.id):
            purge_expired(store, at_once=at_once)

    assert ["failed"] == [job.status for job in store.list_purge_jobs().data]
    assert ["completed"] == [job.status for job in other.list_purge_jobs().data]


def test_a_purge_that_was_interrupted_is_continued_and_not_repeated(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyring that cannot be written for a while leaves one job that waits."""
    new_ephemeral(store)
    with monkeypatch.context() as patch:
        patch.setattr(store.keyring, "add_key", _refuse)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="read-only"):
                purge_expired_at(store, AFTER)
    assert ["queued"] == [job.status for job in store.list_purge_jobs().data]

    [job] = purge_expired_at(store, AFTER)

    assert [("completed", job.id)] == [(job.status, job.id) for job in store.list_purge_jobs().data]


def _refuse(*_: object) -> None:
    raise StoreUnavailable("read-only")


def test_a_clock_that_is_set_back_does_not_stop_the_watch(store: Store) -> None:
    """It was a year ahead for a moment: what expires today is still purged today."""
    client = Client(EmbeddedTransport(store))
    with pinned(STORED_AT + timedelta(days=365)):
        client.list_sessions()
    new_ephemeral(store)

    with pinned(AFTER):
        client.list_sessions()

    assert ["completed"] == [job.status for job in store.list_purge_jobs().data]


def test_expired_content_that_is_not_purged_yet_is_no_problem_of_the_store(store: Store) -> None:
    """A response that was made from it cannot be rendered again, and nothing is wrong with it."""
    artifact = new_ephemeral(store)
    session = new_session(store)
    with pinned(BEFORE):
        append_event(store, session, payload_ref=artifact.id)
        snapshot = store.create_snapshot(*branch_ids(session), NewSnapshot())
        response_id = insert_response(store, snapshot.id, "yes")
        assert [] == store.verify().problems

    with pinned(AFTER):
        assert [] == store.verify().problems
        with pytest.raises(StoreRefused) as error:
            store.verify_response(response_id)

    assert (410, "expired") == (error.value.status, error.value.reason)
