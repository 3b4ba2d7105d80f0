"""An application that calls four providers, and its tests, which the flow tests of the gate record and replay.

`PROMPT` and other settings come from the environment, so that a test can change a prompt without changing a file.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

# SDKs are imported where they are used: together they take seconds, and most runs here need one of them.

PROMPT = os.environ.get("PROMPT", "You are brief.")
SETTINGS: dict[str, Any] = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}


def messages(question: str) -> list[Any]:
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]


def chat(question: str) -> str:
    import openai

    answer = openai.OpenAI().chat.completions.create(messages=messages(question), **SETTINGS)
    return answer.choices[0].message.content or ""


def chat_stream(question: str) -> list[str]:
    import openai

    stream = openai.OpenAI().chat.completions.create(
        messages=messages(question), stream=True, stream_options={"include_usage": True}, **SETTINGS
    )
    return [piece.choices[0].delta.content or "" for piece in stream if piece.choices]


async def chat_async(question: str) -> str:
    import openai

    answer = await openai.AsyncOpenAI().chat.completions.create(messages=messages(question), **SETTINGS)
    return answer.choices[0].message.content or ""


def embed(text: str) -> list[float]:
    import openai

    return openai.OpenAI().embeddings.create(model="text-embedding-3-small", input=text).data[0].embedding


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
