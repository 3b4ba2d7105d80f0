"""Further cases of `sdk_calls`: LangChain and pydantic-ai, on top of the SDKs. They run their own loop of tools."""

from __future__ import annotations

import json
import os
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from sdk_cases import KEY, QUESTION, RESULT, SCHEMA, case, plain

# -- LangChain


def chat_model(model: str, tool: str = "") -> Any:
    """A chat model of LangChain, with a tool where one is named."""
    chat: Any
    if "anthropic" in model:
        chat = ChatAnthropic(
            model=model, base_url=os.environ["ANTHROPIC_URL"], api_key=KEY, max_tokens=64, max_retries=0
        )
    else:
        # Without `base_url`, as most applications have it: only then LangChain requests the usage of a stream.
        chat = ChatOpenAI(model=model, api_key=KEY, max_retries=0)
        chat.root_client.base_url = chat.root_async_client.base_url = f"{os.environ['OPENAI_URL']}/v1"
    declared = {"type": "function", "function": {"name": tool, "description": "looks", "parameters": SCHEMA}}
    return chat.bind_tools([declared]) if tool else chat


def results(message: Any) -> list[Any]:
    """The question, the message that calls tools, and the results of the tools."""
    tool_messages = [ToolMessage(RESULT, tool_call_id=call["id"]) for call in message.tool_calls]
    return [HumanMessage(QUESTION), message, *tool_messages]


def join_chunks(chunks: list[Any]) -> Any:
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    return message


def sync_plain(model: str, tool: str) -> Any:
    return chat_model(model).invoke(QUESTION)  # call


def sync_stream(model: str, tool: str) -> Any:
    return [plain(chunk) for chunk in chat_model(model).stream(QUESTION)]  # call


def sync_tools(model: str, tool: str) -> Any:
    first = chat_model(model, tool).invoke(QUESTION)  # call
    return [first, chat_model(model, tool).invoke(results(first))]  # call


def sync_tools_stream(model: str, tool: str) -> Any:
    first = join_chunks(list(chat_model(model, tool).stream(QUESTION)))  # call
    return [first, list(chat_model(model, tool).stream(results(first)))]  # call


async def async_plain(model: str, tool: str) -> Any:
    return await chat_model(model).ainvoke(QUESTION)  # call


async def async_stream(model: str, tool: str) -> Any:
    return [plain(chunk) async for chunk in chat_model(model).astream(QUESTION)]  # call


async def async_tools(model: str, tool: str) -> Any:
    first = await chat_model(model, tool).ainvoke(QUESTION)  # call
    return [first, await chat_model(model, tool).ainvoke(results(first))]  # call


async def async_tools_stream(model: str, tool: str) -> Any:
    first = join_chunks([chunk async for chunk in chat_model(model, tool).astream(QUESTION)])  # call
    return [first, [chunk async for chunk in chat_model(model, tool).astream(results(first))]]  # call


# -- pydantic-ai


def make_agent(model: str, tool: str) -> Any:
    """An agent with a tool, which it calls itself."""
    tools = [Tool.from_schema(run_tool, name=tool, description="looks", json_schema=SCHEMA)] if tool else []
    chat: Any
    if "anthropic" in model:
        chat = AnthropicModel(model, provider=AnthropicProvider(base_url=os.environ["ANTHROPIC_URL"], api_key=KEY))
    else:
        kind = OpenAIResponsesModel if "responses" in model else OpenAIChatModel
        chat = kind(model, provider=OpenAIProvider(base_url=f"{os.environ['OPENAI_URL']}/v1", api_key=KEY))
    return Agent(chat, tools=tools, retries=0)


def run_tool(**arguments: Any) -> str:
    return RESULT


def agent_sync_plain(model: str, tool: str) -> Any:
    return run_messages(make_agent(model, "").run_sync(QUESTION))  # call


def agent_sync_stream(model: str, tool: str) -> Any:
    stream = make_agent(model, "").run_stream_sync(QUESTION)  # call
    return list(stream.stream_text(delta=True, debounce_by=None))


def agent_sync_tools(model: str, tool: str) -> Any:
    return run_messages(make_agent(model, tool).run_sync(QUESTION))  # call


def agent_sync_tools_stream(model: str, tool: str) -> Any:
    stream = make_agent(model, tool).run_stream_sync(QUESTION)  # call
    return list(stream.stream_text(delta=True, debounce_by=None))


async def agent_async_plain(model: str, tool: str) -> Any:
    return run_messages(await make_agent(model, "").run(QUESTION))  # call


async def agent_async_stream(model: str, tool: str) -> Any:
    async with make_agent(model, "").run_stream(QUESTION) as stream:  # call
        return [text async for text in stream.stream_text(delta=True, debounce_by=None)]


async def agent_async_tools(model: str, tool: str) -> Any:
    return run_messages(await make_agent(model, tool).run(QUESTION))  # call


async def agent_async_tools_stream(model: str, tool: str) -> Any:
    async with make_agent(model, tool).run_stream(QUESTION) as stream:  # call
        return [text async for text in stream.stream_text(delta=True, debounce_by=None)]


def run_messages(run: Any) -> Any:
    """The output and all messages of a run."""
    return [run.output, plain(json.loads(run.all_messages_json()))]


HOW = ("sync_plain", "sync_stream", "sync_tools", "sync_tools_stream",
       "async_plain", "async_stream", "async_tools", "async_tools_stream")  # fmt: skip
for how in HOW:
    for prefix in ("langchain-openai", "langchain-anthropic"):
        case(globals()[how], f"{prefix}-{how}")
    for prefix in ("pydantic-openai", "pydantic-responses", "pydantic-anthropic"):
        case(globals()[f"agent_{how}"], f"{prefix}-{how}")
