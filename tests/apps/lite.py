"""More ways to ask: litellm, which speaks to each provider itself; through aiohttp when it is awaited."""

from __future__ import annotations

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one at its import

import litellm
from asks import KEY, case, chat_assembled, chat_messages, chat_results, chat_tools, plain

litellm.suppress_debug_info = True  # it would print it
VOLATILE = ("id", "created", "provider_specific_fields")


def to(model: str) -> dict[str, Any]:
    """Where a model is, and how litellm calls it."""
    if "anthropic" in model:
        return {
            "model": f"anthropic/{model}",
            "api_base": os.environ["ANTHROPIC_URL"],
            "api_key": KEY,
            "max_tokens": 64,
        }
    return {"model": f"openai/{model}", "api_base": f"{os.environ['OPENAI_URL']}/v1", "api_key": KEY}


def stable(value: Any) -> Any:
    """Without what litellm makes up each time."""
    value = plain(value)
    return {name: one for name, one in value.items() if name not in VOLATILE}


def sync_plain(model: str, tool: str) -> Any:
    return stable(litellm.completion(**to(model), messages=chat_messages()))  # asks


def sync_stream(model: str, tool: str) -> Any:
    return [stable(chunk) for chunk in litellm.completion(**to(model), messages=chat_messages(), stream=True)]  # asks


def sync_tools(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    first = litellm.completion(**to(model), messages=chat_messages(), tools=tools)  # asks
    after = [*chat_messages(), *chat_results(first.choices[0].message)]
    return [stable(first), stable(litellm.completion(**to(model), messages=after, tools=tools))]  # asks


def sync_tools_stream(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    stream: Any = litellm.completion(**to(model), messages=chat_messages(), tools=tools, stream=True)  # asks
    first = [stable(one) for one in stream]
    after = [*chat_messages(), *chat_results(chat_assembled(first))]
    stream = litellm.completion(**to(model), messages=after, tools=tools, stream=True)  # asks
    return [first, [stable(one) for one in stream]]


async def async_plain(model: str, tool: str) -> Any:
    return stable(await litellm.acompletion(**to(model), messages=chat_messages()))  # asks


async def async_stream(model: str, tool: str) -> Any:
    stream: Any = await litellm.acompletion(**to(model), messages=chat_messages(), stream=True)  # asks
    return [stable(chunk) async for chunk in stream]


async def async_tools(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    first: Any = await litellm.acompletion(**to(model), messages=chat_messages(), tools=tools)  # asks
    after = [*chat_messages(), *chat_results(first.choices[0].message)]
    return [stable(first), stable(await litellm.acompletion(**to(model), messages=after, tools=tools))]  # asks


async def async_tools_stream(model: str, tool: str) -> Any:
    tools = chat_tools(tool)
    stream: Any = await litellm.acompletion(**to(model), messages=chat_messages(), tools=tools, stream=True)  # asks
    first = [stable(one) async for one in stream]
    after = [*chat_messages(), *chat_results(chat_assembled(first))]
    stream = await litellm.acompletion(**to(model), messages=after, tools=tools, stream=True)  # asks
    return [first, [stable(one) async for one in stream]]


for how in ("plain", "stream", "tools", "tools_stream"):
    for prefix in ("litellm-openai", "litellm-anthropic"):
        case(globals()[f"sync_{how}"], f"{prefix}-sync_{how}")
        case(globals()[f"async_{how}"], f"{prefix}-async_{how}")
