"""The four strategies of a merge."""

from __future__ import annotations

from typing import Any

import pytest

from support.context_builders import (
    append_event,
    append_events,
    fork_branch,
    list_all_events,
    new_artifact,
    new_session,
)
from support.operation_store import Store
from traceforge.context.model.inputs import Merge, SessionChange
from traceforge.context.model.objects import Branch, EventType, Merged, MergeStrategy, Session
from traceforge.errors import BranchConflict, StoreRefused

REBASES = (MergeStrategy.REBASE, MergeStrategy.FORK)


def merge(
    store: Store, source: Branch | Session, target: Branch | Session, strategy: MergeStrategy, **more: Any
) -> Merged:
    """Merge at the head of the target as it is now."""
    source_id = source.default_branch_id if isinstance(source, Session) else source.id
    session_id = target.id if isinstance(target, Session) else target.session_id
    target_id = target.default_branch_id if isinstance(target, Session) else target.id
    now = store.get_branch(session_id, target_id)
    expected = {"expected_version": now.version, "expected_head_event_id": now.head_event_id}
    if strategy is MergeStrategy.COMPACT:
        more.setdefault("summary", "they agreed")
    body = Merge(source_branch_id=source_id, strategy=strategy, **{**expected, **more})
    return store.merge_branch(session_id, target_id, body)


def test_a_checkpoint_is_one_event_that_refers_to_the_head_of_the_source(store: Store) -> None:
    """It refers to nothing else in the source."""
    session = new_session(store)
    past = append_events(store, session, 2)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 3, "side")

    merged = merge(store, side, session, MergeStrategy.CHECKPOINT)
    events = list_all_events(store, session)

    assert [event.id for event in events[2:]] == merged.event_ids
    assert (EventType.CHECKPOINT, theirs[-1].id, 3) == (
        events[2].event_type,
        events[2].merged_from,
        events[2].sequence,
    )
    assert (past[-1].id, theirs[-1].id, side.id) == (
        merged.common_ancestor_event_id,
        merged.source_head_event_id,
        merged.source_branch_id,
    )
    assert (3, events[2].id) == (merged.branch.version, merged.branch.head_event_id)


@pytest.mark.parametrize("summary", ["they agreed", {"agreed": True}])
def test_compact_appends_a_summary_with_its_provenance(store: Store, summary: Any) -> None:
    """The summary is an artifact that says where it came from."""
    session = new_session(store)
    past = append_events(store, session, 1)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2, "side")

    merged = merge(store, side, session, MergeStrategy.COMPACT, summary=summary)
    event = list_all_events(store, session)[-1]
    artifact = store.get_artifact(event.payload_ref or "")

    assert [event.id] == merged.event_ids
    assert (EventType.CHECKPOINT, theirs[-1].id) == (event.event_type, event.merged_from)
    assert "compaction_summary" == artifact.artifact_type
    assert artifact.content_digest == event.content_digest
    assert {
        "source_branch_id": side.id,
        "source_head_event_id": theirs[-1].id,
        "common_ancestor_event_id": past[0].id,
        "model": None,
    } == artifact.metadata


def test_rebase_appends_the_events_of_the_source_again(store: Store) -> None:
    """All events since the common ancestor, in order, each with the id of its original."""
    session = new_session(store)
    append_events(store, session, 2)
    side = fork_branch(store, session)
    artifact = new_artifact(store, {"v": 1})
    theirs = [
        append_event(store, side, "text", metadata={"a": 1}),
        append_event(store, side, event_type=EventType.RETRIEVAL_RESULT, payload_ref=artifact.id),
        append_event(store, side, [{"type": "text"}], EventType.ASSISTANT_MESSAGE),
    ]
    mine = append_event(store, session, "mine")

    merged = merge(store, side, session, MergeStrategy.REBASE)
    rebased = list_all_events(store, session)[3:]

    assert [event.id for event in rebased] == merged.event_ids
    assert [event.id for event in theirs] == [event.rebased_from for event in rebased]
    assert [4, 5, 6] == [event.sequence for event in rebased]
    assert [mine.id, rebased[0].id, rebased[1].id] == [event.parent_event_id for event in rebased]
    for old, new in zip(theirs, rebased, strict=True):
        for field in ("event_type", "content", "content_digest", "payload_ref", "metadata"):
            assert getattr(old, field) == getattr(new, field)
        assert old.block_id != new.block_id
    assert (6, rebased[-1].id) == (merged.branch.version, merged.branch.head_event_id)


def test_fork_rebases_onto_a_new_branch(store: Store) -> None:
    """Neither the source nor the target moves."""
    session = new_session(store)
    past = append_events(store, session, 1)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2, "side")
    mine = append_event(store, session, "mine")
    before = store.get_branch(session.id, session.default_branch_id)

    merged = merge(store, side, session, MergeStrategy.FORK, label="both")
    events = list_all_events(store, merged.branch)

    assert ("both", session.default_branch_id, mine.id, 4) == (
        merged.branch.label,
        merged.branch.parent_branch_id,
        merged.branch.forked_from_event_id,
        merged.branch.version,
    )
    assert [past[0], mine] == events[:2]
    assert [event.id for event in theirs] == [event.rebased_from for event in events[2:]]
    assert before == store.get_branch(session.id, session.default_branch_id)


@pytest.mark.parametrize("strategy", list(MergeStrategy))
def test_the_source_is_untouched(store: Store, strategy: MergeStrategy) -> None:
    """Its row and its events are what they were."""
    session = new_session(store)
    append_events(store, session, 1)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2)
    before = store.get_branch(session.id, side.id)

    merge(store, side, session, strategy)

    assert before == store.get_branch(session.id, side.id)
    assert theirs == list_all_events(store, side)[1:]


@pytest.mark.parametrize("strategy", list(MergeStrategy))
def test_a_merge_under_a_stale_head_is_refused(store: Store, strategy: MergeStrategy) -> None:
    """Under the same rule as an append; nothing is written, no branch and no artifact either."""
    session = new_session(store)
    append_events(store, session, 1)
    side = fork_branch(store, session)
    append_event(store, side)
    head = append_event(store, session)
    branches = store.list_branches(session.id)

    with pytest.raises(BranchConflict) as error:
        merge(store, side, session, strategy, expected_version=1)
    with pytest.raises(BranchConflict):
        merge(store, side, session, strategy, expected_head_event_id=None)

    assert (2, head.id) == (error.value.version, error.value.head_event_id)
    assert branches == store.list_branches(session.id)
    assert [] == store.list_artifacts().data


@pytest.mark.parametrize("strategy", list(MergeStrategy))
def test_a_merge_that_cannot_be_is_refused(store: Store, other: Store, strategy: MergeStrategy) -> None:
    """Into itself, of another session, of another project, into an archived session."""
    session, elsewhere, theirs = new_session(store), new_session(store), new_session(other)
    append_event(store, session)
    append_event(store, elsewhere)
    with pytest.raises(StoreRefused) as error:
        merge(store, session, session, strategy)
    assert (409, "same_branch", "source_branch_id") == (error.value.status, error.value.reason, error.value.param)
    for stranger in (elsewhere, theirs):
        with pytest.raises(StoreRefused) as error:
            merge(store, stranger, session, strategy)
        assert (404, "source_branch_id") == (error.value.status, error.value.param)
    side = fork_branch(store, session)
    store.update_session(session.id, SessionChange(status="archived"))
    with pytest.raises(StoreRefused) as error:
        merge(store, side, session, strategy)
    assert "session_archived" == error.value.reason


@pytest.mark.parametrize(
    ("strategy", "more", "param"),
    [
        (MergeStrategy.COMPACT, {"summary": None}, "summary"),
        (MergeStrategy.REBASE, {"summary": "x"}, "summary"),
        (MergeStrategy.CHECKPOINT, {"model": "x"}, "model"),
        (MergeStrategy.REBASE, {"label": "x"}, "label"),
    ],
)
def test_a_field_that_a_merge_strategy_does_not_use_is_refused(
    store: Store, strategy: MergeStrategy, more: dict[str, Any], param: str
) -> None:
    """A field without effect is a mistake."""
    session = new_session(store)
    side = fork_branch(store, session)
    append_event(store, side)

    with pytest.raises(StoreRefused) as error:
        merge(store, side, session, strategy, **more)

    assert (400, param) == (error.value.status, error.value.param)


@pytest.mark.parametrize("strategy", [MergeStrategy.CHECKPOINT, MergeStrategy.COMPACT])
def test_a_source_without_events_has_no_head_to_refer_to(store: Store, strategy: MergeStrategy) -> None:
    """So there is nothing to merge."""
    session = new_session(store)
    side = fork_branch(store, session)
    append_event(store, session)

    with pytest.raises(StoreRefused, match="no events"):
        merge(store, side, session, strategy)

    assert [] == store.list_artifacts().data


@pytest.mark.parametrize("strategy", REBASES)
def test_nothing_new_is_nothing_appended(store: Store, strategy: MergeStrategy) -> None:
    """The target is where it was."""
    session = new_session(store)
    side = fork_branch(store, session, append_events(store, session, 2)[0])

    merged = merge(store, side, session, strategy)

    assert ([], 2) == (merged.event_ids, merged.branch.version)


def test_the_common_ancestor_of_nested_forks_is_the_last_shared_event(store: Store) -> None:
    """Whichever way the branches hang together."""
    session = new_session(store)
    root = append_events(store, session, 4, "root")
    branch = fork_branch(store, session, root[2])
    on_one = append_events(store, branch, 3, "one")
    two = fork_branch(store, branch, on_one[1])
    append_event(store, two, "two")
    back = fork_branch(store, two, root[1])  # Forked of a grandchild, at an event of the root.
    append_event(store, back, "back")
    twin = fork_branch(store, branch, on_one[1])
    append_event(store, twin, "twin")
    bare = fork_branch(store, fork_branch(store, branch))
    pairs = [
        (session, branch, root[2]),
        (branch, session, root[2]),
        (two, session, root[2]),
        (two, branch, on_one[1]),
        (branch, two, on_one[1]),
        (back, branch, root[1]),
        (back, two, root[1]),
        (session, back, root[1]),
        (twin, two, on_one[1]),
        (bare, branch, on_one[2]),
        (bare, two, on_one[1]),
    ]

    for source, target, ancestor in pairs:
        merged = merge(store, source, target, MergeStrategy.FORK)
        assert ancestor.id == merged.common_ancestor_event_id
        source_events = list_all_events(store, source)
        since = [event.id for event in source_events[source_events.index(ancestor) + 1 :]]
        assert since == [event.rebased_from for event in list_all_events(store, merged.branch)[-len(since) :]] * bool(
            since
        )


def test_branches_that_share_nothing_have_no_ancestor(store: Store) -> None:
    """A fork of an empty branch begins at the beginning."""
    session = new_session(store)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2)
    append_event(store, session)

    merged = merge(store, side, session, MergeStrategy.REBASE)

    assert None is merged.common_ancestor_event_id
    assert [event.id for event in theirs] == [event.rebased_from for event in list_all_events(store, session)[1:]]
