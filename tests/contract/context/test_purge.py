"""Purge: what was named goes, with all that was made of it, and nothing else does."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from support.context_builders import (
    append_event,
    append_events,
    branch_ids,
    fork_branch,
    list_all_events,
    new_artifact,
    new_session,
)
from support.operation_store import Store
from support.purge_rows import insert_idempotent_response, insert_replay_run, insert_response, purge, purged_ids
from traceforge.context.model.inputs import Merge, NewBundle, NewPurge, NewSession, NewSnapshot
from traceforge.context.model.objects import Branch, BundleItem, Event, EventType, MergeStrategy, Session, Snapshot
from traceforge.context.storage.sealed_tables import SEALED_TABLES
from traceforge.context.storage.tables import events, idempotency, metadata, replay_items, responses
from traceforge.errors import ContentPurged, StoreRefused

pytestmark = pytest.mark.counted("purge")


def _snapshot(store: Store, branch: Session) -> Snapshot:
    return store.create_snapshot(*branch_ids(branch), NewSnapshot())


def _merge(
    store: Store, target: Branch | Session, source_id: str, strategy: MergeStrategy, **more: str
) -> list[Event]:
    now = store.get_branch(*branch_ids(target))
    body = Merge(
        source_branch_id=source_id,
        strategy=strategy,
        expected_version=now.version,
        expected_head_event_id=now.head_event_id,
        **more,
    )
    merged = store.merge_branch(*branch_ids(target), body)
    merged_events = store.list_events(merged.branch.session_id, merged.branch.id, limit=100).data
    return [event for event in merged_events if event.id in merged.event_ids]


def test_every_table_with_sealed_columns_is_rewrapped() -> None:
    """The data of a forgotten table would be lost with the old key."""
    assert {table.name for table in SEALED_TABLES} == {
        name for name, table in metadata.tables.items() if "wrapped_key" in table.c
    }


def test_an_event_becomes_a_tombstone(store: Store) -> None:
    """No content, no metadata, no digest; its place and its receipt stay, and so does all around it."""
    talk = new_session(store, "Be kind.")
    first, second, third = (
        append_event(store, talk, text, metadata={"who": text}) for text in ("one", "two", "three")
    )
    before = store.get_project().generation

    receipt = purge(store, second.id)

    listed = list_all_events(store, talk)
    assert [first, third] == [listed[0], listed[2]]
    assert (second.id, 2, first.id, receipt.id) == (
        listed[1].id, listed[1].sequence, listed[1].parent_event_id, listed[1].purged_by
    )  # fmt: skip
    assert (None, None, {}) == (listed[1].content, listed[1].content_digest, listed[1].metadata)
    assert before + 1 == receipt.generation == store.get_project().generation
    assert {second.id} == purged_ids(receipt, "event")
    assert store.verify().valid


def test_a_snapshot_with_purged_content_is_gone_and_others_are_unchanged(store: Store) -> None:
    """410 with the receipt, never a part of a prompt; a snapshot from before the event is unchanged."""
    talk = new_session(store, "Be kind.")
    append_event(store, talk, "one")
    early = _snapshot(store, talk)
    secret = append_event(store, talk, "two")
    late = _snapshot(store, talk)
    append_event(store, talk, "three")
    later = store.create_snapshot(*branch_ids(talk), NewSnapshot(prompt_compiler_revision="pc_2"))

    receipt = purge(store, secret.id)

    for snapshot in (late, later):
        for read in (store.get_snapshot, store.list_blocks, store.verify_snapshot):
            with pytest.raises(ContentPurged) as error:
                read(snapshot.id)
            assert (410, receipt.id) == (error.value.status, error.value.receipt_id)
    assert {late.id, later.id} == purged_ids(receipt, "snapshot")
    assert early == store.get_snapshot(early.id)
    assert store.verify_snapshot(early.id).valid
    assert [early] == store.list_snapshots(*branch_ids(talk)).data


def test_a_branch_with_purged_content_does_not_compile_and_a_fork_before_it_does(store: Store) -> None:
    """The error names the event and the receipt, and says what to do; appending still works."""
    talk = new_session(store, "Be kind.")
    first = append_event(store, talk, "one")
    secret = append_event(store, talk, "two")
    side_branch = fork_branch(store, talk)
    receipt = purge(store, secret.id)

    append_event(store, talk, "three")
    for branch in (talk, side_branch):
        with pytest.raises(ContentPurged, match=secret.id) as error:
            store.create_snapshot(*branch_ids(branch), NewSnapshot())
        assert receipt.id == error.value.receipt_id
        assert "Fork" in error.value.hint
    before = fork_branch(store, talk, first)
    append_event(store, before, "another two")
    assert 3 == len(store.create_snapshot(*branch_ids(before), NewSnapshot()).ordered_block_manifest)
    assert store.verify().valid


def test_purging_an_inherited_event_removes_the_snapshots_of_later_forks(store: Store) -> None:
    """Also of forks of forks; a fork from before the event keeps its snapshots."""
    talk = new_session(store)
    first = append_event(store, talk, "one")
    secret = append_event(store, talk, "two")
    third = append_event(store, talk, "three")
    before, later_branch = fork_branch(store, talk, first), fork_branch(store, talk, third)
    grandchild, past = fork_branch(store, later_branch, secret), fork_branch(store, later_branch, first)
    snapshots = [store.create_snapshot(*branch_ids(branch), NewSnapshot()) for branch in (before, past)]
    lost = [store.create_snapshot(*branch_ids(branch), NewSnapshot()) for branch in (later_branch, grandchild)]

    receipt = purge(store, secret.id)

    assert {snapshot.id for snapshot in lost} == purged_ids(receipt, "snapshot")
    assert snapshots == [store.get_snapshot(snapshot.id) for snapshot in snapshots]
    assert store.verify().valid


def test_purging_an_artifact_removes_its_events_its_bundles_and_their_sessions_snapshots(store: Store) -> None:
    """Every event and bundle that refers to it loses its content."""
    shared, other = new_artifact(store, "shared"), new_artifact(store, "other")
    items = [BundleItem(artifact_id=artifact.id, role="system") for artifact in (other, shared)]
    bundle = store.create_bundle(NewBundle(items=items))
    based = store.create_session(NewSession(base_bundle_ids=[bundle.id]))
    talk = new_session(store)
    referring = append_event(store, talk, payload_ref=shared.id)
    lost = [_snapshot(store, based), _snapshot(store, talk)]

    receipt = purge(store, shared.id)

    assert ({shared.id}, {referring.id}, {bundle.id}) == tuple(
        purged_ids(receipt, kind) for kind in ("artifact", "event", "bundle")
    )
    assert {snapshot.id for snapshot in lost} == purged_ids(receipt, "snapshot")
    for refused in (
        lambda: store.get_artifact(shared.id),
        lambda: store.get_artifact_content(shared.id),
        lambda: store.get_bundle(bundle.id),
        lambda: store.create_session(NewSession(base_bundle_ids=[bundle.id])),
        lambda: store.create_snapshot(*branch_ids(based), NewSnapshot()),
        lambda: append_event(store, talk, payload_ref=shared.id),
    ):
        with pytest.raises(ContentPurged):
            refused()
    assert b"other" == store.get_artifact_content(other.id).data
    assert [other.id] == [artifact.id for artifact in store.list_artifacts().data]
    assert store.verify().valid


def test_purging_an_event_keeps_the_artifact_that_it_refers_to(store: Store) -> None:
    """Others may use the artifact; to remove it, purge it by its own id."""
    talk, shared = new_session(store), new_artifact(store, "shared")
    referring = append_event(store, talk, payload_ref=shared.id)

    receipt = purge(store, referring.id)

    assert set() == purged_ids(receipt, "artifact")
    assert b"shared" == store.get_artifact_content(shared.id).data


def test_purging_a_session_removes_all_its_branches(store: Store) -> None:
    """Its events, metadata, labels and snapshots; its base bundles and other sessions stay."""
    talk = store.create_session(
        NewSession(base_bundle_ids=new_session(store, "base").base_bundle_ids, metadata={"a": 1})
    )
    neighbour = new_session(store, "neighbour")
    event = append_event(store, neighbour, "kept")
    mine = append_events(store, talk, 3)
    branch = fork_branch(store, talk, mine[0], label="a label")
    more = append_event(store, branch, "more")
    empty = _snapshot(store, talk)

    receipt = purge(store, talk.id)

    assert ({talk.id}, {event.id for event in (*mine, more)}) == (
        purged_ids(receipt, "session"),
        purged_ids(receipt, "event"),
    )
    assert {empty.id} == purged_ids(receipt, "snapshot")
    for refused in (
        lambda: store.get_session(talk.id),
        lambda: store.list_branches(talk.id),
        lambda: store.list_events(*branch_ids(talk)),
        lambda: store.get_snapshot(empty.id),
        lambda: fork_branch(store, talk),
    ):
        with pytest.raises(ContentPurged):
            refused()
    assert [event] == list_all_events(store, neighbour)
    assert talk.id not in [session.id for session in store.list_sessions(limit=100).data]
    assert b"base" == store.get_artifact_content(store.get_bundle(talk.base_bundle_ids[0]).items[0].artifact_id).data
    assert store.verify().valid


@pytest.mark.parametrize("strategy", [MergeStrategy.REBASE, MergeStrategy.FORK])
def test_purging_an_event_removes_its_copies(store: Store, strategy: MergeStrategy) -> None:
    """Also copies of copies."""
    talk = new_session(store)
    append_event(store, talk, "one")
    source = fork_branch(store, talk)
    secret, remaining = append_event(store, source, "secret"), append_event(store, source, "kept")
    copies = _merge(store, talk, source.id, strategy)

    receipt = purge(store, secret.id)

    assert {secret.id, copies[0].id} == purged_ids(receipt, "event")
    assert "kept" == copies[1].content
    assert remaining.id == copies[1].rebased_from
    assert store.verify().valid


def test_purging_an_event_removes_its_checkpoints_and_summaries(store: Store) -> None:
    """Both may hold any content of their source, and are removed with their artifacts."""
    talk = new_session(store)
    append_event(store, talk, "one")
    source, untouched = fork_branch(store, talk), fork_branch(store, talk)
    secret = append_event(store, source, "secret")
    append_event(store, untouched, "harmless")
    [checkpoint] = _merge(store, talk, source.id, MergeStrategy.CHECKPOINT)
    append_event(store, source, "more")
    [summary] = _merge(store, talk, source.id, MergeStrategy.COMPACT, summary="it was about a secret")
    [other] = _merge(store, talk, untouched.id, MergeStrategy.CHECKPOINT)
    assert other.payload_ref is not None
    assert b"secret" in store.get_artifact_content(checkpoint.payload_ref or "").data

    receipt = purge(store, secret.id)

    assert ({secret.id, checkpoint.id, summary.id}, {checkpoint.payload_ref, summary.payload_ref}) == (
        purged_ids(receipt, "event"),
        purged_ids(receipt, "artifact"),
    )
    assert other == list_all_events(store, talk)[-1]
    assert b"harmless" in store.get_artifact_content(other.payload_ref).data
    assert store.verify().valid


def test_a_summary_made_after_its_source_was_purged_stays(store: Store) -> None:
    """The copy was purged before the summary was made, so purging the original keeps the summary."""
    talk = new_session(store)
    append_event(store, talk, "first")
    source, target = fork_branch(store, talk), fork_branch(store, talk)
    event = append_event(store, source, "said")
    [copy] = _merge(store, target, source.id, MergeStrategy.REBASE)
    purge(store, copy.id)
    [summary] = _merge(store, talk, target.id, MergeStrategy.COMPACT, summary="It was short.")

    receipt = purge(store, event.id)

    assert {event.id} == purged_ids(receipt, "event")
    assert summary == list_all_events(store, talk)[-1]


def test_a_rebase_of_purged_events_is_refused(store: Store) -> None:
    """A merge that would copy an event without its content writes nothing."""
    talk = new_session(store)
    source = fork_branch(store, talk)
    secret = append_event(store, source, "secret")
    purge(store, secret.id)

    with pytest.raises(ContentPurged, match=secret.id):
        _merge(store, talk, source.id, MergeStrategy.REBASE)
    assert [] == list_all_events(store, talk)


def test_purging_a_message_removes_its_response_and_the_later_answers(store: Store) -> None:
    """An answer after the message may repeat it; what a person wrote stays."""
    talk = new_session(store)
    event = append_event(store, talk, "my number is 4711")
    first = _snapshot(store, talk)
    answer_event = append_event(store, talk, "Your number is 4711.", EventType.ASSISTANT_MESSAGE)
    answer = insert_response(store, first.id, "Your number is 4711.", event_id=answer_event.id)
    by_hand = append_event(store, talk, "Typed by hand.", EventType.ASSISTANT_MESSAGE)
    elsewhere = new_session(store)
    append_event(store, elsewhere, "hello")
    remaining_response = insert_response(store, _snapshot(store, elsewhere).id, "kept")

    receipt = purge(store, event.id)

    assert ({event.id, answer_event.id}, {answer}) == (purged_ids(receipt, "event"), purged_ids(receipt, "response"))
    assert by_hand in list_all_events(store, talk)
    rows = {row.id: row for row in store.read(lambda tx: tx.fetch_all(select(responses)))}
    assert (None, None, receipt.id) == (rows[answer].sealed, rows[answer].wrapped_key, rows[answer].purged_by)
    assert (None, receipt.generation) == (rows[remaining_response].purged_by, rows[remaining_response].generation)


def test_replay_runs_and_stored_responses_with_purged_content_are_removed(store: Store) -> None:
    """A stored response that only names an id stays."""
    talk = new_session(store)
    first = append_event(store, talk, "one")
    early = _snapshot(store, talk)
    secret = append_event(store, talk, "secret")
    late = _snapshot(store, talk)
    third = append_event(store, talk, "three")
    run, other = insert_replay_run(store, "report", early.id, late.id), insert_replay_run(store, "other", early.id)
    stored_response = insert_idempotent_response(store, "/events", "k1", secret, talk.id, secret.id)
    naming = insert_idempotent_response(store, "/events", "k2", third, talk.id, third.id, secret.id)
    unknown = insert_idempotent_response(store, "/chat", "k3", {"id": "chatcmpl-1", "text": "secret"}, late.id)
    apart = insert_idempotent_response(store, "/events", "k4", first, talk.id, first.id)

    receipt = purge(store, secret.id)

    assert {run} == purged_ids(receipt, "replay_run")
    assert {f"{run}/1"} == purged_ids(receipt, "replay_item")
    items = store.read(lambda tx: tx.fetch_all(select(replay_items).where(replay_items.c.run_id.in_((run, other)))))
    assert {(run, 1)} == {(item.run_id, item.position) for item in items if item.purged_by == receipt.id}
    assert {(run, 0), (other, 0)} == {(item.run_id, item.position) for item in items if item.sealed is not None}
    rows = store.read(
        lambda tx: tx.fetch_all(select(idempotency).where(idempotency.c.project_id == store.project_id))
    )
    assert {stored_response, unknown} == {row.key_digest for row in rows if row.purged_by == receipt.id}
    assert {naming, apart} == {row.key_digest for row in rows if row.sealed is not None}
    assert {2} == {removal.count for removal in receipt.removed if removal.kind == "idempotency_answer"}


def test_a_deleted_object_can_be_purged(store: Store) -> None:
    """Deletion revokes a handle; the content is still stored."""
    talk, lone = new_session(store), new_artifact(store, "lone")
    event = append_event(store, talk, "said")
    store.delete_session(talk.id)
    store.delete_artifact(lone.id)

    receipt = purge(store, talk.id, lone.id)

    assert {event.id} == purged_ids(receipt, "event")
    for refused in (lambda: store.get_session(talk.id), lambda: store.get_artifact(lone.id)):
        with pytest.raises(ContentPurged):
            refused()


def test_an_already_purged_target_is_reported_with_its_receipt(store: Store) -> None:
    """Nothing is removed twice; a job with other targets purges those."""
    purged_artifact, other = new_artifact(store, "one"), new_artifact(store, "other")
    first = purge(store, purged_artifact.id)
    generation = store.get_project().generation

    with pytest.raises(ContentPurged) as error:
        store.create_purge_job(NewPurge(targets=[purged_artifact.id]))
    assert (first.id, generation) == (error.value.receipt_id, store.get_project().generation)
    second = purge(store, purged_artifact.id, other.id)
    assert {other.id} == purged_ids(second, "artifact")


@pytest.mark.parametrize(
    ("targets", "status", "reason"),
    [
        (["bnd_00000000000000000000000000"], 400, "invalid_target"),
        (["nonsense"], 400, "invalid_target"),
        (["art_00000000000000000000000000"], 404, "not_found"),
        (["evt_"], 404, "not_found"),
    ],
)
def test_a_target_that_is_none_is_refused(store: Store, targets: list[str], status: int, reason: str) -> None:
    """Before anything is written; `param` says which one."""
    with pytest.raises(StoreRefused) as error:
        store.create_purge_job(NewPurge(targets=[new_artifact(store).id, *targets]))

    assert (status, reason, "targets[1]") == (error.value.status, error.value.reason, error.value.param)
    assert [] == store.list_purge_jobs().data


def test_a_purge_does_not_reach_another_project(store: Store, other: Store) -> None:
    """Its ids count as missing; its keys, generation and rows stay."""
    mine, theirs = new_artifact(store, "mine"), new_artifact(other, "theirs")
    before = other.get_project()

    with pytest.raises(StoreRefused) as error:
        store.create_purge_job(NewPurge(targets=[theirs.id]))
    receipt = purge(store, mine.id)

    assert 404 == error.value.status
    assert before == other.get_project()
    assert b"theirs" == other.get_artifact_content(theirs.id).data
    job = store.list_purge_jobs().data[0]
    assert receipt == store.get_receipt(job.id)
    for read in (other.get_purge_job, other.get_receipt):
        with pytest.raises(StoreRefused, match="there is no purge job"):
            read(job.id)


def test_after_a_purge_every_row_is_under_the_new_key_and_the_old_key_is_gone(store: Store) -> None:
    """Every remaining row opens; none is left under a generation without a key."""
    talk = new_session(store, "base")
    append_events(store, talk, 20)
    secret = append_event(store, talk, "secret")
    for target in (secret.id, list_all_events(store, talk)[0].id):
        receipt = purge(store, target)

        assert [receipt.generation] == store.keyring.generations(store.project_id)
        rows = store.read(lambda tx: tx.fetch_all(select(events).where(events.c.project_id == store.project_id)))
        assert {receipt.generation} == {row.generation for row in rows if row.wrapped_key is not None}
        assert store.verify().valid


def test_an_after_commit_callback_runs_after_the_commit_and_never_if_it_fails(store: Store) -> None:
    """At once without a transaction; in order; a callback sees the committed rows."""
    counts: list[int] = []

    def note() -> None:
        counts.append(len(store.list_artifacts().data))

    def work(joined: Store) -> None:
        joined.after_commit(note)
        joined.after_commit(note)
        new_artifact(joined)
        assert [] == counts

    def failing(joined: Store) -> None:
        work(joined)
        raise LookupError

    with pytest.raises(LookupError):
        store.transaction(failing)
    assert [] == counts
    store.transaction(work)
    assert [1, 1] == counts
    store.after_commit(note)
    assert [1, 1, 1] == counts


def test_a_purge_in_a_transaction_happens_when_that_commits(store: Store) -> None:
    """So that an idempotency key and a purge are one; a transaction that fails purges nothing."""
    first, other = new_artifact(store, "one"), new_artifact(store, "other")

    def failing(joined: Store) -> None:
        joined.create_purge_job(NewPurge(targets=[first.id]))
        raise LookupError

    with pytest.raises(LookupError):
        store.transaction(failing)
    assert b"one" == store.get_artifact_content(first.id).data
    assert [] == store.list_purge_jobs().data

    job = store.transaction(lambda joined: joined.create_purge_job(NewPurge(targets=[other.id])))
    assert "queued" == job.status
    assert "completed" == store.get_purge_job(job.id).status
    with pytest.raises(ContentPurged):
        store.get_artifact(other.id)
