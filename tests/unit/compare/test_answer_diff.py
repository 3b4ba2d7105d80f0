"""`compare/answer_diff.py`: the differences of two answers, choice by choice and call by call."""

from __future__ import annotations

from typing import Any

from traceforge.compare.answer_diff import AnswerDiff, ToolCallChange, diff_answer
from traceforge.compare.compared_call import ComparedAnswer, ComparedChoice, ToolCall
from traceforge.compare.json_diff import ValueChange


def _calls(before: list[ToolCall], after: list[ToolCall]) -> tuple[ToolCallChange, ...]:
    diff = diff_answer(
        ComparedAnswer((ComparedChoice("", tool_calls=tuple(before)),)),
        ComparedAnswer((ComparedChoice("", tool_calls=tuple(after)),)),
    )
    return diff.choices[0].tool_calls if diff.choices else ()


def _search(value: Any) -> ToolCall:
    return ToolCall("search", {"q": value})


def test_arguments_are_compared_as_a_tree() -> None:
    """The changed argument is named by its path."""
    (change,) = _calls([ToolCall("f", {"a": {"b": 1}, "c": 2})], [ToolCall("f", {"a": {"b": 3}, "c": 2})])

    assert ("changed", (ValueChange("$.arguments.a.b", 1, 3),)) == (change.kind, change.rows)


def test_a_call_inserted_in_front_leaves_the_other_pairs() -> None:
    """Equal calls are paired first, also where all have one name."""
    (change,) = _calls([_search(1), _search(2)], [_search(0), _search(1), _search(2)])

    assert ("added", 0, _search(0)) == (change.kind, change.after_index, change.after)


def test_between_equal_calls_calls_of_the_same_tool_are_paired() -> None:
    """A changed search is not compared with the fetch before it."""
    changes = _calls([_search(1)], [ToolCall("fetch", {}), _search(2)])

    assert [("search", "changed"), ("fetch", "added")] == [(change.name, change.kind) for change in changes]


def test_a_call_of_another_tool_at_the_same_place_is_renamed() -> None:
    (change,) = _calls([_search(1)], [ToolCall("fetch", {"q": 1})])

    assert ("renamed", (ValueChange("$.name", "search", "fetch"),)) == (change.kind, change.rows)


def test_equal_answers_have_no_difference() -> None:
    """Two calls without an answer are equal too."""
    assert AnswerDiff() == diff_answer(ComparedAnswer((ComparedChoice("a"),)), ComparedAnswer((ComparedChoice("a"),)))
    assert AnswerDiff() == diff_answer(None, None)


def test_an_answer_that_was_added_or_removed_is_a_difference() -> None:
    """The call failed before, or fails now."""
    assert ("vanished", "appeared") == (
        diff_answer(ComparedAnswer(()), None).presence,
        diff_answer(None, ComparedAnswer(())).presence,
    )


def test_choices_are_compared_one_by_one() -> None:
    """The first is equal, the second changed, the third is new."""
    diff = diff_answer(
        ComparedAnswer((ComparedChoice("a"), ComparedChoice("b"))),
        ComparedAnswer((ComparedChoice("a"), ComparedChoice("c"), ComparedChoice("d"))),
    )

    assert [1, 2] == [choice.index for choice in diff.choices]
    assert ValueChange("$.response.choices[1].message.content", "b", "c") == diff.choices[0].text
    assert diff.choices[1].before is None


def test_another_answering_model_is_a_note() -> None:
    """It may explain a change and is not one."""
    diff = diff_answer(
        ComparedAnswer((ComparedChoice("a"),), {}, "m-1"), ComparedAnswer((ComparedChoice("a"),), {}, "m-2")
    )

    assert AnswerDiff(served_model=ValueChange("$.response.model", "m-1", "m-2")) == diff
