"""An application that calls four providers, and its tests, which the flow tests of the gate record and replay.

It calls OpenAI without its SDK. `PROMPT` and other settings come from the environment, so that a test can change a
prompt without changing a file.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx

# SDKs are imported where they are used: together they take seconds, and most runs here need none of them.

PROMPT = os.environ.get("PROMPT", "You are brief.")
SETTINGS: dict[str, Any] = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}


def messages(question: str) -> list[Any]:
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]


def _request(path: str, **fields: Any) -> dict[str, Any]:
    """The arguments of a request to OpenAI. Most runs here make no other, and its SDK takes a second to import."""
    return {
        "method": "POST",
        "url": f"{os.environ['OPENAI_BASE_URL']}/{path}",
        "headers": {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
        "json": fields,
        "timeout": 60,
    }


def _text(response: httpx.Response) -> str:
    return str(response.raise_for_status().json()["choices"][0]["message"]["content"])


def chat(question: str) -> str:
    return _text(httpx.request(**_request("chat/completions", messages=messages(question), **SETTINGS)))


def chat_stream(question: str) -> list[str]:
    request = _request(
        "chat/completions",
        messages=messages(question),
        stream=True,
        stream_options={"include_usage": True},
        **SETTINGS,
    )
    with httpx.stream(**request) as response:
        response.raise_for_status()
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    return [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]


async def chat_async(question: str) -> str:
    async with httpx.AsyncClient() as client:
        return _text(await client.request(**_request("chat/completions", messages=messages(question), **SETTINGS)))


def embed(text: str) -> list[float]:
    response = httpx.request(**_request("embeddings", model="text-embedding-3-small", input=text))
    return list(response.raise_for_status().json()["data"][0]["embedding"])


def message(question: str) -> str:
    import anthropic

    answer = anthropic.Anthropic().messages.create(
        model="claude-sonnet-5", max_tokens=60, system=PROMPT, messages=[{"role": "user", "content": question}]
    )
    return "".join(block.text for block in answer.content if block.type == "text")


def message_stream(question: str) -> str:
    import anthropic

    with anthropic.Anthropic().messages.stream(
        model="claude-sonnet-5", max_tokens=60, system=PROMPT, messages=[{"role": "user", "content": question}]
    ) as stream:
        return "".join(stream.text_stream)


def _gemini() -> tuple[Any, Any]:
    from google import genai

    url = os.environ["GOOGLE_GEMINI_BASE_URL"]
    settings = genai.types.GenerateContentConfig(
        temperature=0, seed=7, max_output_tokens=60, system_instruction=PROMPT
    )
    return genai.Client(api_key="nothing", http_options=genai.types.HttpOptions(base_url=url)), settings


def gemini(question: str) -> str:
    client, settings = _gemini()
    answer = client.models.generate_content(model="gemini-2.5-flash", contents=question, config=settings)
    return answer.text or ""


async def gemini_stream(question: str) -> str:
    client, settings = _gemini()
    stream = await client.aio.models.generate_content_stream(
        model="gemini-2.5-flash", contents=question, config=settings
    )
    return "".join([piece.text or "" async for piece in stream])


def local(question: str) -> str:
    import ollama

    options = {"temperature": 0, "seed": 7, "num_predict": 60}
    pieces = ollama.Client().chat(model="llama3.2", messages=messages(question), options=options, stream=True)
    return "".join(piece.message.content or "" for piece in pieces)


def test_chat() -> None:
    assert chat("Name a soup.")


def test_chat_again() -> None:
    assert chat("Name a soup.") == chat("Name a soup.")


def test_chat_stream() -> None:
    assert len(chat_stream("Name a law.")) > 1


def test_chat_async() -> None:
    assert asyncio.run(chat_async("Name a river."))


def test_many_at_once() -> None:
    async def gather_chats() -> list[str]:
        return await asyncio.gather(*(chat_async(f"Name {number} rivers.") for number in range(5)))

    assert len(set(asyncio.run(gather_chats()))) == 5


def test_embedding() -> None:
    assert len(embed("soup")) > 3


def test_message() -> None:
    assert message("Name a soup.")


def test_message_stream() -> None:
    assert message_stream("Name a law.")


def test_gemini() -> None:
    assert gemini("Name a soup.")


def test_gemini_stream() -> None:
    assert asyncio.run(gemini_stream("Name a law."))


def test_local() -> None:
    assert local("Name a soup.")
