"""Calls made with the real SDKs, one per provider and call style, so that one test can cover them all.

Every call goes to a base URL and returns the SDK's result as plain values that can be compared. A callback receives
each event of a stream as it arrives.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import ollama
import openai
from google import genai
from google.genai import types as genai_types

MESSAGES: Any = [{"role": "user", "content": "What is the capital of France?"}]
TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
EventCallback = Callable[[Any], object]
KEY = "sk-test"


class SdkCall(NamedTuple):
    """One SDK, API and call style."""

    name: str
    provider: str
    path: str
    streaming: bool
    call: Callable[[str, EventCallback], Any]


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


def _each(events: Any, on_event: EventCallback) -> list[Any]:
    results = []
    for event in events:
        results.append(_plain(event))
        on_event(event)
    return results


async def _each_async(events: Any, on_event: EventCallback) -> list[Any]:
    results = []
    async for event in events:
        results.append(_plain(event))
        on_event(event)
    return results


def openai_chat(url: str, on_event: EventCallback) -> Any:
    """Chat completions, with a tool."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        return _plain(client.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS, temperature=0))


def openai_chat_stream(url: str, on_event: EventCallback) -> Any:
    """The same as a stream."""
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
        client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream,
    ):
        return _each(stream, on_event)


def openai_chat_async(url: str, on_event: EventCallback) -> Any:
    """Async."""

    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            return _plain(await client.chat.completions.create(model="m", messages=MESSAGES))

    return asyncio.run(ask())


def openai_chat_stream_async(url: str, on_event: EventCallback) -> Any:
    """An async stream."""

    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            async with stream:
                return await _each_async(stream, on_event)

    return asyncio.run(ask())


def openai_responses(url: str, on_event: EventCallback) -> Any:
    """The Responses API."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        return _plain(client.responses.create(model="m", input="hello"))


def openai_responses_stream(url: str, on_event: EventCallback) -> Any:
    """The same as a stream."""
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
        client.responses.create(model="m", input="hello", stream=True) as stream,
    ):
        return _each(stream, on_event)


def anthropic_messages(url: str, on_event: EventCallback) -> Any:
    """Messages."""
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        return _plain(client.messages.create(model="m", max_tokens=9, messages=MESSAGES))


def anthropic_messages_stream(url: str, on_event: EventCallback) -> Any:
    """The same as a stream, through the helper that gathers it."""
    with (
        anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream,
    ):
        return _each(stream, on_event)


def anthropic_messages_async(url: str, on_event: EventCallback) -> Any:
    """Async."""

    async def ask() -> Any:
        async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
            return _plain(await client.messages.create(model="m", max_tokens=9, messages=MESSAGES))

    return asyncio.run(ask())


def anthropic_messages_stream_async(url: str, on_event: EventCallback) -> Any:
    """An async stream."""

    async def ask() -> Any:
        async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
            stream = await client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True)
            return await _each_async(stream, on_event)

    return asyncio.run(ask())


def _gemini(url: str) -> genai.Client:
    return genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=url))


def gemini(url: str, on_event: EventCallback) -> Any:
    """Generate content."""
    with _gemini(url) as client:
        return _without_http(client.models.generate_content(model="m", contents="hello"))


def gemini_stream(url: str, on_event: EventCallback) -> Any:
    """The same as a stream."""
    results = []
    with _gemini(url) as client:
        for event in client.models.generate_content_stream(model="m", contents="hello"):
            results.append(_without_http(event))
            on_event(event)
    return results


def gemini_async(url: str, on_event: EventCallback) -> Any:
    """Async: through aiohttp, where it is installed."""

    async def ask() -> Any:
        async with _gemini(url).aio as client:
            return _without_http(await client.models.generate_content(model="m", contents="hello"))

    return asyncio.run(ask())


def gemini_stream_async(url: str, on_event: EventCallback) -> Any:
    """An async stream."""

    async def ask() -> Any:
        results = []
        async with _gemini(url).aio as client:
            async for event in await client.models.generate_content_stream(model="m", contents="hello"):
                results.append(_without_http(event))
                on_event(event)
        return results

    return asyncio.run(ask())


def _without_http(response: Any) -> Any:
    """Without the HTTP headers, which hold a date."""
    return json.loads(response.model_dump_json(exclude={"sdk_http_response"}))


def ollama_chat(url: str, on_event: EventCallback) -> Any:
    """Chat."""
    client = ollama.Client(host=url)
    with client._client:
        return _plain(client.chat(model="m", messages=MESSAGES))


def ollama_chat_stream(url: str, on_event: EventCallback) -> Any:
    """The same as a stream."""
    client = ollama.Client(host=url)
    with client._client:
        return _each(client.chat(model="m", messages=MESSAGES, stream=True), on_event)


def ollama_chat_async(url: str, on_event: EventCallback) -> Any:
    """Async."""

    async def ask() -> Any:
        client = ollama.AsyncClient(host=url)
        async with client._client:
            return _plain(await client.chat(model="m", messages=MESSAGES))

    return asyncio.run(ask())


def ollama_chat_stream_async(url: str, on_event: EventCallback) -> Any:
    """An async stream."""

    async def ask() -> Any:
        client = ollama.AsyncClient(host=url)
        async with client._client:
            return await _each_async(await client.chat(model="m", messages=MESSAGES, stream=True), on_event)

    return asyncio.run(ask())


_CHAT, _RESPONSES, _MESSAGES, _OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
_GENERATE, _STREAM = "/v1/models/m:generateContent", "/v1/models/m:streamGenerateContent?alt=sse"

SDK_CALLS = [
    SdkCall("openai-chat", "openai", _CHAT, False, openai_chat),
    SdkCall("openai-chat-stream", "openai", _CHAT, True, openai_chat_stream),
    SdkCall("openai-chat-async", "openai", _CHAT, False, openai_chat_async),
    SdkCall("openai-chat-stream-async", "openai", _CHAT, True, openai_chat_stream_async),
    SdkCall("openai-responses", "openai-responses", _RESPONSES, False, openai_responses),
    SdkCall("openai-responses-stream", "openai-responses", _RESPONSES, True, openai_responses_stream),
    SdkCall("anthropic", "anthropic", _MESSAGES, False, anthropic_messages),
    SdkCall("anthropic-stream", "anthropic", _MESSAGES, True, anthropic_messages_stream),
    SdkCall("anthropic-async", "anthropic", _MESSAGES, False, anthropic_messages_async),
    SdkCall("anthropic-stream-async", "anthropic", _MESSAGES, True, anthropic_messages_stream_async),
    SdkCall("gemini", "gemini", _GENERATE, False, gemini),
    SdkCall("gemini-stream", "gemini", _STREAM, True, gemini_stream),
    SdkCall("gemini-async", "gemini", _GENERATE, False, gemini_async),
    SdkCall("gemini-stream-async", "gemini", _STREAM, True, gemini_stream_async),
    SdkCall("ollama", "ollama", _OLLAMA, False, ollama_chat),
    SdkCall("ollama-stream", "ollama", _OLLAMA, True, ollama_chat_stream),
    SdkCall("ollama-async", "ollama", _OLLAMA, False, ollama_chat_async),
    SdkCall("ollama-stream-async", "ollama", _OLLAMA, True, ollama_chat_stream_async),
]


def _sse(*events: dict[str, Any], named: bool = False, end: str = "") -> list[bytes]:
    texts = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return [text.encode() for text in [*texts, *([end] if end else [])]]


def _openai_chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


_GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Paris"}]}}], "modelVersion": "m"}
_RESPONSE = {
    "id": "r1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [],
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
}  # fmt: skip
_MESSAGE = {
    "id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Paris"}],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
_TEXT = {"type": "text", "text": ""}

PLAIN_BODIES: dict[str, bytes] = {
    name: json.dumps(value).encode()
    for name, value in {
        "openai": {
            "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        },
        "openai-responses": _RESPONSE,
        "anthropic": _MESSAGE,
        "gemini": _GEMINI,
        "ollama": {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": True,
                   "message": {"role": "assistant", "content": "Paris"}},
    }.items()
}  # fmt: skip
STREAM_PIECES: dict[str, list[bytes]] = {
    "openai": _sse(
        _openai_chunk({"role": "assistant", "content": "Pa"}), _openai_chunk({"content": "ris"}),
        _openai_chunk({}, "stop"), end="data: [DONE]\n\n",
    ),
    "openai-responses": _sse(
        {"type": "response.created", "sequence_number": 0, "response": {**_RESPONSE, "status": "in_progress"}},
        {"type": "response.completed", "sequence_number": 1, "response": _RESPONSE},
        named=True,
    ),
    "anthropic": _sse(
        {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": _TEXT},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Paris"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
        named=True,
    ),
    "gemini": [piece.replace(b"\n", b"\r\n") for piece in _sse(_GEMINI, _GEMINI)],
    "ollama": [
        json.dumps({"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": is_last,
                    "message": {"role": "assistant", "content": text}}).encode() + b"\n"
        for text, is_last in (("Pa", False), ("ris", False), ("", True))
    ],
}  # fmt: skip
STREAM_MEDIA_TYPES = {"ollama": "application/x-ndjson"}
