"""An application that calls four providers through their SDKs, in every way that a test suite has.

It knows nothing of TraceForge. The SDKs read the providers' addresses from the environment.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import anthropic
import ollama
import openai
from google import genai

PROMPT = "You are brief."
CHAT: dict[str, Any] = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}
CLAUDE: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 60}
LOCAL: dict[str, Any] = {"model": "llama3.2", "options": {"temperature": 0, "seed": 7, "num_predict": 60}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"dish": {"type": "string"}}, "required": ["dish"]}
TOOL_RESULT = '{"price": 7}'


def messages(question: str) -> list[Any]:
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]


# -- openai


@cache
def client() -> openai.OpenAI:
    return openai.OpenAI()


def chat(question: str) -> str:
    answer = client().chat.completions.create(messages=messages(question), **CHAT)
    return answer.choices[0].message.content or ""


def chat_stream(question: str) -> list[str]:
    stream = client().chat.completions.create(
        messages=messages(question), stream=True, stream_options={"include_usage": True}, **CHAT
    )
    return [piece.choices[0].delta.content or "" for piece in stream if piece.choices]


async def chat_async(question: str) -> str:
    async with openai.AsyncOpenAI() as async_client:
        answer = await async_client.chat.completions.create(messages=messages(question), **CHAT)
    return answer.choices[0].message.content or ""


def chat_tools(question: str) -> str:
    """Two calls: one that must call a tool, and one with the tool's result."""
    conversation = messages(question)
    tools: Any = [{"type": "function", "function": {"name": "price", "parameters": SCHEMA}}]
    first = client().chat.completions.create(messages=conversation, tools=tools, tool_choice="required", **CHAT)
    reply = first.choices[0].message
    assert reply.tool_calls
    conversation.append(reply.model_dump(exclude_none=True))
    conversation += [{"role": "tool", "tool_call_id": call.id, "content": TOOL_RESULT} for call in reply.tool_calls]
    return (
        client().chat.completions.create(messages=conversation, tools=tools, **CHAT).choices[0].message.content or ""
    )


def embed(text: str) -> list[float]:
    return client().embeddings.create(model="text-embedding-3-small", input=text).data[0].embedding


def respond(question: str) -> str:
    answer = client().responses.create(model="o4-mini", input=question, instructions=PROMPT, max_output_tokens=60)
    return answer.output_text


# -- anthropic


@cache
def claude() -> anthropic.Anthropic:
    return anthropic.Anthropic()


def _claude_arguments(question: str) -> dict[str, Any]:
    return {**CLAUDE, "system": PROMPT, "messages": [{"role": "user", "content": question}]}


def _text(content: Any) -> str:
    return "".join(block.text for block in content if block.type == "text")


def message(question: str) -> str:
    return _text(claude().messages.create(**_claude_arguments(question)).content)


def message_stream(question: str) -> str:
    with claude().messages.stream(**_claude_arguments(question)) as stream:
        return "".join(stream.text_stream)


async def message_async(question: str) -> str:
    async with anthropic.AsyncAnthropic() as async_client:
        return _text((await async_client.messages.create(**_claude_arguments(question))).content)


def message_tools(question: str) -> str:
    """Two calls: one that must call a tool, and one with the tool's result."""
    arguments = _claude_arguments(question)
    arguments["tools"] = [{"name": "price", "input_schema": SCHEMA}]
    first = claude().messages.create(**arguments, tool_choice={"type": "any"})
    uses = [block for block in first.content if block.type == "tool_use"]
    assert uses
    arguments["messages"] += [
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in uses]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": block.id, "content": TOOL_RESULT} for block in uses
        ]},
    ]  # fmt: skip
    return _text(claude().messages.create(**arguments).content)


# -- google-genai


def _new_gemini_client() -> genai.Client:
    url = os.environ.get("GOOGLE_GEMINI_BASE_URL")
    return genai.Client(http_options=genai.types.HttpOptions(base_url=url) if url else None)


@cache
def gemini_client() -> genai.Client:
    return _new_gemini_client()


def _settings(**more: Any) -> Any:
    return genai.types.GenerateContentConfig(
        temperature=0, seed=7, max_output_tokens=60, system_instruction=PROMPT, **more
    )


def gemini(question: str) -> str:
    answer = gemini_client().models.generate_content(model="gemini-2.5-flash", contents=question, config=_settings())
    return answer.text or ""


def gemini_stream(question: str) -> str:
    stream = gemini_client().models.generate_content_stream(
        model="gemini-2.5-flash", contents=question, config=_settings()
    )
    return "".join(piece.text or "" for piece in stream)


async def gemini_async(question: str) -> str:
    own_client = _new_gemini_client()  # A client without a reference closes itself.
    answer = await own_client.aio.models.generate_content(
        model="gemini-2.5-flash", contents=question, config=_settings()
    )
    return answer.text or ""


async def gemini_stream_async(question: str) -> str:
    own_client = _new_gemini_client()
    stream = await own_client.aio.models.generate_content_stream(
        model="gemini-2.5-flash", contents=question, config=_settings()
    )
    return "".join([piece.text or "" async for piece in stream])


def gemini_tools(question: str) -> Any:
    """One call that offers a tool."""
    declared = {"name": "price", "parameters_json_schema": SCHEMA}
    settings = _settings(
        tools=[{"function_declarations": [declared]}], tool_config={"function_calling_config": {"mode": "ANY"}}
    )
    answer = gemini_client().models.generate_content(model="gemini-2.5-flash", contents=question, config=settings)
    return answer.function_calls


# -- ollama


@cache
def ollama_client() -> ollama.Client:
    return ollama.Client()


def local(question: str) -> str:
    return ollama_client().chat(messages=messages(question), **LOCAL).message.content or ""


def local_stream(question: str) -> str:
    pieces = ollama_client().chat(messages=messages(question), stream=True, **LOCAL)
    return "".join(piece.message.content or "" for piece in pieces)


async def local_async(question: str) -> str:
    return (await ollama.AsyncClient().chat(messages=messages(question), **LOCAL)).message.content or ""
