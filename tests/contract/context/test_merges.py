"""The four strategies of a merge."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event, update

from support.context_builders import (
    append_event,
    append_events,
    branch_ids,
    fork_branch,
    list_all_events,
    new_artifact,
    new_session,
)
from support.loopback_models import connect_models
from support.operation_store import Store
from support.upstream import Upstream
from traceforge.context.model.inputs import Merge, NewArtifact, NewResponse, NewSnapshot, SessionChange
from traceforge.context.model.objects import Branch, EventType, Merged, MergeStrategy, Session
from traceforge.context.storage.tables import events as event_table
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
    """Its content is an artifact that says where it came from."""
    session = new_session(store)
    past = append_events(store, session, 2)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 3, "side")

    merged = merge(store, side, session, MergeStrategy.CHECKPOINT)
    events = list_all_events(store, session)
    artifact = store.get_artifact(events[2].payload_ref or "")

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
    assert ("checkpoint", events[2].content_digest) == (artifact.artifact_type, artifact.content_digest)
    assert {
        "source_branch_id": side.id,
        "source_head_event_id": theirs[-1].id,
        "common_ancestor_event_id": past[-1].id,
    } == artifact.metadata


TRANSCRIPT = """\
Another branch of this conversation went on with 7 events:

User:
Which kettle?

Assistant:
{"content":null,"tool_calls":[{"function":{"name":"search"},"id":"c1"}]}

Tool result:
{"tool_call_id":"c1","content":"found"}

Retrieved:
a document

Assistant:
The small one.
It is red.

Note:
[image/png, 3 bytes]

User:
Thanks."""


def test_a_checkpoint_tells_a_model_what_was_said_on_the_source(store: Store, upstream: Upstream) -> None:
    """A model that sees the prompt of the target can go on with the source: it is sent what was said there."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    append_event(store, session, "Good day.")
    side = fork_branch(store, session)
    document = new_artifact(store, "a document")
    image = store.create_artifact(
        NewArtifact(artifact_type="binary_attachment", content_base64="AAAA", content_media_type="image/png")
    )
    append_event(store, side, "Which kettle?")
    calls = [{"id": "c1", "function": {"name": "search"}}]
    append_event(store, side, {"content": None, "tool_calls": calls}, EventType.ASSISTANT_MESSAGE)
    append_event(store, side, '{"tool_call_id":"c1","content":"found"}', EventType.TOOL_RESULT)
    append_event(store, side, event_type=EventType.RETRIEVAL_RESULT, payload_ref=document.id)
    parts = [{"type": "text", "text": "The small one."}, {"type": "text", "text": "It is red."}]
    append_event(store, side, {"role": "assistant", "content": parts}, EventType.ASSISTANT_MESSAGE)
    append_event(store, side, event_type=EventType.NOTE, payload_ref=image.id)
    append_event(store, side, [{"type": "text", "text": "Thanks."}])

    merge(store, side, session, MergeStrategy.CHECKPOINT)
    store.create_response(NewResponse(model="openai/m", session_id=session.id, input="Which one?"))

    messages = json.loads(upstream.received[0].body)["messages"]
    assert ["Good day.", TRANSCRIPT, "Which one?"] == [message["content"] for message in messages]
    assert {"user"} == {message["role"] for message in messages}
    assert store.verify().valid


def test_equal_branches_give_equal_checkpoints(store: Store) -> None:
    """So a provider's prompt cache survives: no id and no time is in the text."""
    digests = set()
    for _ in range(2):
        session = new_session(store)
        append_event(store, session, "first")
        side = fork_branch(store, session)
        append_event(store, side, "second")
        merge(store, side, session, MergeStrategy.CHECKPOINT)
        digests.add(store.create_snapshot(*branch_ids(session), NewSnapshot()).ordered_block_manifest_digest)

    assert 1 == len(digests)


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


@pytest.mark.parametrize("strategy", list(MergeStrategy))
def test_a_source_without_events_has_nothing_to_merge(store: Store, strategy: MergeStrategy) -> None:
    """The error says so, and nothing is written."""
    session = new_session(store)
    side = fork_branch(store, session)
    append_event(store, session)

    with pytest.raises(StoreRefused, match="no events"):
        merge(store, side, session, strategy)

    assert [] == store.list_artifacts().data


def merge_nothing(store: Store, source: Branch | Session, target: Branch | Session, strategy: MergeStrategy) -> None:
    """Merge, and expect that there is nothing to merge, and that nothing is written."""
    branches = store.list_branches(target.id if isinstance(target, Session) else target.session_id).data
    events, artifacts = list_all_events(store, target), store.list_artifacts(limit=100).data

    with pytest.raises(StoreRefused) as error:
        merge(store, source, target, strategy)

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
    merge(store, side, session, first)
    append_event(store, session, "mine")

    for _ in range(2):
        merge_nothing(store, side, session, strategy)
    new = append_events(store, side, 2, "new")
    merged = merge(store, side, session, strategy)

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

    one = merge(store, side, session, MergeStrategy.FORK)
    two = merge(store, side, session, MergeStrategy.FORK)

    assert one.branch.id != two.branch.id
    merge_nothing(store, side, one.branch, MergeStrategy.REBASE)
    merge_nothing(store, one.branch, two.branch, MergeStrategy.REBASE)


def test_events_that_come_back_are_not_appended_again(store: Store) -> None:
    """Neither copies of the target's own events, nor a checkpoint of them, nor copies of copies by a third branch."""
    session = new_session(store)
    append_event(store, session, "root")
    side, third = fork_branch(store, session), fork_branch(store, session)
    append_event(store, session, "mine")
    merge(store, session, side, MergeStrategy.REBASE)
    theirs = append_event(store, side, "theirs")
    merge(store, side, third, MergeStrategy.REBASE)

    merged = merge(store, side, session, MergeStrategy.REBASE)

    assert [theirs.id] == [event.rebased_from for event in list_all_events(store, session)[-len(merged.event_ids) :]]
    merge_nothing(store, third, session, MergeStrategy.REBASE)
    merge_nothing(store, session, third, MergeStrategy.CHECKPOINT)
    append_event(store, session, "more")
    merge(store, session, side, MergeStrategy.CHECKPOINT)
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
        merge(store, side, session, strategy)
        event.remove(store.database.engine, "before_cursor_execute", count)
        counts.append(len(statements))

    assert counts[2] == counts[7]


def test_a_checkpoint_of_an_earlier_version_brought_nothing(store: Store) -> None:
    """It has no text, so the events can still be merged."""
    session = new_session(store)
    append_event(store, session)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2, "side")
    [checkpoint_id] = merge(store, side, session, MergeStrategy.CHECKPOINT).event_ids
    old = update(event_table).where(event_table.c.id == checkpoint_id).values(payload_ref=None)
    store.write(lambda tx: tx.execute(old))

    merged = merge(store, side, session, MergeStrategy.REBASE)

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
                merge(store, side, session, strategy)
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
        merged = merge(store, source, target, MergeStrategy.FORK)
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

    merged = merge(store, side, session, MergeStrategy.REBASE)

    assert None is merged.common_ancestor_event_id
    assert [event.id for event in theirs] == [event.rebased_from for event in list_all_events(store, session)[1:]]
