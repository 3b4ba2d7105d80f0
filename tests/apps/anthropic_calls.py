"""Cases of `sdk_calls.py`: anthropic."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from sdk_cases import KEY, RESULT, SCHEMA, case, chat_messages, plain


@cache
def anthropic_client() -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=os.environ["ANTHROPIC_URL"], api_key=KEY, max_retries=0)


@cache
def anthropic_async_client() -> Any:
    import anthropic

    return anthropic.AsyncAnthropic(base_url=os.environ["ANTHROPIC_URL"], api_key=KEY, max_retries=0)


def claude_body(model: str, messages: list[Any] | None = None, tool: str = "") -> dict[str, Any]:
    tools: dict[str, Any] = {"tools": [{"name": tool, "input_schema": SCHEMA}]} if tool else {}
    return {"model": model, "max_tokens": 64, "messages": messages or chat_messages(), **tools}


def claude_results(content: list[Any]) -> list[Any]:
    calls = [
        {name: block[name] for name in ("type", "id", "name", "input")}
        for block in content
        if block["type"] == "tool_use"
    ]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
    return [*chat_messages(), {"role": "assistant", "content": calls}, {"role": "user", "content": results}]


@case
def anthropic_sync_plain(model: str, tool: str) -> Any:
    return anthropic_client().messages.create(**claude_body(model))  # call


@case
def anthropic_sync_stream(model: str, tool: str) -> Any:
    with anthropic_client().messages.stream(**claude_body(model)) as stream:  # call
        return [plain(event) for event in stream]


@case
def anthropic_sync_tools(model: str, tool: str) -> Any:
    first = anthropic_client().messages.create(**claude_body(model, tool=tool))  # call
    after = claude_results(plain(first.content))
    return [first, anthropic_client().messages.create(**claude_body(model, after, tool))]  # call


@case
def anthropic_sync_tools_stream(model: str, tool: str) -> Any:
    with anthropic_client().messages.stream(**claude_body(model, tool=tool)) as stream:  # call
        first = [plain(event) for event in stream]
        after = claude_results(plain(stream.get_final_message().content))
    stream = anthropic_client().messages.create(**claude_body(model, after, tool), stream=True)  # call
    return [first, [plain(event) for event in stream]]


@case
async def anthropic_async_plain(model: str, tool: str) -> Any:
    return await anthropic_async_client().messages.create(**claude_body(model))  # call


@case
async def anthropic_async_stream(model: str, tool: str) -> Any:
    stream = await anthropic_async_client().messages.create(**claude_body(model), stream=True)  # call
    return [plain(event) async for event in stream]


@case
async def anthropic_async_tools(model: str, tool: str) -> Any:
    first = await anthropic_async_client().messages.create(**claude_body(model, tool=tool))  # call
    after = claude_results(plain(first.content))
    return [first, await anthropic_async_client().messages.create(**claude_body(model, after, tool))]  # call


@case
async def anthropic_async_tools_stream(model: str, tool: str) -> Any:
    async with anthropic_async_client().messages.stream(**claude_body(model, tool=tool)) as stream:  # call
        first = [plain(event) async for event in stream]
        after = claude_results(plain((await stream.get_final_message()).content))
    stream = await anthropic_async_client().messages.create(**claude_body(model, after, tool), stream=True)  # call
    return [first, [plain(event) async for event in stream]]
