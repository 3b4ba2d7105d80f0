"""Pending changes by their cause."""

from __future__ import annotations

from support.proposals import approve_change, make_call, propose
from support.replay_player import KEYS
from traceforge.exchange import Exchange
from traceforge.snapshots.record.change_groups import CauseGroup, ComparedChange, group_by_cause
from traceforge.snapshots.record.pending_comparison import compare_with_approved


def _group(*edits: tuple[Exchange, Exchange]) -> list[CauseGroup]:
    """The groups of calls that were approved and then changed."""
    approved = [approve_change(change) for change in propose(*(before for before, _ in edits)).changes]
    by_id = {call.id: call for call in approved}
    compared = [
        ComparedChange(change, compare_with_approved(change, by_id[change.id], KEYS).comparison)
        for change in propose(*(after for _, after in edits), approved=approved).changes
    ]
    assert len(edits) == len(compared)
    return group_by_cause(compared)


def _shape(groups: list[CauseGroup]) -> list[tuple[int, int]]:
    return [(len(group.repeats), len(group.later_calls)) for group in groups]


def _turn(system: str, *turns: str, number: int) -> Exchange:
    messages = [{"role": "system", "content": system}]
    messages += [
        {"role": "user" if place % 2 == 0 else "assistant", "content": turn} for place, turn in enumerate(turns)
    ]
    return make_call("", number=number, scope="test_a.py::test_a", messages=messages)


def test_one_edit_in_two_calls_is_one_group_and_another_edit_is_another() -> None:
    """The edit counts, and not the words around it."""
    groups = _group(
        (make_call("Be brief. Paris?", number=0), make_call("Be kind. Paris?", number=0)),
        (make_call("Be brief. Rome?", number=1), make_call("Be kind. Rome?", number=1)),
        (make_call("Quote Oslo.", number=2), make_call("Quote Bergen.", number=2)),
    )

    assert [(0, 0), (1, 0)] == sorted(_shape(groups))


def test_the_later_turns_of_a_conversation_are_consequences_of_the_edit() -> None:
    """Whatever their own words are; each change is in one group."""
    groups = _group(
        (_turn("Be brief.", "Hi", number=0), _turn("Be kind.", "Hi", number=0)),
        (
            _turn("Be brief.", "Hi", "Hello.", "Rome?", number=1),
            _turn("Be kind.", "Hi", "Hello, friend!", "Rome?", number=1),
        ),
    )

    assert [(0, 1)] == _shape(groups)
    assert 2 == len({compared.change.id for group in groups for compared in group.changes})


def test_the_same_prompt_in_another_test_is_no_consequence() -> None:
    """It has a cause of its own, even if it begins alike."""
    first = _turn("Be kind.", "Hi", number=0)
    other = make_call("", number=1, scope="test_b.py::test_b", messages=[
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Rome?"},
    ])  # fmt: skip
    groups = group_by_cause([ComparedChange(change, None) for change in propose(first, other).changes])

    assert [(0, 0), (0, 0)] == _shape(groups)


def test_refused_changes_are_alone() -> None:
    changes = propose(
        make_call("a", temperature=0.7), make_call("b", number=1, temperature=0.7), is_strict=True
    ).changes

    assert [(0, 0), (0, 0)] == _shape(group_by_cause([ComparedChange(change, None) for change in changes]))
