"""A merge brings only what no earlier merge has brought, and finds where two branches parted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event, update

from support.context_builders import (
    append_event,
    append_events,
    fork_branch,
    list_all_events,
    merge_branch,
    new_session,
)
from support.operation_store import Store
from traceforge.context.model.objects import Branch, MergeStrategy, Session
from traceforge.context.storage.tables import events as event_table
from traceforge.errors import BranchConflict, StoreRefused

REBASES = (MergeStrategy.REBASE, MergeStrategy.FORK)


@pytest.mark.parametrize("strategy", list(MergeStrategy))
def test_a_source_without_events_has_nothing_to_merge(store: Store, strategy: MergeStrategy) -> None:
    """The error says so, and nothing is written."""
    session = new_session(store)
    side = fork_branch(store, session)
    append_event(store, session)

    with pytest.raises(StoreRefused, match="no events"):
        merge_branch(store, side, session, strategy)

    assert [] == store.list_artifacts().data


def merge_nothing(store: Store, source: Branch | Session, target: Branch | Session, strategy: MergeStrategy) -> None:
    """Merge, and expect that there is nothing to merge, and that nothing is written."""
    branches = store.list_branches(target.id if isinstance(target, Session) else target.session_id).data
    events, artifacts = list_all_events(store, target), store.list_artifacts(limit=100).data

    with pytest.raises(StoreRefused) as error:
        merge_branch(store, source, target, strategy)

    assert (409, "nothing_to_merge", "source_branch_id") == (
        error.value.status,
        error.value.reason,
        error.value.param,
    )
    assert branches == store.list_branches(branches[0].session_id).data
    assert (events, artifacts) == (list_all_events(store, target), store.list_artifacts(limit=100).data)


@pytest.mark.parametrize("strategy", list(MergeStrategy))
def test_a_source_that_is_behind_the_target_has_nothing_to_merge(store: Store, strategy: MergeStrategy) -> None:
    """The target has all its events."""
    session = new_session(store)
    side = fork_branch(store, session, append_events(store, session, 2)[0])

    merge_nothing(store, side, session, strategy)


@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.parametrize("first", [MergeStrategy.CHECKPOINT, MergeStrategy.COMPACT, MergeStrategy.REBASE])
def test_a_merge_brings_only_what_no_earlier_merge_has_brought(
    store: Store, first: MergeStrategy, strategy: MergeStrategy
) -> None:
    """Whatever the strategies: of an unchanged source nothing, of a source that went on the new events."""
    session = new_session(store)
    append_events(store, session, 1)
    side = fork_branch(store, session)
    append_events(store, side, 2, "old")
    merge_branch(store, side, session, first)
    append_event(store, session, "mine")

    for _ in range(2):
        merge_nothing(store, side, session, strategy)
    new = append_events(store, side, 2, "new")
    merged = merge_branch(store, side, session, strategy)

    added = list_all_events(store, merged.branch)[-len(merged.event_ids) :]
    assert merged.event_ids == [event.id for event in added]
    if strategy in REBASES:
        assert [event.id for event in new] == [event.rebased_from for event in added]
    elif strategy is MergeStrategy.CHECKPOINT:
        content = store.get_artifact_content(added[0].payload_ref or "").data.decode()
        assert "Another branch of this conversation went on with 2 events:\n\nUser:\nnew 0\n\nUser:\nnew 1" == content
    if strategy is not MergeStrategy.FORK:
        merge_nothing(store, side, session, strategy)


def test_a_fork_merge_is_judged_by_the_target_and_can_be_repeated(store: Store) -> None:
    """It leaves the target as it is, so the same merge makes another branch; the branch it made has all events."""
    session = new_session(store)
    side = fork_branch(store, session)
    append_event(store, side)
    append_event(store, session)

    one = merge_branch(store, side, session, MergeStrategy.FORK)
    two = merge_branch(store, side, session, MergeStrategy.FORK)

    assert one.branch.id != two.branch.id
    merge_nothing(store, side, one.branch, MergeStrategy.REBASE)
    merge_nothing(store, one.branch, two.branch, MergeStrategy.REBASE)


def test_events_that_come_back_are_not_appended_again(store: Store) -> None:
    """Neither copies of the target's own events, nor a checkpoint of them, nor copies of copies by a third branch."""
    session = new_session(store)
    append_event(store, session, "root")
    side, third = fork_branch(store, session), fork_branch(store, session)
    append_event(store, session, "mine")
    merge_branch(store, session, side, MergeStrategy.REBASE)
    theirs = append_event(store, side, "theirs")
    merge_branch(store, side, third, MergeStrategy.REBASE)

    merged = merge_branch(store, side, session, MergeStrategy.REBASE)

    assert [theirs.id] == [event.rebased_from for event in list_all_events(store, session)[-len(merged.event_ids) :]]
    merge_nothing(store, third, session, MergeStrategy.REBASE)
    merge_nothing(store, session, third, MergeStrategy.CHECKPOINT)
    append_event(store, session, "more")
    merge_branch(store, session, side, MergeStrategy.CHECKPOINT)
    merge_nothing(store, side, session, MergeStrategy.REBASE)


@pytest.mark.parametrize("strategy", [MergeStrategy.CHECKPOINT, MergeStrategy.REBASE])
def test_earlier_merges_add_no_statements_to_a_merge(store: Store, strategy: MergeStrategy) -> None:
    """A merge after each append would otherwise take longer every time."""
    session = new_session(store)
    append_event(store, session)
    side = fork_branch(store, session)
    counts = []

    for _ in range(8):
        append_event(store, side, "side")
        statements: list[str] = []

        def count(*arguments: Any, statements: list[str] = statements) -> None:
            statements.append(arguments[2])

        event.listen(store.database.engine, "before_cursor_execute", count)
        merge_branch(store, side, session, strategy)
        event.remove(store.database.engine, "before_cursor_execute", count)
        counts.append(len(statements))

    assert counts[2] == counts[7]


def test_a_checkpoint_of_an_earlier_version_brought_nothing(store: Store) -> None:
    """It has no text, so the events can still be merged."""
    session = new_session(store)
    append_event(store, session)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2, "side")
    [checkpoint_id] = merge_branch(store, side, session, MergeStrategy.CHECKPOINT).event_ids
    old = update(event_table).where(event_table.c.id == checkpoint_id).values(payload_ref=None)
    store.write(lambda tx: tx.execute(old))

    merged = merge_branch(store, side, session, MergeStrategy.REBASE)

    assert len(theirs) == len(merged.event_ids)


@pytest.mark.parametrize("strategy", [MergeStrategy.CHECKPOINT, MergeStrategy.COMPACT, MergeStrategy.REBASE])
def test_merges_at_once_bring_each_event_once(store: Store, strategy: MergeStrategy) -> None:
    """Each of them has read the same head; all but one get a conflict, and then there is nothing to merge."""
    session = new_session(store)
    append_event(store, session)
    side = fork_branch(store, session)
    append_events(store, side, 3, "side")
    barrier = threading.Barrier(4)

    def merge_until_done(_: int) -> str:
        barrier.wait()
        while True:
            try:
                merge_branch(store, side, session, strategy)
            except BranchConflict:
                continue
            except StoreRefused as exc:
                return exc.reason
            return "merged"

    with ThreadPoolExecutor(4) as threads:
        ends = sorted(threads.map(merge_until_done, range(4)))

    assert ["merged", *["nothing_to_merge"] * 3] == sorted(ends)
    assert (4 if strategy is MergeStrategy.REBASE else 2) == len(list_all_events(store, session))


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
    append_event(store, bare, "bare")
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
        merged = merge_branch(store, source, target, MergeStrategy.FORK)
        assert ancestor.id == merged.common_ancestor_event_id
        source_events = list_all_events(store, source)
        since = [event.id for event in source_events[source_events.index(ancestor) + 1 :]]
        assert since == [event.rebased_from for event in list_all_events(store, merged.branch)[-len(since) :]]


def test_branches_that_share_nothing_have_no_ancestor(store: Store) -> None:
    """A fork of an empty branch begins at the beginning."""
    session = new_session(store)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2)
    append_event(store, session)

    merged = merge_branch(store, side, session, MergeStrategy.REBASE)

    assert None is merged.common_ancestor_event_id
    assert [event.id for event in theirs] == [event.rebased_from for event in list_all_events(store, session)[1:]]
