"""Appends, forks and lists of events."""

from __future__ import annotations

import threading

import pytest

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
from traceforge.canon import digest_text
from traceforge.context.model.inputs import Append, BranchChange, NewBranch, NewEvent, SessionChange
from traceforge.context.model.objects import Event, EventType
from traceforge.errors import BranchConflict, StoreRefused
from traceforge.terminal import one_line

USER_MESSAGE = NewEvent(event_type=EventType.USER_MESSAGE, content="hello")
NO_EVENT = "evt_00000000000000000000000000"
NO_BRANCH = "br_00000000000000000000000000"


def test_the_first_event_has_sequence_one_and_no_parent(store: Store) -> None:
    """It becomes the head."""
    session = new_session(store)
    body = Append(expected_version=0, expected_head_event_id=None, event=USER_MESSAGE)

    event = store.append_event(session.id, session.default_branch_id, body)

    assert (1, None, "hello", digest_text("hello")) == (
        event.sequence,
        event.parent_event_id,
        event.content,
        event.content_digest,
    )
    branch = store.get_branch(session.id, session.default_branch_id)
    assert (1, event.id) == (branch.version, branch.head_event_id)


def test_an_event_is_listed_as_it_was_returned(store: Store) -> None:
    """Texts, values, references and metadata."""
    session = new_session(store)
    artifact = new_artifact(store, {"k": ["v"]})
    events = [
        append_event(store, session, "text", metadata={"a": {"b": [1, 2.5, None, "ü"]}}),
        append_event(store, session, [{"type": "text", "text": "part"}], EventType.ASSISTANT_MESSAGE),
        append_event(store, session, event_type=EventType.TOOL_RESULT, payload_ref=artifact.id),
        append_event(store, session, "", EventType.NOTE),
    ]

    assert events == list_all_events(store, session)
    assert artifact.content_digest == events[2].content_digest
    assert (None, artifact.id) == (events[2].content, events[2].payload_ref)


@pytest.mark.parametrize("wrong", ["version", "head", "both", "no head"])
def test_an_append_with_a_stale_version_or_head_is_refused_with_the_current_head(store: Store, wrong: str) -> None:
    """Nothing is written unless both the version and the head match."""
    session = new_session(store)
    first, second = append_events(store, session, 2)
    version = 1 if wrong in ("version", "both") else 2
    head = {"version": second.id, "head": first.id, "both": first.id, "no head": None}[wrong]

    with pytest.raises(BranchConflict) as error:
        store.append_event(
            session.id,
            session.default_branch_id,
            Append(expected_version=version, expected_head_event_id=head, event=USER_MESSAGE),
        )

    assert (409, "branch_version_conflict", 2, second.id) == (
        error.value.status,
        error.value.reason,
        error.value.version,
        error.value.head_event_id,
    )
    assert [first, second] == list_all_events(store, session)


def test_of_many_appends_with_the_same_expected_head_one_succeeds(store: Store) -> None:
    """The others get a conflict and write no event."""
    session = new_session(store)
    body = Append(expected_version=0, expected_head_event_id=None, event=USER_MESSAGE)
    won: list[Event] = []
    lost: list[BranchConflict] = []
    ready = threading.Barrier(8)

    def write() -> None:
        ready.wait()
        try:
            won.append(store.append_event(session.id, session.default_branch_id, body))
        except BranchConflict as exc:
            lost.append(exc)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (1, 7) == (len(won), len(lost))
    assert {(1, won[0].id)} == {(conflict.version, conflict.head_event_id) for conflict in lost}
    assert won == list_all_events(store, session)


@pytest.mark.parametrize(
    ("event", "param"),
    [
        (NewEvent(event_type=EventType.NOTE), "event.content"),
        (NewEvent(event_type=EventType.NOTE, content="a", payload_ref=NO_EVENT), "event.content"),
        (NewEvent(event_type=EventType.NOTE, payload_ref="art_" + "0" * 26), "event.payload_ref"),
        (NewEvent(event_type=EventType.NOTE, content="\udfff"), "event.content"),
        (NewEvent(event_type=EventType.NOTE, content={"a": float("nan")}), "event.content"),
        (NewEvent(event_type=EventType.NOTE, content="a", metadata={"a": float("nan")}), "event.metadata"),
    ],
)
def test_an_event_that_cannot_be_stored_is_refused(store: Store, event: NewEvent, param: str) -> None:
    """The error names the field, and the branch does not move."""
    session = new_session(store)

    with pytest.raises(StoreRefused) as error:
        store.append_event(
            session.id,
            session.default_branch_id,
            Append(expected_version=0, expected_head_event_id=None, event=event),
        )

    assert param == error.value.param
    assert 0 == store.get_branch(session.id, session.default_branch_id).version


def test_nothing_is_appended_to_an_archived_session(store: Store) -> None:
    """It can still be read and forked, and made active again."""
    session = new_session(store)
    event = append_event(store, session)
    store.update_session(session.id, SessionChange(status="archived"))

    with pytest.raises(StoreRefused) as error:
        append_event(store, session)

    assert (409, "session_archived") == (error.value.status, error.value.reason)
    assert [event] == list_all_events(store, fork_branch(store, session))
    store.update_session(session.id, SessionChange(status="active"))
    assert 2 == append_event(store, session).sequence


def test_metadata_never_moves_the_head(store: Store) -> None:
    """A label, or what a session knows about itself, is not history."""
    session = new_session(store)
    event = append_event(store, session)
    store.update_session(session.id, SessionChange(metadata={"a": 1}))
    branch = store.update_branch(session.id, session.default_branch_id, BranchChange(label="main"))

    assert ("main", 1, event.id) == (branch.label, branch.version, branch.head_event_id)
    assert branch == store.update_branch(session.id, session.default_branch_id, BranchChange())


def test_a_fork_inherits_the_version_and_shares_the_past(store: Store) -> None:
    """It copies nothing, and what is appended to one is not on the other."""
    session = new_session(store)
    past = append_events(store, session, 3)
    side = fork_branch(store, session, label="side")
    main_event, side_event = append_event(store, session, "here"), append_event(store, side, "there")

    assert (3, past[2].id, past[2].id, session.default_branch_id, "side") == (
        side.version,
        side.head_event_id,
        side.forked_from_event_id,
        side.parent_branch_id,
        side.label,
    )
    assert (4, 4) == (main_event.sequence, side_event.sequence)
    assert (past[2].id, past[2].id) == (main_event.parent_event_id, side_event.parent_event_id)
    assert [*past, main_event] == list_all_events(store, session)
    assert [*past, side_event] == list_all_events(store, side)


def test_a_fork_at_an_event_ends_with_that_event(store: Store) -> None:
    """Also if the parent branch inherited the event."""
    session = new_session(store)
    past = append_events(store, session, 4)
    side = fork_branch(store, session, past[2])
    more = append_events(store, side, 2, "side")
    deep = fork_branch(store, side, past[1])
    last = append_event(store, deep, "deep")
    high = fork_branch(store, side, more[0])

    assert [*past[:3], *more] == list_all_events(store, side)
    assert [*past[:2], last] == list_all_events(store, deep)
    assert (2, past[1].id, side.id) == (deep.version, deep.forked_from_event_id, deep.parent_branch_id)
    assert [*past[:3], more[0]] == list_all_events(store, high)


def test_a_fork_of_nothing_is_empty(store: Store) -> None:
    """A branch without events has no event to be forked at."""
    session = new_session(store)
    side = fork_branch(store, session)
    event = append_event(store, side)

    assert (0, None, None) == (side.version, side.head_event_id, side.forked_from_event_id)
    assert [event] == list_all_events(store, side)
    assert [] == list_all_events(store, session)


def test_an_event_that_is_not_on_the_path_is_no_place_to_fork_at(store: Store, other: Store) -> None:
    """Not one behind the fork on the parent, not one of another session or project."""
    session, elsewhere = new_session(store), new_session(store)
    append_events(store, session, 2)
    side = fork_branch(store, session)
    bad = [
        append_event(store, session, "later").id,
        append_event(store, elsewhere).id,
        append_event(other, new_session(other)).id,
        NO_EVENT,
    ]

    for event_id in [*bad, "x\0"]:
        with pytest.raises(StoreRefused) as error:
            store.fork_branch(session.id, NewBranch(fork_from_branch_id=side.id, fork_from_event_id=event_id))
        assert (404, "fork_from_event_id") == (error.value.status, error.value.param)
    with pytest.raises(StoreRefused) as error:
        store.fork_branch(session.id, NewBranch(fork_from_branch_id=elsewhere.default_branch_id))
    assert (404, "fork_from_branch_id") == (error.value.status, error.value.param)


def test_events_are_listed_over_the_fork_page_by_page(store: Store) -> None:
    """The cursor may be an inherited event; no page repeats or skips one."""
    session = new_session(store)
    past = append_events(store, session, 5)
    side = fork_branch(store, session, past[3])
    mine = append_events(store, side, 3, "mine")
    expected = [*past[:4], *mine]

    for size in range(1, 9):
        events: list[Event] = []
        while True:
            page = store.list_events(*branch_ids(side), limit=size, after=events[-1].id if events else None)
            events += page.data
            if not page.has_more:
                break
            assert size == len(page.data)
        assert expected == events
    for after in (past[4].id, NO_EVENT, "nonsense"):
        with pytest.raises(StoreRefused, match="is not in this list"):
            store.list_events(*branch_ids(side), after=after)


def test_branches_are_listed_oldest_first(store: Store) -> None:
    """The first one first."""
    session = new_session(store)
    sides = [fork_branch(store, session, label=str(number)) for number in range(3)]
    new_session(store)

    listed = store.list_branches(session.id)

    assert [session.default_branch_id, *(side.id for side in sides)] == [branch.id for branch in listed.data]


def test_a_branch_id_is_unknown_in_another_session(store: Store, other: Store) -> None:
    """In every operation that takes a branch."""
    session, elsewhere, theirs = new_session(store), new_session(store), new_session(other)
    body = Append(expected_version=0, expected_head_event_id=None, event=USER_MESSAGE)
    for branch_id in (elsewhere.default_branch_id, theirs.default_branch_id, NO_BRANCH, "x", "\ud800"):
        for use in (
            lambda name: store.get_branch(session.id, name),
            lambda name: store.update_branch(session.id, name, BranchChange(label="x")),
            lambda name: store.append_event(session.id, name, body),
            lambda name: store.list_events(session.id, name),
        ):
            with pytest.raises(StoreRefused) as error:
                use(branch_id)
            assert (404, f"there is no branch {one_line(branch_id)}") == (error.value.status, error.value.message)
    with pytest.raises(StoreRefused) as error:
        store.append_event(theirs.id, theirs.default_branch_id, body)
    assert f"there is no session {theirs.id}" == error.value.message
    assert [] == list_all_events(other, theirs)


def test_a_deleted_artifact_stays_in_the_events_that_refer_to_it(store: Store) -> None:
    """New events cannot refer to it."""
    session, artifact = new_session(store), new_artifact(store)
    event = append_event(store, session, payload_ref=artifact.id)
    store.delete_artifact(artifact.id)

    assert [event] == list_all_events(store, session)
    with pytest.raises(StoreRefused) as error:
        append_event(store, session, payload_ref=artifact.id)
    assert (404, "event.payload_ref") == (error.value.status, error.value.param)
