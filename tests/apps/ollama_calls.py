"""Cases of `sdk_calls.py`: ollama."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from sdk_cases import RESULT, case, chat_messages, chat_tools, plain


@cache
def ollama_client() -> Any:
    import ollama

    return ollama.Client(host=os.environ["OLLAMA_URL"])


@cache
def ollama_async_client() -> Any:
    import ollama

    return ollama.AsyncClient(host=os.environ["OLLAMA_URL"])


def ollama_results(parts: list[Any]) -> list[Any]:
    calls = [call for part in parts for call in part["message"].get("tool_calls") or []]
    results = [{"role": "tool", "tool_name": call["function"]["name"], "content": RESULT} for call in calls]
    return [*chat_messages(), {"role": "assistant", "tool_calls": calls}, *results]


@case
def ollama_sync_plain(model: str, tool: str) -> Any:
    return ollama_client().chat(model=model, messages=chat_messages(), options={"temperature": 0, "seed": 1})  # call


@case
def ollama_sync_stream(model: str, tool: str) -> Any:
    return [plain(part) for part in ollama_client().chat(model=model, messages=chat_messages(), stream=True)]  # call


@case
def ollama_sync_tools(model: str, tool: str) -> Any:
    chat, tools = ollama_client().chat, chat_tools(tool)
    first = plain(chat(model=model, messages=chat_messages(), tools=tools))  # call
    return [first, chat(model=model, messages=ollama_results([first]), tools=tools)]  # call


@case
def ollama_sync_tools_stream(model: str, tool: str) -> Any:
    chat, tools = ollama_client().chat, chat_tools(tool)
    first = [plain(part) for part in chat(model=model, messages=chat_messages(), tools=tools, stream=True)]  # call
    after = ollama_results(first)
    return [first, [plain(part) for part in chat(model=model, messages=after, tools=tools, stream=True)]]  # call


@case
async def ollama_async_plain(model: str, tool: str) -> Any:
    return await ollama_async_client().chat(model=model, messages=chat_messages())  # call


@case
async def ollama_async_stream(model: str, tool: str) -> Any:
    stream = await ollama_async_client().chat(model=model, messages=chat_messages(), stream=True)
    return [plain(part) async for part in stream]  # call


@case
async def ollama_async_tools(model: str, tool: str) -> Any:
    chat, tools = ollama_async_client().chat, chat_tools(tool)
    first = plain(await chat(model=model, messages=chat_messages(), tools=tools))  # call
    return [first, await chat(model=model, messages=ollama_results([first]), tools=tools)]  # call


@case
async def ollama_async_tools_stream(model: str, tool: str) -> Any:
    chat, tools = ollama_async_client().chat, chat_tools(tool)
    stream = await chat(model=model, messages=chat_messages(), tools=tools, stream=True)
    first = [plain(part) async for part in stream]  # call
    stream = await chat(model=model, messages=ollama_results(first), tools=tools, stream=True)
    return [first, [plain(part) async for part in stream]]  # call
