"""Requests that no recording matches, sent with the real SDKs and their default retries.

`MISSES` lists each call with the JSON path at which it differs from the call in `support.sdk_calls`, and the recorded
value at that path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import ollama
import openai
from google import genai
from google.genai import types as genai_types

from support.sdk_calls import KEY, MESSAGES

NEW_QUESTION: Any = [{"role": "user", "content": "What is the capital of Spain?"}]


def miss_openai(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        return client.chat.completions.create(model="m", messages=NEW_QUESTION)


def miss_openai_stream_async(url: str) -> Any:
    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
            return await client.chat.completions.create(model="m", messages=NEW_QUESTION, stream=True)

    return asyncio.run(ask())


def miss_responses(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        return client.responses.create(model="m", input="What is the capital of Spain?")


def miss_anthropic(url: str) -> Any:
    with anthropic.Anthropic(base_url=url, api_key=KEY) as client:
        return client.messages.create(model="m", max_tokens=9, messages=NEW_QUESTION)


def miss_anthropic_stream(url: str) -> Any:
    with (
        anthropic.Anthropic(base_url=url, api_key=KEY) as client,
        client.messages.stream(model="m", max_tokens=9, messages=NEW_QUESTION) as stream,
    ):
        return list(stream)


def miss_gemini(url: str) -> Any:
    with genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=url)) as client:
        return client.models.generate_content(model="m", contents="What is the capital of Spain?")


def miss_gemini_async(url: str) -> Any:
    """Async: through aiohttp, where it is installed."""

    async def ask() -> Any:
        options = genai_types.HttpOptions(base_url=url)
        async with genai.Client(api_key=KEY, http_options=options).aio as client:
            return await client.models.generate_content(model="m", contents="What is the capital of Spain?")

    return asyncio.run(ask())


def miss_ollama(url: str) -> Any:
    """Ollama's client does not retry."""
    client = ollama.Client(host=url)
    with client._client:
        return client.chat(model="m", messages=NEW_QUESTION)


def miss_ollama_stream(url: str) -> Any:
    client = ollama.Client(host=url)
    with client._client:
        return list(client.chat(model="m", messages=NEW_QUESTION, stream=True))


UNRECORDED_REQUESTS: list[tuple[Callable[[str], Any], str, str]] = [
    (miss_openai, "$.messages[0].content", MESSAGES[0]["content"]),
    (miss_openai_stream_async, "$.messages[0].content", MESSAGES[0]["content"]),
    (miss_responses, "$.input", "hello"),
    (miss_anthropic, "$.messages[0].content", MESSAGES[0]["content"]),
    (miss_anthropic_stream, "$.messages[0].content", MESSAGES[0]["content"]),
    (miss_gemini, "$.contents[0].parts[0].text", "hello"),
    (miss_gemini_async, "$.contents[0].parts[0].text", "hello"),
    (miss_ollama, "$.messages[0].content", MESSAGES[0]["content"]),
    (miss_ollama_stream, "$.messages[0].content", MESSAGES[0]["content"]),
]
