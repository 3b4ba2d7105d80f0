"""`context/responses/openai_shape/`: what OpenAI's own SDK sends is understood, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.context.model.block_source import kind_of
from traceforge.context.model.content import ContentBlock
from traceforge.context.responses.openai_shape import read_chat, read_responses, to_items
from traceforge.context.responses.rr_1 import render_prompt
from traceforge.errors import StoreRefused
from traceforge.wire.endpoints import Dialect

RESPONSES = read_responses({"model": "support-bot", "input": "Hi", "temperature": 0, "metadata": {"a": "b"}})
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":1}'}}


def test_a_chat_request_is_messages_and_parameters() -> None:
    """Fields for OpenAI's own accounting, and fields read elsewhere, are not passed on."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    chat_request = read_chat(
        {
            "model": "bot",
            "messages": messages,
            "temperature": 0.5,
            "stop": "END",
            "max_completion_tokens": 9,
            "stream": True,
            "stream_options": {"include_usage": True},
            "store": True,
            "user": "ada",
            "n": 1,
            "seed": None,
        }
    )

    assert ("bot", messages, True, True) == (
        chat_request.model,
        chat_request.messages,
        chat_request.stream,
        chat_request.include_usage,
    )
    assert {
        "temperature": 0.5,
        "stop": ["END"],
        "max_completion_tokens": 9,
        "max_tokens": 9,
    } == chat_request.parameters


def test_a_request_of_responses_is_that_of_a_chat() -> None:
    """Items become messages, calls of one answer one message, and the words of Responses those of a chat."""
    responses = read_responses(
        {
            "model": "bot",
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "This:"},
                        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
                    ],
                },
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "msg_1",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
                },
                {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"},
                {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "A cat."},
                {"type": "function_call_output", "call_id": "c2", "output": "Noon."},
            ],
            "tools": [{"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": None}],
            "tool_choice": {"type": "function", "name": "look_up"},
            "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}},
            "reasoning": {"effort": "low"},
            "max_output_tokens": 7,
            "parallel_tool_calls": False,
            "truncation": "disabled",
        }
    )

    def call(call_id: str, name: str) -> Any:
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}

    assert responses.messages == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "What is it?"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "This:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        },
        {"role": "assistant", "content": "I look.", "tool_calls": [call("c1", "look_up"), call("c2", "now")]},
        {"role": "tool", "tool_call_id": "c1", "content": "A cat."},
        {"role": "tool", "tool_call_id": "c2", "content": "Noon."},
    ]
    assert responses.parameters == {
        "max_tokens": 7,
        "tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        "reasoning_effort": "low",
    }
    assert [{"role": "user", "content": "Hi"}] == RESPONSES.messages


@pytest.mark.parametrize(
    ("read", "body", "param"),
    [
        (read_chat, [], None),
        (read_chat, {"messages": [{"role": "user", "content": "Hi"}]}, "model"),
        (read_chat, {"model": "", "messages": [{"role": "user", "content": "Hi"}]}, "model"),
        (read_chat, {"model": "m"}, "messages"),
        (read_chat, {"model": "m", "messages": []}, "messages"),
        (read_chat, {"model": "m", "messages": ["Hi"]}, "messages"),
        (read_chat, {"model": "m", "messages": "Hi"}, "messages"),
        (read_chat, {"model": "m", "messages": [{"content": "Hi"}]}, "messages[0].role"),
        (read_chat, {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "n": 2}, "n"),
        (read_chat, {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "n": True}, "n"),
        (read_chat, {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": 1}, "stream"),
        (read_chat, {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": "yes"}, "stream"),
        (read_chat, {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": "x"}, "tools"),
        (
            read_chat,
            {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "response_format": "json"},
            "response_format",
        ),
        (read_responses, {"model": "m", "input": "Hi", "instructions": 5}, "instructions"),
        (read_responses, {"model": "m", "input": [{"type": "reasoning", "id": "x", "summary": []}]}, "input"),
        (read_responses, {"model": "m", "input": ""}, "input"),
        (read_responses, {"model": "m", "input": [1]}, "input"),
        (read_responses, {"model": "m", "input": "Hi", "previous_response_id": "resp_1"}, "previous_response_id"),
        (read_responses, {"model": "m", "input": "Hi", "background": True}, "background"),
        (read_responses, {"model": "m", "input": "Hi", "background": 0}, "background"),
        (read_responses, {"model": "m", "input": "Hi", "conversation": 0}, "conversation"),
        (read_responses, {"model": "m", "input": "Hi", "tools": [{"type": "web_search"}]}, "tools[0].type"),
        (read_responses, {"model": "m", "input": "Hi", "tool_choice": {"type": "mcp"}}, "tool_choice"),
        (read_chat, {"model": "m", "messages": [{"role": "function", "content": "Hi"}]}, "messages[0].role"),
        (read_chat, {"model": "m", "messages": [{"role": "user"}]}, "messages[0].content"),
        (read_chat, {"model": "m", "messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        (read_chat, {"model": "m", "messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (read_responses, {"model": "m", "input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        (read_responses, {"model": "m", "input": [{"type": "web_search_call"}]}, "input[0].type"),
        (read_responses, {"model": "m", "input": [{"role": "user", "content": None}]}, "input[0].content"),
        (
            read_responses,
            {"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input",
        ),
    ],
)
def test_an_unsupported_option_is_refused_by_name(read: Any, body: Any, param: str | None) -> None:
    """With the field that it is about, as OpenAI's errors have it."""
    with pytest.raises(StoreRefused) as refused:
        read(body)

    assert ("invalid_request", 400, param) == (refused.value.reason, refused.value.status, refused.value.param)


MESSAGES: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where?", "name": "ada"},
    {"role": "developer", "content": "In one word."},
    {"role": "user", "content": [{"type": "text", "text": "Here?"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "Paris"},
    {"role": "assistant", "content": "There."},
    {"role": "user", "content": '{"content": "no message"}'},
]


def test_messages_that_are_stored_are_rendered_as_they_were() -> None:
    """Also where a system speaks in the middle, and where a text looks like a message."""
    blocks = [
        ContentBlock(f"blk_{place:026d}", item.role, kind_of("text_context", item.content), item.content)
        for place, item in enumerate(to_items(MESSAGES))
    ]

    assert MESSAGES == render_prompt(blocks, Dialect.OPENAI).messages
