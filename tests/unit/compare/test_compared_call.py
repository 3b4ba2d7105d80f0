"""`compare/compared_call.py`: a trace and a snapshot of the same behaviour are the same call."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.format_examples import SPECIFIED_DOCUMENT, SPECIFIED_TRACE, full_record
from traceforge.canon import JSON
from traceforge.compare.compared_call import ComparedAnswer, ComparedCall, ComparedChoice, ToolCall


def _answer(message: dict[str, Any], **choice: Any) -> ComparedChoice:
    body = {"request": {"model": "m"}, "response": {"choices": [{"index": 0, "message": message, **choice}]}}
    answer = ComparedCall.from_trace(body).answer
    assert answer is not None
    return answer.choices[0]


def test_a_trace_gives_its_request_and_its_answer() -> None:
    """All of the request; of the answer, only the model's words and calls."""
    call = ComparedCall.from_trace(SPECIFIED_TRACE)

    assert SPECIFIED_TRACE["request"] == call.request
    assert (
        ComparedAnswer((ComparedChoice("The capital of France is Paris.", "stop"),), {}, "gpt-4-0613") == call.answer
    )


def test_a_snapshot_gives_its_request_and_its_answer() -> None:
    """Without tokens, time and the pointer to the raw response; and without what was not sent."""
    record = full_record()
    call = ComparedCall.from_snapshot(record)

    not_sent = {"declared", "gate", "gate_reason", *record["request"]["declared"]}
    assert {name: value for name, value in record["request"].items() if name not in not_sent} == call.request
    assert ComparedAnswer((ComparedChoice("AI is.", "tool_calls", "", (ToolCall("look", {}),)),)) == call.answer


def test_a_trace_and_a_snapshot_of_one_answer_are_the_same() -> None:
    """The null content of tool calls alone equals a snapshot's empty text, and ids do not count."""
    calls = [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}]
    record = copy.deepcopy(SPECIFIED_DOCUMENT["snapshots"][0])
    record["response"] |= {"content": "", "finish_reason": "tool_calls", "tool_calls": calls}
    traced = _answer(
        {"role": "assistant", "content": None, "tool_calls": [{**calls[0], "id": "call_2"}]},
        finish_reason="tool_calls",
    )

    assert ComparedAnswer((traced,)) == ComparedCall.from_snapshot(record).answer


def test_a_call_that_failed_has_no_answer() -> None:
    """Its response is null."""
    assert ComparedCall.from_trace({"request": {"model": "m"}, "response": None}).answer is None


def test_text_parts_are_joined_to_the_text() -> None:
    """A list with one text part equals that text; other parts are kept separately."""
    image = {"type": "image_url", "image_url": {"url": "x"}}

    assert ComparedChoice("ab") == _answer(
        {"content": [{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}]}
    )
    assert ComparedChoice("a", other={"message": {"content": [image]}}) == _answer(
        {"content": [image, {"type": "text", "text": "a"}]}
    )


def test_reasoning_is_kept_and_empty_fields_and_noise_are_not() -> None:
    """Noise: padding and log probabilities."""
    message = {"content": "a", "reasoning_content": "because", "annotations": [], "padding": "xx", "audio": None}

    assert ComparedChoice("a", other={"message": {"reasoning_content": "because"}}) == _answer(
        message, logprobs={"x": 1}
    )


def test_an_answer_without_choices_is_kept_unchanged() -> None:
    """An embedding is compared by its data, not by its id, model and usage."""
    response = {"object": "list", "model": "e", "data": [{"embedding": [0.5]}], "usage": {"total_tokens": 1}}

    assert (
        ComparedAnswer((), {"data": [{"embedding": [0.5]}]}, "e")
        == ComparedCall.from_trace({"request": {}, "response": response}).answer
    )


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ({"function_call": {"name": "f", "arguments": "{}"}}, ToolCall("f", {})),
        (
            {"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "x"}}]},
            ToolCall("f", "x", {"type": "custom"}),
        ),
        ({"tool_calls": [{"function": {"name": "f", "arguments": '{"a":'}}]}, ToolCall("f", '{"a":')),
        ({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}, ToolCall("f", {"a": 1})),
        ({"tool_calls": [{"function": {"name": "f", "arguments": '"\ud800"'}}]}, ToolCall("f", '"\ud800"')),
        ({"tool_calls": [{"function": {"arguments": "1"}}]}, ToolCall("", 1)),
        (
            {"tool_calls": [{"function": {"name": "pay", "arguments": '{"to":"Eve","to":"Bob"}'}}]},
            ToolCall("pay", {"to": {"[REPEATED]": ["Eve", "Bob"]}}),
        ),
        ({"tool_calls": [{"function": {"arguments": f'{{"a":{2**70}}}'}}]}, ToolCall("", {"a": 2**70})),
        ({"tool_calls": ["odd"]}, ToolCall("", "odd")),
    ],
)
def test_a_tool_call_is_a_name_and_arguments(message: dict[str, Any], call: ToolCall) -> None:
    """Arguments are JSON where their text is JSON, else text; in every dialect. No member and no digit is lost."""
    assert (call,) == _answer(message).tool_calls


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"text": "legacy", "finish_reason": "stop"}, ComparedChoice("legacy", "stop")),
        ({"message": {"content": 7}}, ComparedChoice("", other={"message": {"content": 7}})),
        ({"message": {"role": "tool", "content": "a"}}, ComparedChoice("a", other={"message": {"role": "tool"}})),
        ("odd", ComparedChoice("", other={"choice": "odd"})),
    ],
)
def test_choices_of_unusual_shape_are_kept(choice: Any, expected: ComparedChoice) -> None:
    """Such as a legacy completion."""
    answer = ComparedCall.from_trace({"request": {}, "response": {"choices": [choice]}}).answer

    assert ComparedAnswer((expected,)) == answer


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "user", "content": "first"}, {"role": "user", "content": "last"}], "last"),
        ([{"role": "user", "content": "asked"}, {"role": "tool", "content": " \n"}], "asked"),
        (
            [{"content": [{"type": "image_url"}, {"type": "text", "text": "in parts"}, {"text": "second"}]}],
            "in parts",
        ),
        ([{"role": "assistant", "tool_calls": []}, "no object"], ""),
        ("no list", ""),
    ],
)
def test_the_last_text_of_a_prompt_names_a_call(messages: JSON, expected: str) -> None:
    """Messages without a text are passed over; one in parts has its first text."""
    assert expected == ComparedCall({"messages": messages}, None).last_text
