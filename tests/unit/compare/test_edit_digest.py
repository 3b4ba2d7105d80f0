"""`compare/edit_digest.py`: the same edit has the same digest in every call, and another edit another."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.canon import digest_fields
from traceforge.compare.compared_call import ComparedAnswer, ComparedCall, ComparedChoice, ToolCall
from traceforge.compare.comparison import compare
from traceforge.compare.edit_digest import digest_edit


def _key(before: dict[str, Any], after: dict[str, Any], answers: tuple[str, str] = ("", "")) -> str | None:
    old, new = (ComparedAnswer((ComparedChoice(text),)) for text in answers)
    return digest_edit(compare(ComparedCall(before, old), ComparedCall(after, new)))


def _chat(system: str, *questions: str, **settings: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, *({"role": "user", "content": text} for text in questions)]
    return {"model": "m", "messages": messages, **settings}


def _answer_key(before: ComparedChoice, after: ComparedChoice) -> str | None:
    return digest_edit(
        compare(ComparedCall({}, ComparedAnswer((before,))), ComparedCall({}, ComparedAnswer((after,))))
    )


def test_one_edit_of_a_prompt_in_many_calls_has_one_key() -> None:
    """The questions, the words around the edit and the answers may differ."""
    keys = {
        _key(_chat("Be brief.", "One?"), _chat("Be kind.", "One?"), ("1", "2")),
        _key(_chat("Be brief.", "Two?", "Three?"), _chat("Be kind.", "Two?", "Three?"), ("a", "b")),
        _key(_chat("You must be brief. It is Monday."), _chat("You must be kind. It is Monday.")),
    }

    assert 1 == len(keys)
    assert None not in keys


def test_the_place_of_a_message_does_not_change_its_key() -> None:
    """Neither of an edited nor of an added message."""
    first, later = [{"role": "user", "content": text} for text in ("a b", "x y z")]
    edited = {"role": "user", "content": "a c"}

    assert _key({"messages": [first]}, {"messages": [edited]}) == _key(
        {"messages": [later, first]}, {"messages": [later, edited]}
    )
    assert _key({"messages": [later]}, {"messages": [later, first]}) == _key(
        {"messages": [later, later]}, {"messages": [later, later, first]}
    )


def test_an_edit_made_twice_in_one_call_is_one_edit() -> None:
    """The key is over the set of edits."""
    assert _key(_chat("Be", "a b"), _chat("Be", "a c")) == _key(_chat("Be", "a b", "d b"), _chat("Be", "a c", "d c"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_chat("Be kind."), _chat("Be brief.")),
        (_chat("Be brief."), _chat("Be terse.")),
        (_chat("Be brief."), _chat("Be kind.", "And?")),
        (_chat("Be brief."), _chat("Be kind.", temperature=0)),
        (
            {"messages": [{"role": "user", "content": "Be brief."}]},
            {"messages": [{"role": "user", "content": "Be kind."}]},
        ),
        ({"prompt": "Be brief."}, {"prompt": "Be kind."}),
        (_chat("Be brief."), _chat("Be brief.", seed=None)),
        (_chat("Be brief."), _chat("Be brief.", seed=1)),
        (_chat("Be brief.", seed=None), _chat("Be brief.")),
        (_chat("", tools=[{"name": "f"}]), _chat("", tools=[{"name": "f", "description": "a"}])),
        (_chat("", tools=[{"name": "g"}]), _chat("", tools=[{"name": "g", "description": "a"}])),
        (_chat("", tools=[{"name": "f"}, {"name": "g"}]), _chat("", tools=[{"name": "g"}, {"name": "f"}])),
    ],
)
def test_another_edit_has_another_key(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Direction, words, role, field, value and further edits all count."""
    assert _key(_chat("Be brief."), _chat("Be kind.")) != _key(before, after)


def test_the_answer_counts_only_where_the_request_is_the_same() -> None:
    """An answer that followed from an edit of the request is no edit of its own."""
    request = _chat("Be brief.")

    assert _key(request, request, ("a 5", "a 6")) == _key(_chat("x"), _chat("x"), ("b c 5", "b c 6"))
    assert _key(request, request, ("a 5", "a 6")) != _key(request, request, ("a 5", "a 7"))


def test_every_part_of_an_answer_counts() -> None:
    """Text, refusal, finish reason, tool calls and other fields."""
    old = ComparedChoice("a", "stop", "", (ToolCall("f", {"x": 1}),))
    keys = [
        _answer_key(old, ComparedChoice("b", "stop", "", old.tool_calls)),
        _answer_key(old, ComparedChoice("a", "length", "", old.tool_calls)),
        _answer_key(old, ComparedChoice("a", "stop", "no", old.tool_calls)),
        _answer_key(old, ComparedChoice("a", "stop")),
        _answer_key(old, ComparedChoice("a", "stop", "", (ToolCall("f", {"x": 2}),))),
        _answer_key(old, ComparedChoice("a", "stop", "", (*old.tool_calls, ToolCall("g", {})))),
        _answer_key(old, ComparedChoice("a", "stop", "", old.tool_calls, {"message": {"reasoning": "r"}})),
        digest_edit(compare(ComparedCall({}, ComparedAnswer((old,))), ComparedCall({}, None))),
        digest_edit(compare(ComparedCall({}, ComparedAnswer((old,))), ComparedCall({}, ComparedAnswer((old, old))))),
    ]

    assert len(keys) == len(set(keys))
    assert None not in keys


def test_no_edit_has_no_key() -> None:
    assert _key(_chat("a"), _chat("a")) is None


def test_the_key_has_the_layout_of_the_module_s_header() -> None:
    edits = '[["setting","$.request.seed",[],[1]]]'

    assert digest_fields("traceforge.edit/1", [("side", "request"), ("edits", edits)]) == _key({}, {"seed": 1})
