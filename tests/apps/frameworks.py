"""More ways to ask: LangChain and pydantic-ai, on top of the SDKs. They run their own loop of tools."""

from __future__ import annotations

import json
import os
from typing import Any

from asks import KEY, QUESTION, RESULT, SCHEMA, case, plain
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

# -- LangChain


def chain(model: str, tool: str = "") -> Any:
    """A chat model of LangChain, perhaps with a tool."""
    made: Any
    if "anthropic" in model:
        made = ChatAnthropic(
            model=model, base_url=os.environ["ANTHROPIC_URL"], api_key=KEY, max_tokens=64, max_retries=0
        )
    else:
        # As an application that names no address: then LangChain asks for the usage of a stream.
        made = ChatOpenAI(model=model, api_key=KEY, max_retries=0)
        made.root_client.base_url = made.root_async_client.base_url = f"{os.environ['OPENAI_URL']}/v1"
    declared = {"type": "function", "function": {"name": tool, "description": "looks", "parameters": SCHEMA}}
    return made.bind_tools([declared]) if tool else made


def results(message: Any) -> list[Any]:
    """The question, the message that calls tools, and what they found."""
    found = [ToolMessage(RESULT, tool_call_id=call["id"]) for call in message.tool_calls]
    return [HumanMessage(QUESTION), message, *found]


def joined(chunks: list[Any]) -> Any:
    """A stream's chunks, added up."""
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole


def sync_plain(model: str, tool: str) -> Any:
    return chain(model).invoke(QUESTION)  # asks


def sync_stream(model: str, tool: str) -> Any:
    return [plain(chunk) for chunk in chain(model).stream(QUESTION)]  # asks


def sync_tools(model: str, tool: str) -> Any:
    first = chain(model, tool).invoke(QUESTION)  # asks
    return [first, chain(model, tool).invoke(results(first))]  # asks


def sync_tools_stream(model: str, tool: str) -> Any:
    first = joined(list(chain(model, tool).stream(QUESTION)))  # asks
    return [first, list(chain(model, tool).stream(results(first)))]  # asks


async def async_plain(model: str, tool: str) -> Any:
    return await chain(model).ainvoke(QUESTION)  # asks


async def async_stream(model: str, tool: str) -> Any:
    return [plain(chunk) async for chunk in chain(model).astream(QUESTION)]  # asks


async def async_tools(model: str, tool: str) -> Any:
    first = await chain(model, tool).ainvoke(QUESTION)  # asks
    return [first, await chain(model, tool).ainvoke(results(first))]  # asks


async def async_tools_stream(model: str, tool: str) -> Any:
    first = joined([chunk async for chunk in chain(model, tool).astream(QUESTION)])  # asks
    return [first, [chunk async for chunk in chain(model, tool).astream(results(first))]]  # asks


# -- pydantic-ai


def make_agent(model: str, tool: str) -> Any:
    """An agent with a tool; it calls the tool by itself."""
    tools = [Tool.from_schema(look, name=tool, description="looks", json_schema=SCHEMA)] if tool else []
    made: Any
    if "anthropic" in model:
        made = AnthropicModel(model, provider=AnthropicProvider(base_url=os.environ["ANTHROPIC_URL"], api_key=KEY))
    else:
        kind = OpenAIResponsesModel if "responses" in model else OpenAIChatModel
        made = kind(model, provider=OpenAIProvider(base_url=f"{os.environ['OPENAI_URL']}/v1", api_key=KEY))
    return Agent(made, tools=tools, retries=0)


def look(**arguments: Any) -> str:
    """What the tool does."""
    return RESULT


def agent_sync_plain(model: str, tool: str) -> Any:
    return said(make_agent(model, "").run_sync(QUESTION))  # asks


def agent_sync_stream(model: str, tool: str) -> Any:
    stream = make_agent(model, "").run_stream_sync(QUESTION)  # asks
    return list(stream.stream_text(delta=True, debounce_by=None))


def agent_sync_tools(model: str, tool: str) -> Any:
    return said(make_agent(model, tool).run_sync(QUESTION))  # asks


def agent_sync_tools_stream(model: str, tool: str) -> Any:
    stream = make_agent(model, tool).run_stream_sync(QUESTION)  # asks
    return list(stream.stream_text(delta=True, debounce_by=None))


async def agent_async_plain(model: str, tool: str) -> Any:
    return said(await make_agent(model, "").run(QUESTION))  # asks


async def agent_async_stream(model: str, tool: str) -> Any:
    async with make_agent(model, "").run_stream(QUESTION) as stream:  # asks
        return [text async for text in stream.stream_text(delta=True, debounce_by=None)]


async def agent_async_tools(model: str, tool: str) -> Any:
    return said(await make_agent(model, tool).run(QUESTION))  # asks


async def agent_async_tools_stream(model: str, tool: str) -> Any:
    async with make_agent(model, tool).run_stream(QUESTION) as stream:  # asks
        return [text async for text in stream.stream_text(delta=True, debounce_by=None)]


def said(run: Any) -> Any:
    """Everything that was said in a run."""
    return [run.output, plain(json.loads(run.all_messages_json()))]


HOW = ("sync_plain", "sync_stream", "sync_tools", "sync_tools_stream",
       "async_plain", "async_stream", "async_tools", "async_tools_stream")  # fmt: skip
for how in HOW:
    for prefix in ("langchain-openai", "langchain-anthropic"):
        case(globals()[how], f"{prefix}-{how}")
    for prefix in ("pydantic-openai", "pydantic-responses", "pydantic-anthropic"):
        case(globals()[f"agent_{how}"], f"{prefix}-{how}")
