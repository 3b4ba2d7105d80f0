"""The four strategies of a merge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.context_builders import (
    append_event,
    append_events,
    branch_ids,
    fork_branch,
    list_all_events,
    merge_branch,
    new_artifact,
    new_session,
)
from support.loopback_models import connect_models
from support.operation_store import Store
from support.upstream import Upstream
from traceforge.context.model.inputs import NewArtifact, NewResponse, NewSnapshot, SessionChange
from traceforge.context.model.objects import EventType, MergeStrategy
from traceforge.errors import BranchConflict, StoreRefused


def test_a_checkpoint_is_one_event_that_refers_to_the_head_of_the_source(store: Store) -> None:
    """Its content is an artifact that says where it came from."""
    session = new_session(store)
    past = append_events(store, session, 2)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 3, "side")

    merged = merge_branch(store, side, session, MergeStrategy.CHECKPOINT)
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

    merge_branch(store, side, session, MergeStrategy.CHECKPOINT)
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
        merge_branch(store, side, session, MergeStrategy.CHECKPOINT)
        digests.add(store.create_snapshot(*branch_ids(session), NewSnapshot()).ordered_block_manifest_digest)

    assert 1 == len(digests)


@pytest.mark.parametrize("summary", ["they agreed", {"agreed": True}])
def test_compact_appends_a_summary_with_its_provenance(store: Store, summary: Any) -> None:
    """The summary is an artifact that says where it came from."""
    session = new_session(store)
    past = append_events(store, session, 1)
    side = fork_branch(store, session)
    theirs = append_events(store, side, 2, "side")

    merged = merge_branch(store, side, session, MergeStrategy.COMPACT, summary=summary)
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

    merged = merge_branch(store, side, session, MergeStrategy.REBASE)
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

    merged = merge_branch(store, side, session, MergeStrategy.FORK, label="both")
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

    merge_branch(store, side, session, strategy)

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
        merge_branch(store, side, session, strategy, expected_version=1)
    with pytest.raises(BranchConflict):
        merge_branch(store, side, session, strategy, expected_head_event_id=None)

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
        merge_branch(store, session, session, strategy)
    assert (409, "same_branch", "source_branch_id") == (error.value.status, error.value.reason, error.value.param)
    for stranger in (elsewhere, theirs):
        with pytest.raises(StoreRefused) as error:
            merge_branch(store, stranger, session, strategy)
        assert (404, "source_branch_id") == (error.value.status, error.value.param)
    side = fork_branch(store, session)
    store.update_session(session.id, SessionChange(status="archived"))
    with pytest.raises(StoreRefused) as error:
        merge_branch(store, side, session, strategy)
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
        merge_branch(store, side, session, strategy, **more)

    assert (400, param) == (error.value.status, error.value.param)
