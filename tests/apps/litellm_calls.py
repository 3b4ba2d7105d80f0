"""Further cases of `sdk_calls`: litellm, which calls each provider itself, through aiohttp in asynchronous cases."""

from __future__ import annotations

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # without it, the import fetches one

import litellm
from sdk_cases import KEY, case, chat_messages, chat_results, chat_tools, join_chat_chunks, plain

litellm.suppress_debug_info = True  # which it would print
VOLATILE = ("id", "created", "provider_specific_fields")


def target(model: str) -> dict[str, Any]:
    """The model's address, and its name for litellm."""
    if "anthropic" in model:
        return {
            "model": f"anthropic/{model}",
            "api_base": os.environ["ANTHROPIC_URL"],
            "api_key": KEY,
            "max_tokens": 64,
        }
    return {"model": f"openai/{model}", "api_base": f"{os.environ['OPENAI_URL']}/v1", "api_key": KEY}


def stable(value: Any) -> Any:
    """The value without the fields that differ in every run."""
    value = plain(value)
    return {name: item for name, item in value.items() if name not in VOLATILE}


def sync_plain(model: str, tool: str) -> Any:
    return stable(litellm.completion(**target(model), messages=chat_messages()))  # call


def sync_stream(model: str, tool: str) -> Any:
    stream: Any = litellm.completion(**target(model), messages=chat_messages(), stream=True)  # call
    return [stable(chunk) for chunk in stream]


def sync_tools(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    first = litellm.completion(**target(model), messages=chat_messages(), tools=tools)  # call
    after = [*chat_messages(), *chat_results(first.choices[0].message)]
    return [stable(first), stable(litellm.completion(**target(model), messages=after, tools=tools))]  # call


def sync_tools_stream(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    stream: Any = litellm.completion(**target(model), messages=chat_messages(), tools=tools, stream=True)  # call
    first = [stable(chunk) for chunk in stream]
    after = [*chat_messages(), *chat_results(join_chat_chunks(first))]
    stream = litellm.completion(**target(model), messages=after, tools=tools, stream=True)  # call
    return [first, [stable(chunk) for chunk in stream]]


async def async_plain(model: str, tool: str) -> Any:
    return stable(await litellm.acompletion(**target(model), messages=chat_messages()))  # call


async def async_stream(model: str, tool: str) -> Any:
    stream: Any = await litellm.acompletion(**target(model), messages=chat_messages(), stream=True)  # call
    return [stable(chunk) async for chunk in stream]


async def async_tools(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    first: Any = await litellm.acompletion(**target(model), messages=chat_messages(), tools=tools)  # call
    after = [*chat_messages(), *chat_results(first.choices[0].message)]
    return [stable(first), stable(await litellm.acompletion(**target(model), messages=after, tools=tools))]  # call


async def async_tools_stream(model: str, tool: str) -> Any:
    messages, tools = chat_messages(), chat_tools(tool)
    stream: Any = await litellm.acompletion(**target(model), messages=messages, tools=tools, stream=True)  # call
    first = [stable(chunk) async for chunk in stream]
    after = [*chat_messages(), *chat_results(join_chat_chunks(first))]
    stream = await litellm.acompletion(**target(model), messages=after, tools=tools, stream=True)  # call
    return [first, [stable(chunk) async for chunk in stream]]


for how in ("plain", "stream", "tools", "tools_stream"):
    for prefix in ("litellm-openai", "litellm-anthropic"):
        case(globals()[f"sync_{how}"], f"{prefix}-sync_{how}")
        case(globals()[f"async_{how}"], f"{prefix}-async_{how}")
