"""Snapshots: compiled, read back, verified; and the check of a whole project."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

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
from traceforge.context.compiler import branch_compilation
from traceforge.context.compiler.compiler_revisions import REVISIONS, compile_sources
from traceforge.context.model.block_source import BlockSource, event_role
from traceforge.context.model.context_snapshot import check_context_snapshot
from traceforge.context.model.inputs import Merge, NewBundle, NewSession, NewSnapshot
from traceforge.context.model.objects import (
    ArtifactType,
    Block,
    Branch,
    BundleItem,
    EventType,
    MergeStrategy,
    Session,
    Snapshot,
)
from traceforge.context.storage.tables import artifacts, branches, events, pages, prefixes, snapshots
from traceforge.errors import StoreRefused


def compiled(store: Store, branch: Branch | Session, revision: str | None = None) -> Snapshot:
    """A snapshot of a branch as it is."""
    return store.create_snapshot(*branch_ids(branch), NewSnapshot(prompt_compiler_revision=revision))


def every_block(store: Store, snapshot: Snapshot) -> list[Block]:
    """All blocks, page by page."""
    blocks: list[Block] = []
    while True:
        page = store.list_blocks(snapshot.id, limit=7, after=blocks[-1].id if blocks else None)
        blocks += page.data
        if not page.has_more:
            return blocks


def expected(store: Store, branch: Branch | Session, base: list[BlockSource], revision: str) -> Any:
    """What the compiler says of the events as they are listed."""
    sources = [
        BlockSource(
            event.block_id,
            event_role(event.event_type),
            event.event_type.value + ("" if isinstance(event.content, str) else "+json"),
            event.content_digest or "",
        )
        for event in list_all_events(store, branch)
    ]
    return compile_sources(base + sources, revision)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few events fill some."""
    monkeypatch.setattr(branch_compilation, "PAGE_EVENTS", 4)


def test_a_snapshot_has_the_base_bundles_and_then_the_events(store: Store) -> None:
    """Each item and each event is one block, with its role and its source."""
    first, second = new_artifact(store, "rules", artifact_type=ArtifactType.POLICY), new_artifact(store, {"t": 1})
    items = [BundleItem(artifact_id=second.id, role="developer"), BundleItem(artifact_id=first.id, role="system")]
    bundle = store.create_bundle(NewBundle(items=items))
    session = store.create_session(NewSession(base_bundle_ids=[bundle.id]))
    event = append_event(store, session, "hello")
    answered = append_event(store, session, [{"type": "text", "text": "hi"}], EventType.ASSISTANT_MESSAGE)

    snapshot = compiled(store, session)
    blocks = every_block(store, snapshot)

    assert [
        ("developer", "text_context+json", second.content_digest, second.id, bundle.id, None),
        ("system", "policy", first.content_digest, first.id, bundle.id, None),
        ("user", "user_message", event.content_digest, None, None, event.id),
        ("assistant", "assistant_message+json", answered.content_digest, None, None, answered.id),
    ] == [
        (block.role, block.kind, block.content_digest, block.artifact_id, block.bundle_id, block.event_id)
        for block in blocks
    ]
    assert [block.id for block in blocks] == snapshot.ordered_block_manifest
    assert [event.block_id, answered.block_id] == snapshot.ordered_block_manifest[2:]
    assert blocks[-1].prefix_digest == snapshot.ordered_block_manifest_digest
    assert (2, "pc_1") == (snapshot.branch_version, snapshot.prompt_compiler_revision)
    assert () == tuple(check_context_snapshot({name: getattr(snapshot, name) for name in snapshot.__struct_fields__}))


def test_an_empty_branch_compiles_to_the_empty_manifest(store: Store) -> None:
    """The empty manifest has a digest too."""
    snapshot = compiled(store, new_session(store))

    assert ([], compile_sources([]).digest, 0) == (
        snapshot.ordered_block_manifest,
        snapshot.ordered_block_manifest_digest,
        snapshot.branch_version,
    )
    assert [] == every_block(store, snapshot)
    assert store.verify_snapshot(snapshot.id).valid


def test_a_snapshot_does_not_change_when_the_branch_grows(store: Store) -> None:
    session = new_session(store, "base")
    append_events(store, session, 2)
    snapshot = compiled(store, session)
    append_events(store, session, 2)
    later = compiled(store, session)

    assert snapshot == store.get_snapshot(snapshot.id)
    assert later == store.get_snapshot(later.id)
    assert [snapshot, later] == store.list_snapshots(*branch_ids(session)).data
    assert 3 == len(snapshot.ordered_block_manifest)
    assert snapshot.ordered_block_manifest == later.ordered_block_manifest[:3]
    assert later.ordered_block_manifest_digest != snapshot.ordered_block_manifest_digest


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.usefixtures("small_pages")
def test_incremental_compilation_equals_compilation_from_the_start(store: Store, revision: str) -> None:
    """After every append, across forks and pages, the digest is that of all blocks from the start."""
    session = new_session(store, "base", {"b": 1})
    base = [
        BlockSource(block.id, block.role, block.kind, block.content_digest)
        for block in every_block(store, compiled(store, session))
    ]
    line: list[Branch | Session] = [session]
    compiled_snapshots: list[Snapshot] = []
    for number in range(30):
        if number in (6, 13, 20):
            line.append(fork_branch(store, line[-1]))
        kind = EventType.RETRIEVAL_RESULT if number % 3 == 1 else EventType.USER_MESSAGE
        append_event(store, line[-1], f"event {number}" if number % 5 else [number], kind)
        if number % 4 == 3:
            continue
        snapshot = compiled(store, line[-1], revision)
        expected_blocks = expected(store, line[-1], base, revision)
        assert (expected_blocks.digest, [block.block_id for block in expected_blocks.blocks]) == (
            snapshot.ordered_block_manifest_digest,
            snapshot.ordered_block_manifest,
        )
        compiled_snapshots.append(snapshot)

    for snapshot in compiled_snapshots:
        assert snapshot == store.get_snapshot(snapshot.id)
        assert store.verify_snapshot(snapshot.id).valid
    assert 0 < store.read(lambda tx: tx.connection.execute(select(func.count()).select_from(pages)).scalar_one())
    assert store.verify().problems == []


@pytest.mark.usefixtures("small_pages")
def test_lost_compiler_states_are_recomputed(store: Store) -> None:
    """States and pages are rebuilt, and the snapshot is the same."""
    session = new_session(store, "base")
    append_events(store, session, 11)
    before = compiled(store, session)
    own = [branch.id for branch in store.list_branches(session.id).data]
    store.write(lambda tx: tx.execute(delete(prefixes).where(prefixes.c.branch_id.in_(own))))
    store.write(lambda tx: tx.execute(delete(pages).where(pages.c.branch_id.in_(own))))

    after = compiled(store, session)

    assert before == store.get_snapshot(before.id)
    assert before.ordered_block_manifest == after.ordered_block_manifest
    assert before.ordered_block_manifest_digest == after.ordered_block_manifest_digest


@pytest.mark.usefixtures("small_pages")
def test_few_compiler_states_are_stored(store: Store) -> None:
    """One per page and the newest, not one per snapshot."""
    session = new_session(store)
    for _ in range(18):
        append_event(store, session)
        compiled(store, session)

    rows = store.read(
        lambda tx: tx.fetch_all(select(prefixes.c.sequence).where(prefixes.c.branch_id == session.default_branch_id))
    )

    assert [4, 8, 12, 16, 18] == sorted(row.sequence for row in rows)


def test_a_fork_renders_the_same_prefix_as_its_parent(store: Store) -> None:
    """Up to the fork, block for block and digest for digest; so a provider's prompt cache survives."""
    session = new_session(store, "base")
    past = append_events(store, session, 4)
    side = fork_branch(store, session, past[2])
    append_event(store, side, "another way")
    parent, child = every_block(store, compiled(store, session)), every_block(store, compiled(store, side))

    assert parent[:4] == child[:4]
    assert parent[4].prefix_digest != child[4].prefix_digest
    assert (
        parent[3].prefix_digest
        == every_block(store, compiled(store, fork_branch(store, session, past[2])))[-1].prefix_digest
    )


def test_the_compiler_revision_is_recorded_and_changes_the_order(store: Store) -> None:
    """pc_2 moves retrieval results behind the history."""
    session = new_session(store)
    event = append_event(store, session, "chunk", EventType.RETRIEVAL_RESULT)
    question = append_event(store, session, "question")
    first, two = compiled(store, session, "pc_1"), compiled(store, session, "pc_2")

    assert [event.block_id, question.block_id] == first.ordered_block_manifest
    assert [question.block_id, event.block_id] == two.ordered_block_manifest
    assert first.ordered_block_manifest_digest != two.ordered_block_manifest_digest
    with pytest.raises(StoreRefused) as error:
        compiled(store, session, "pc_99")
    assert "prompt_compiler_revision" == error.value.param


def test_the_same_content_has_the_same_digest_under_other_ids(store: Store) -> None:
    """The digest covers roles, kinds and contents, not ids."""
    first_session, two = new_session(store, "base"), new_session(store, "base")
    for session in (first_session, two):
        append_events(store, session, 2)

    first, second = compiled(store, first_session), compiled(store, two)

    assert first.ordered_block_manifest_digest == second.ordered_block_manifest_digest
    assert not set(first.ordered_block_manifest) & set(second.ordered_block_manifest)


def test_a_deleted_artifact_stays_in_the_snapshots_that_pin_it(store: Store) -> None:
    """Deletion revokes a handle; it is not a purge."""
    artifact = new_artifact(store, "rules")
    bundle = store.create_bundle(NewBundle(items=[BundleItem(artifact_id=artifact.id, role="system")]))
    session = store.create_session(NewSession(base_bundle_ids=[bundle.id]))
    append_event(store, session)
    before = compiled(store, session)
    store.delete_artifact(artifact.id)
    store.delete_bundle(bundle.id)
    assert before.ordered_block_manifest_digest == compiled(store, session).ordered_block_manifest_digest
    store.delete_session(session.id)

    assert before == store.get_snapshot(before.id)
    assert artifact.id == every_block(store, before)[0].artifact_id
    assert store.verify_snapshot(before.id).valid
    assert store.verify().valid


def test_a_bundle_is_used_once_in_a_session(store: Store) -> None:
    """Used twice, its blocks would have one id in two places."""
    bundle = store.create_bundle(NewBundle(items=[BundleItem(artifact_id=new_artifact(store).id, role="system")]))

    with pytest.raises(StoreRefused) as error:
        store.create_session(NewSession(base_bundle_ids=[bundle.id, bundle.id]))

    assert (400, "base_bundle_ids[1]") == (error.value.status, error.value.param)


def test_a_snapshot_of_another_project_is_not_found(store: Store, other: Store) -> None:
    """In every operation that takes a snapshot."""
    theirs = compiled(other, new_session(other)).id
    for foreign_id in (theirs, "snp_" + "0" * 26, "x"):
        for use in (store.get_snapshot, store.list_blocks, store.verify_snapshot):
            with pytest.raises(StoreRefused) as error:
                use(foreign_id)
            assert (404, f"there is no snapshot {foreign_id}") == (error.value.status, error.value.message)


def test_a_block_of_another_snapshot_is_not_a_cursor(store: Store) -> None:
    """As in every list."""
    snapshot = compiled(store, new_session(store, "base"))

    with pytest.raises(StoreRefused) as error:
        store.list_blocks(snapshot.id, after="blk_" + "0" * 26)

    assert "after" == error.value.param


def test_verifying_a_project_checks_every_object(store: Store) -> None:
    """An unchanged project has no problems."""
    session = new_session(store, "base", {"t": 1})
    append_events(store, session, 3)
    side = fork_branch(store, session)
    append_event(store, side, ["x"])
    now = store.get_branch(session.id, session.default_branch_id)
    store.merge_branch(
        *branch_ids(session),
        Merge(
            source_branch_id=side.id,
            strategy=MergeStrategy.COMPACT,
            summary="s",
            expected_version=now.version,
            expected_head_event_id=now.head_event_id,
        ),
    )
    compiled(store, session)
    compiled(store, side, "pc_2")

    check = store.verify()

    assert (True, []) == (check.valid, check.problems)
    assert {"artifact": 3, "bundle": 1, "session": 1, "branch": 2, "event": 5, "snapshot": 2, "response": 0} == (
        check.checked
    )


@pytest.mark.parametrize(
    ("table", "values", "expected_problem"),
    [
        (events, {"content_digest": "sha256:" + "0" * 64}, "its content does not match its digest"),
        (events, {"role": "assistant"}, "its role does not match its type"),
        (events, {"kind": "user_message+json"}, "stored content does not match its kind, user_message+json"),
        (events, {"parent_event_id": "evt_x"}, "the parent of"),
        (events, {"sequence": 9}, "its last event|after sequence|outside"),
        (events, {"sealed": b"0" * 40}, "cannot be decrypted"),
        (events, {"wrapped_key": b"0" * 60}, "cannot be decrypted"),
        (events, {"block_id": "blk_x"}, "is another one"),
        (artifacts, {"content_digest": "sha256:" + "0" * 64}, "its content does not match its digest"),
        (branches, {"version": 2}, "its head is"),
        (branches, {"head_event_id": "evt_x"}, "its head is"),
        (snapshots, {"manifest_digest": "sha256:" + "0" * 64}, "recompiled"),
        (snapshots, {"head_event_id": "evt_x"}, "its head evt_x is not at version 4"),
        (snapshots, {"blocks": 7}, "recompiled"),
        (prefixes, {"state": "[]"}, "that was kept at 4 is another one"),
    ],
)
@pytest.mark.usefixtures("small_pages")
def test_verification_finds_a_row_that_was_changed_in_the_database(
    store: Store, table: Any, values: dict[str, Any], expected_problem: str
) -> None:
    """The problem names the changed object."""
    session = new_session(store, "base")
    append_events(store, session, 4)
    compiled(store, session)
    assert store.verify().valid
    rows = select(table.c.id) if "id" in table.c else None
    if rows is not None:
        last = store.read(lambda tx: tx.fetch_all(rows.where(table.c.project_id == store.project_id)))[-1].id
        if table is events:
            last = list_all_events(store, session)[2].id
        condition = table.c.id == last
    else:
        condition = table.c.branch_id == session.default_branch_id
    store.write(lambda tx: tx.execute(update(table).where(condition).values(values)))

    check = store.verify()

    assert not check.valid
    assert any(part in problem.message for problem in check.problems for part in expected_problem.split("|"))


def test_sealed_content_cannot_be_moved_to_another_row(store: Store) -> None:
    """What is sealed is bound to its row."""
    session = new_session(store)
    first, two = append_events(store, session, 2)
    columns = ("sealed", "wrapped_key", "generation")
    rows = {
        event.id: store.read(lambda tx, name=event.id: tx.find(events, name))  # type: ignore[misc]
        for event in (first, two)
    }
    for event, other in ((first, two), (two, first)):
        values = {name: getattr(rows[other.id], name) for name in columns}
        store.write(lambda tx, v=values, e=event.id: tx.execute(update(events).where(events.c.id == e).values(v)))  # type: ignore[misc]

    assert {first.id, two.id} == {problem.id for problem in store.verify().problems}
