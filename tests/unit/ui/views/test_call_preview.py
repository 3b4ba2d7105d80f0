"""What a call asked and got, in two short lines."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.ui.views.call_preview import PREVIEW_CHARS, preview_call

USER = {"role": "user", "content": "Where is\n order 1881?"}
CALL = {"id": "1", "type": "function", "function": {"name": "find_order", "arguments": '{"number": "1881"}'}}


def body(*messages: Any, answer: Any = None, **fields: Any) -> Any:
    choices = [] if answer is None else [{"message": answer}]
    return {"request": {"messages": list(messages)}, "response": {"choices": choices}, "metadata": {}, **fields}


@pytest.mark.parametrize(
    ("messages", "asked"),
    [
        ([{"role": "system", "content": "Be kind."}, USER], "Where is order 1881?"),
        ([USER, {"role": "assistant", "content": "In Lyon."}], "Where is order 1881?"),
        ([USER, {"role": "tool", "content": "Lyon"}], "Lyon"),
        ([{"role": "system", "content": "Be kind."}], "Be kind."),
        ([{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "This?"}]}], "[image] This?"),
        ([{"role": "user", "content": [{"type": "tool_result", "content": [{"text": "Lyon"}]}]}], "Lyon"),
        ([], ""),
    ],
)
def test_the_last_message_that_is_not_of_the_model_is_what_was_asked(messages: list[Any], asked: str) -> None:
    assert asked == preview_call(body(*messages)).request


@pytest.mark.parametrize(
    ("made", "answered"),
    [
        (body(USER, answer={"content": "In Lyon."}), "In Lyon."),
        (body(USER, answer={"content": None, "tool_calls": [CALL]}), 'find_order({"number": "1881"})'),
        (body(USER, metadata={"error": {"message": "overloaded"}}), "overloaded"),
        (body(USER, metadata={"error": "overloaded"}), "overloaded"),
        (body(USER), ""),
    ],
)
def test_the_answer_is_a_text_a_tool_call_or_an_error(made: Any, answered: str) -> None:
    assert answered == preview_call(made).answer


def test_a_request_without_messages_shows_its_prompt() -> None:
    assert "Once" == preview_call({"request": {"prompt": "Once"}, "response": None}).request
    assert "a" == preview_call({"request": {"input": ["a", "b"]}, "response": None}).request


@pytest.mark.parametrize(
    ("request_body", "response", "preview"),
    [
        (
            {"method": "tools/call", "params": {"name": "find", "arguments": {"q": 1}}},
            {"result": {"content": [{"type": "text", "text": "Lyon"}]}},
            ('find({"q":1})', "Lyon"),
        ),
        ({"method": "tools/list"}, {"result": {"tools": []}}, ("", "")),
        ({"tool": "find", "arguments": {"q": 1}}, {"result": "Lyon"}, ('find({"q":1})', "Lyon")),
        ({"tool": "find", "arguments": {}}, {"result": {"content": "x", "n": 1}}, ("find({})", "x")),
        ({}, {"id": "batch_1", "status": "in_progress"}, ("", "in_progress")),
        ({"method": "tools/call", "params": 7}, {"result": 7, "status": 7}, ("", "")),
    ],
)
def test_a_call_of_a_tool_and_a_poll_say_what_they_got(
    request_body: Any, response: Any, preview: tuple[str, str]
) -> None:
    """Rows that differ in nothing else would all look alike."""
    assert preview == preview_call({"request": request_body, "response": response, "metadata": {}})


def test_a_long_text_is_cut() -> None:
    preview = preview_call(body({"role": "user", "content": "word " * 1_000_000}))

    assert PREVIEW_CHARS == len(preview.request)
    assert preview.request.endswith("…")


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], [[]], {"content": 1}])
def test_a_field_of_another_type_is_left_out(value: Any) -> None:
    for made in (
        {"request": value, "response": value, "metadata": value},
        body(value, answer=value),
        body(
            {"role": value, "content": value, "tool_calls": value}, answer={"content": value, "tool_calls": [value]}
        ),
        {"request": {"prompt": value, "input": value}, "response": {"choices": value}},
    ):
        preview_call(made)
