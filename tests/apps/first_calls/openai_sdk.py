"""The first calls of the openai SDK's documentation: chat, Responses, a stream, tools, structured output."""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

QUESTION = "Write a one-sentence bedtime story about a unicorn."
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Event(BaseModel):
    name: str
    date: str


def test_chat() -> None:
    answer = OpenAI().chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": QUESTION}])
    assert answer.choices[0].message.content


def test_chat_async() -> None:
    async def ask() -> str | None:
        client = AsyncOpenAI()
        answer = await client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": "Hi"}])
        return answer.choices[0].message.content

    assert asyncio.run(ask())


def test_responses() -> None:
    assert OpenAI().responses.create(model="gpt-5", input=QUESTION).output_text


def test_stream() -> None:
    stream = OpenAI().chat.completions.create(
        model="gpt-4.1", messages=[{"role": "user", "content": "Say it slowly."}], stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def test_tools() -> None:
    client = OpenAI()
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    answer = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=[tool], tool_choice="required")
    message = answer.choices[0].message
    assert message.tool_calls
    results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls]
    again = client.chat.completions.create(model="gpt-4.1", messages=[*messages, message, *results])
    assert again.choices[0].message.content


def test_structured_output() -> None:
    answer = OpenAI().chat.completions.parse(
        model="gpt-4.1", messages=[{"role": "user", "content": "Alice's party is on Friday."}], response_format=Event
    )
    assert answer.choices[0].message.parsed
