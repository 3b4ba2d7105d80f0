"""Cases of `sdk_calls.py`: google-genai."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from sdk_cases import KEY, QUESTION, RESULT, SCHEMA, case, plain


@cache
def gemini_client() -> Any:
    from google import genai

    return genai.Client(api_key=KEY, http_options={"base_url": os.environ["GEMINI_URL"]})


@cache
def gemini_async_client() -> Any:
    """Not the synchronous one, which has no event loop; uses aiohttp where it is installed."""
    from google import genai

    return genai.Client(api_key=KEY, http_options={"base_url": os.environ["GEMINI_URL"]}).aio


def gemini_config(tool: str) -> Any:
    declared = {"name": tool, "parameters_json_schema": SCHEMA}
    return {"temperature": 0, "tools": [{"function_declarations": [declared]}]}


def gemini_results(responses: list[Any]) -> list[Any]:
    parts = [
        part
        for response in responses
        for part in response["candidates"][0]["content"]["parts"] or []
        if part.get("function_call")
    ]
    names = [part["function_call"]["name"] for part in parts]
    results = [{"function_response": {"name": name, "response": json.loads(RESULT)}} for name in names]
    calls = [{"function_call": {"name": name, "args": {}}} for name in names]
    question = {"role": "user", "parts": [{"text": QUESTION}]}
    return [question, {"role": "model", "parts": calls}, {"role": "user", "parts": results}]


@case
def gemini_sync_plain(model: str, tool: str) -> Any:
    return gemini_client().models.generate_content(model=model, contents=QUESTION)  # call


@case
def gemini_sync_stream(model: str, tool: str) -> Any:
    stream = gemini_client().models.generate_content_stream(model=model, contents=QUESTION)
    return [plain(part) for part in stream]  # call


@case
def gemini_sync_tools(model: str, tool: str) -> Any:
    send, config = gemini_client().models.generate_content, gemini_config(tool)
    first = plain(send(model=model, contents=QUESTION, config=config))  # call
    return [first, send(model=model, contents=gemini_results([first]), config=config)]  # call


@case
def gemini_sync_tools_stream(model: str, tool: str) -> Any:
    send, config = gemini_client().models.generate_content_stream, gemini_config(tool)
    first = [plain(part) for part in send(model=model, contents=QUESTION, config=config)]  # call
    return [first, [plain(part) for part in send(model=model, contents=gemini_results(first), config=config)]]  # call


@case
async def gemini_async_plain(model: str, tool: str) -> Any:
    return await gemini_async_client().models.generate_content(model=model, contents=QUESTION)  # call


@case
async def gemini_async_stream(model: str, tool: str) -> Any:
    stream = await gemini_async_client().models.generate_content_stream(model=model, contents=QUESTION)
    return [plain(part) async for part in stream]  # call


@case
async def gemini_async_tools(model: str, tool: str) -> Any:
    send, config = gemini_async_client().models.generate_content, gemini_config(tool)
    first = plain(await send(model=model, contents=QUESTION, config=config))  # call
    return [first, await send(model=model, contents=gemini_results([first]), config=config)]  # call


@case
async def gemini_async_tools_stream(model: str, tool: str) -> Any:
    send, config = gemini_async_client().models.generate_content_stream, gemini_config(tool)
    stream = await send(model=model, contents=QUESTION, config=config)
    first = [plain(part) async for part in stream]  # call
    stream = await send(model=model, contents=gemini_results(first), config=config)
    return [first, [plain(part) async for part in stream]]  # call
