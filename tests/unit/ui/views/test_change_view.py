"""Pending changes as the review queue shows them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.proposals import approve_change, make_call, propose
from support.replay_player import KEYS
from support.review_project import approved_calls, changed_calls
from traceforge.config import Config, LoadedConfig
from traceforge.exchange import Exchange
from traceforge.snapshots.approve.pending_state import PendingState
from traceforge.snapshots.formats.approved_policy import SettingChange
from traceforge.ui.views.change_item_view import ChangeItem
from traceforge.ui.views.change_queue_view import view_changes
from traceforge.ui.views.change_view import ChangeDetail, view_change


def _state(approved: Sequence[Exchange], changed: Sequence[Exchange], *, is_strict: bool = False) -> PendingState:
    calls = [approve_change(change) for change in propose(*approved).changes]
    changes = propose(*changed, approved=calls, is_strict=is_strict).changes
    loaded = LoadedConfig("/project", Config(), {})
    return PendingState(loaded, list(changes), {call.id: call for call in calls}, 0, [])


@pytest.fixture(scope="module")
def state() -> PendingState:
    return _state(approved_calls(), changed_calls())


def _detail(state: PendingState, start: str) -> ChangeDetail:
    change = next(change for change in state.changes if change.id.startswith(start))
    return view_change(state, change, KEYS)


def test_the_queue_shows_one_cause_with_its_consequences(state: PendingState) -> None:
    """The edit of the system prompt is in two tests, and a later turn of one of them repeats it."""
    page = view_changes(state, KEYS)
    cause = page.causes[0]

    assert "The prompt changed." == cause.title
    assert ["", "same edit", "later call of this conversation"] == [row.role for row in cause.rows]
    assert "the same edit in 1 more call, and 1 later call repeats it" == cause.summary
    assert ["Message", "Answer"] == [group.title for group in cause.preview]
    assert sorted(change.id for change in state.changes) == sorted(item.id for item in page.items)


def test_the_queue_counts_as_the_command_line_does(state: PendingState) -> None:
    page = view_changes(state, KEYS)

    assert "5 snapshots: 5 prompt and answer" == page.approved
    assert [
        ("new", 1),
        ("changed (request)", 1),
        ("changed (answer)", 1),
        ("changed (request and answer)", 3),
    ] == list(page.counts)


def test_a_gate_is_named_with_its_reason(state: PendingState) -> None:
    items = {item.id.partition("-")[0]: item for item in view_changes(state, KEYS).items}

    assert ("prompt only", "temperature 0.7, no seed") == items["test_summary"].gate[:2]
    assert ("prompt and answer", "temperature 0 and a seed") == items["test_where"].gate[:2]


def test_a_refused_change_says_why_and_cannot_be_approved() -> None:
    state = _state([], [make_call("a", temperature=0.7, seed=None)], is_strict=True)
    (item,) = view_changes(state, KEYS).items

    assert not item.can_approve
    assert [(reason.message, reason.hint) for reason in state.changes[0].reasons] == [
        (refusal.message, refusal.hint) for refusal in item.refusals
    ]
    assert item.refusals


def test_a_change_shows_every_part_that_differs(state: PendingState) -> None:
    """The prompt and the answer; of the tool its description, and the parameter."""
    where, tool = _detail(state, "test_where"), _detail(state, "test_tool")
    assert where.comparison is not None
    assert tool.comparison is not None

    assert [("Message", "system"), ("Answer", "")] == [(group.title, group.name) for group in where.comparison.groups]
    assert [("Settings", ""), ("Tool", "find_order")] == [
        (group.title, group.name) for group in tool.comparison.groups
    ]
    assert "Find one order by its number." in str(tool.comparison.groups[1].fields)


def test_a_new_call_is_shown_whole(state: PendingState) -> None:
    """Its conversation, its answer and its settings; there is nothing to compare it with."""
    detail = _detail(state, "test_summary")

    assert (None, None) == (detail.comparison, detail.before_hash)
    assert ["system", "user", "assistant"] == [turn.role for turn in detail.conversation.turns]
    assert detail.settings is not None
    assert ["model", "temperature", "max_tokens"] == [setting.name for setting in detail.settings]


def test_a_call_that_a_record_cannot_hold_is_shown_as_its_provider_has_it() -> None:
    detail = _detail(_state([], [make_call("a", "slow down", status=429)]), "")

    assert "slow down" in str(detail.conversation) + str(detail.raw)
    assert ("Request", "Response") == tuple(side.title for side in detail.raw)
    assert "429" == detail.raw[1].first_line
    assert detail.conversation.has_answer


def test_the_place_of_a_change_is_that_of_the_queue(state: PendingState) -> None:
    """Following `next` from the first change visits every change once, in the order of the list."""
    ids = [item.id for item in view_changes(state, KEYS).items]
    visited = [ids[0]]
    while next_id := _detail(state, visited[-1]).next_id:
        visited.append(next_id)

    assert ids == visited


def test_settings_are_described_as_the_command_line_does(state: PendingState) -> None:
    page = view_changes(state._replace(settings=[SettingChange("test.may_skip", None, ["a::b"])]), KEYS)

    assert ('test.may_skip: not set → ["a::b"]',) == page.settings


def test_hostile_text_is_escaped_in_what_the_views_mark_up() -> None:
    """A prompt, an answer and a raw body with a script are text."""
    script = "<script>alert(1)</script>\u202e"
    state = _state([make_call("calm")], [make_call(script, script)])
    detail = _detail(state, "")
    (item,) = view_changes(state, KEYS).items

    assert isinstance(item, ChangeItem)
    marked_up = str(detail.conversation) + str([side.body for side in detail.raw])
    assert "&lt;script&gt;" in marked_up
    assert "<script>" not in marked_up
    assert "\u202e" not in marked_up
