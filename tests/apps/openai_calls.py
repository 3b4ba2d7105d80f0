"""Cases of `sdk_calls.py`: openai, with chat completions and with Responses."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from sdk_cases import (
    KEY,
    QUESTION,
    RESULT,
    SCHEMA,
    case,
    chat_messages,
    chat_results,
    chat_tools,
    join_chat_chunks,
    plain,
)

# -- openai, chat completions


@cache
def openai_client() -> Any:
    import openai

    return openai.OpenAI(base_url=f"{os.environ['OPENAI_URL']}/v1", api_key=KEY, max_retries=0)


@cache
def openai_async_client() -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=f"{os.environ['OPENAI_URL']}/v1", api_key=KEY, max_retries=0)


@case
def openai_sync_plain(model: str, tool: str) -> Any:
    return openai_client().chat.completions.create(model=model, messages=chat_messages(), temperature=0)  # call


@case
def openai_sync_stream(model: str, tool: str) -> Any:
    create = openai_client().chat.completions.create
    with create(model=model, messages=chat_messages(), stream=True) as stream:  # call
        return [plain(chunk) for chunk in stream]


@case
def openai_sync_tools(model: str, tool: str) -> Any:
    messages, tools = chat_messages(), chat_tools(tool)
    first = openai_client().chat.completions.create(model=model, messages=messages, tools=tools)  # call
    messages += chat_results(first.choices[0].message)
    return [first, openai_client().chat.completions.create(model=model, messages=messages, tools=tools)]  # call


@case
def openai_sync_tools_stream(model: str, tool: str) -> Any:
    create, messages, tools = openai_client().chat.completions.create, chat_messages(), chat_tools(tool)
    first = [plain(chunk) for chunk in create(model=model, messages=messages, tools=tools, stream=True)]  # call
    messages += chat_results(join_chat_chunks(first))
    stream = create(model=model, messages=messages, tools=tools, stream=True)  # call
    return [first, [plain(chunk) for chunk in stream]]


@case
async def openai_async_plain(model: str, tool: str) -> Any:
    return await openai_async_client().chat.completions.create(model=model, messages=chat_messages())  # call


@case
async def openai_async_stream(model: str, tool: str) -> Any:
    create = openai_async_client().chat.completions.create
    async with await create(model=model, messages=chat_messages(), stream=True) as stream:  # call
        return [plain(chunk) async for chunk in stream]


@case
async def openai_async_tools(model: str, tool: str) -> Any:
    create, messages, tools = openai_async_client().chat.completions.create, chat_messages(), chat_tools(tool)
    first = await create(model=model, messages=messages, tools=tools)  # call
    messages += chat_results(first.choices[0].message)
    return [first, await create(model=model, messages=messages, tools=tools)]  # call


@case
async def openai_async_tools_stream(model: str, tool: str) -> Any:
    create, messages, tools = openai_async_client().chat.completions.create, chat_messages(), chat_tools(tool)
    stream = await create(model=model, messages=messages, tools=tools, stream=True)  # call
    first = [plain(chunk) async for chunk in stream]
    messages += chat_results(join_chat_chunks(first))
    stream = await create(model=model, messages=messages, tools=tools, stream=True)  # call
    return [first, [plain(chunk) async for chunk in stream]]


# -- openai, Responses


def response_tools(tool: str) -> list[Any]:
    return [{"type": "function", "name": tool, "parameters": SCHEMA, "strict": False}]


def response_results(items: list[Any]) -> list[Any]:
    calls = [item for item in items if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": call["call_id"], "output": RESULT} for call in calls]
    names = ("type", "call_id", "name", "arguments")
    return [
        {"role": "user", "content": QUESTION},
        *({name: call[name] for name in names} for call in calls),
        *results,
    ]


def done_items(events: list[Any]) -> list[Any]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


@case
def responses_sync_plain(model: str, tool: str) -> Any:
    return openai_client().responses.create(model=model, input=QUESTION)  # call


@case
def responses_sync_stream(model: str, tool: str) -> Any:
    with openai_client().responses.create(model=model, input=QUESTION, stream=True) as stream:  # call
        return [plain(event) for event in stream]


@case
def responses_sync_tools(model: str, tool: str) -> Any:
    create, tools = openai_client().responses.create, response_tools(tool)
    first = create(model=model, input=QUESTION, tools=tools)  # call
    return [first, create(model=model, input=response_results(plain(first.output)), tools=tools)]  # call


@case
def responses_sync_tools_stream(model: str, tool: str) -> Any:
    create, tools = openai_client().responses.create, response_tools(tool)
    first = [plain(event) for event in create(model=model, input=QUESTION, tools=tools, stream=True)]  # call
    after = response_results(done_items(first))
    return [first, [plain(event) for event in create(model=model, input=after, tools=tools, stream=True)]]  # call


@case
async def responses_async_plain(model: str, tool: str) -> Any:
    return await openai_async_client().responses.create(model=model, input=QUESTION)  # call


@case
async def responses_async_stream(model: str, tool: str) -> Any:
    create = openai_async_client().responses.create
    async with await create(model=model, input=QUESTION, stream=True) as stream:  # call
        return [plain(event) async for event in stream]


@case
async def responses_async_tools(model: str, tool: str) -> Any:
    create, tools = openai_async_client().responses.create, response_tools(tool)
    first = await create(model=model, input=QUESTION, tools=tools)  # call
    return [first, await create(model=model, input=response_results(plain(first.output)), tools=tools)]  # call


@case
async def responses_async_tools_stream(model: str, tool: str) -> Any:
    create, tools = openai_async_client().responses.create, response_tools(tool)
    stream = await create(model=model, input=QUESTION, tools=tools, stream=True)  # call
    first = [plain(event) async for event in stream]
    stream = await create(model=model, input=response_results(done_items(first)), tools=tools, stream=True)  # call
    return [first, [plain(event) async for event in stream]]
