"""`compare/classification.py`: which rules apply, with their evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from traceforge.compare.classification import RULES, value_text
from traceforge.compare.compared_call import ComparedAnswer, ComparedCall, ComparedChoice, ToolCall
from traceforge.compare.comparison import compare
from traceforge.compare.json_diff import ABSENT

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "how-changes-are-classified.md"
TEN_WORDS = "we go on and on and on and on again. "


def _request_rules(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    changes = compare(ComparedCall(before, None), ComparedCall(after, None)).request_changes
    return {change.rule: change.because for change in changes}


def _answer_rules(before: ComparedChoice | str | None, after: ComparedChoice | str | None) -> dict[str, str]:
    def call(side: ComparedChoice | str | None) -> ComparedCall:
        choice = ComparedChoice(side, "stop") if isinstance(side, str) else side
        return ComparedCall({}, ComparedAnswer((choice,)) if choice else None)

    return {change.rule: change.because for change in compare(call(before), call(after)).answer_changes}


def _messages(*contents: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content} for content in contents]}


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        (_messages("a"), _messages("b"), {"request.prompt": "$.request.messages[0] (user) changed"}),
        (_messages("a b"), _messages("a  b"), {"request.prompt": "only white space differs"}),
        ({"prompt": "a"}, {"prompt": "b"}, {"request.prompt": "$.request.prompt changed"}),
        ({"prompt": "a"}, {"prompt": "a "}, {"request.prompt": "only white space differs"}),
        (
            {"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "x"}]},
            {"messages": [{"role": "tool", "tool_call_id": "call_2", "content": "x"}]},
            {"request.prompt": "only ids of tool calls differ"},
        ),
        ({"model": "a"}, {"model": "b"}, {"request.model": '$.request.model: "a" → "b"'}),
        ({}, {"seed": None}, {"request.parameters": "$.request.seed: absent → null"}),
        (
            {"a": 1, "b": 1, "c": 1, "d": 1},
            {},
            {
                "request.parameters": "$.request.a: 1 → absent, $.request.b: 1 → absent, "
                "$.request.c: 1 → absent and 1 more"
            },
        ),
        ({}, {"tools": [{"name": "f"}]}, {"request.tools": "f added"}),
        ({}, {"tool_choice": "none"}, {"request.tools": '$.request.tool_choice: absent → "none"'}),
        (
            {"response_format": {"type": "text"}},
            {"response_format": {"type": "json_object"}},
            {"request.format": '$.request.response_format.type: "text" → "json_object"'},
        ),
    ],
)
def test_a_change_of_the_request_has_its_rules_and_evidence(
    before: dict[str, Any], after: dict[str, Any], rules: dict[str, str]
) -> None:
    """Prompt, model, parameters, tools and format; no other rule applies."""
    assert rules == _request_rules(before, after)


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        ("a", None, {"answer.absent": "there is no answer now"}),
        (None, "a", {"answer.absent": "there was no answer before"}),
        (
            "Sure, it is easy.",
            "I cannot help with that.",
            {
                "answer.refusal": "became a refusal: the text begins with “I cannot help”",
                "answer.wording": "the same numbers, dates, links and names",
            },
        ),
        (
            ComparedChoice("", "stop", refusal="no"),
            ComparedChoice("", "stop"),
            {
                "answer.refusal": "is no longer a refusal: before, the refusal field is set",
                "answer.other": '$.response.choices[0].message.refusal: "no" → ""',
            },
        ),
        (
            ComparedChoice("", tool_calls=(ToolCall("f", {"a": 1}),)),
            ComparedChoice("", tool_calls=(ToolCall("f", {"a": 2}), ToolCall("g", {}))),
            {"answer.tools": "f changed, g added"},
        ),
        (
            '{"a": 1}',
            '{"a": 1, "b": true}',
            {
                "answer.format": "the JSON now has $.b (boolean)",
                "answer.wording": "the same numbers, dates, links and names",
            },
        ),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', {"answer.format": "the same JSON value in another spelling"}),
        ("It is Paris, 5 km.", "It is Lyon, 6 km.", {"answer.facts": "5, Paris → 6, Lyon"}),
        ("It is big.", "It is large.", {"answer.wording": "the same numbers, dates, links and names"}),
        ("it is so.", "It is so!", {"answer.wording": "only punctuation or letter case differs"}),
        (
            "It is said that Alice owes Bob.",
            "It is said that Bob owes Alice.",
            {"answer.wording": "the same numbers, dates, links and names, in another order"},
        ),
        ("a b", "a\n\nb", {"answer.space": "the texts are equal once all white space is taken out"}),
        (
            TEN_WORDS,
            TEN_WORDS * 3,
            {
                "answer.length": "10 words → 30 words",
                "answer.wording": "the same numbers, dates, links and names",
            },
        ),
        (
            ComparedChoice("a", "stop"),
            ComparedChoice("a", "length"),
            {
                "answer.length": "cut short: finish_reason is length",
                "answer.finish": '$.response.choices[0].finish_reason: "stop" → "length"',
            },
        ),
        (
            ComparedChoice("a", other={"message": {"reasoning_content": "x"}}),
            ComparedChoice("a", other={"message": {"reasoning_content": "y"}}),
            {"answer.other": '$.response.choices[0].message.reasoning_content: "x" → "y"'},
        ),
    ],
)
def test_a_change_of_the_answer_has_its_rules_and_evidence(
    before: ComparedChoice | str | None, after: ComparedChoice | str | None, rules: dict[str, str]
) -> None:
    """Several rules may apply to one answer."""
    assert rules == _answer_rules(before, after)


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ({"result": {"tools": [{"name": "add"}]}}, "answer.tool_list"),
        ({"body": {"messages": [{}, {"result": {"prompts": []}}]}}, "answer.tool_list"),
        ({"result": {"content": [{"tools": 1}]}}, "answer.other"),
        ({"result": {"toolset": 1}}, "answer.other"),
    ],
)
def test_what_a_tool_server_offers_is_a_change_of_its_own(answer: dict[str, Any], rule: str) -> None:
    """A changed result of a tool is another rule."""
    before: dict[str, Any] = {"body": {"messages": [{}, {"result": {}}]}} if "body" in answer else {"result": {}}

    changes = compare(ComparedCall({}, ComparedAnswer((), before)), ComparedCall({}, ComparedAnswer((), answer)))

    assert [rule] == [change.rule for change in changes.changes]


def test_removed_white_space_between_numbers_matches_two_rules() -> None:
    """`10 20` and `1020` differ only in white space, and in their numbers."""
    assert ["answer.facts", "answer.space"] == list(_answer_rules("10 20", "1020"))


@pytest.mark.parametrize(
    ("before", "after", "applies"),
    [(40, 60, True), (60, 40, True), (40, 59, False), (1, 20, False), (0, 20, True), (1_000, 1_400, False)],
)
def test_the_length_rule_needs_half_as_much_again_and_twenty_words(before: int, after: int, applies: bool) -> None:
    """Both, in either direction."""
    rules = _answer_rules("so " * before, "so " * after)

    assert applies == ("answer.length" in rules)


def test_changes_come_in_the_order_of_the_rules() -> None:
    """Two reports of one change read alike."""
    changes = compare(
        ComparedCall({"temperature": 0, "model": "a", "prompt": "x"}, ComparedAnswer((ComparedChoice("5", "stop"),))),
        ComparedCall(
            {"prompt": "y", "model": "b", "temperature": 1}, ComparedAnswer((ComparedChoice("- 6", "length"),))
        ),
    ).changes

    assert sorted((change.rule for change in changes), key=list(RULES).index) == [change.rule for change in changes]
    assert all(change.sentence == RULES[change.rule] for change in changes)


def test_every_rule_is_documented_with_its_sentence() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = [line.removeprefix("### ").strip("`") for line in text.splitlines() if line.startswith("### ")]

    assert list(RULES) == headings
    assert [] == [rule for rule, sentence in RULES.items() if f"### `{rule}`\n\n{sentence}" not in text]


def test_a_long_value_is_cut_to_fit_a_line() -> None:
    """The rows have the whole value."""
    assert 40 == len(value_text("x" * 100))
    assert ("absent", "null") == (value_text(ABSENT), value_text(None))
    assert ("9007199254740993", "1") == (value_text(2**53 + 1), value_text(1.0))
