"""An agent for each SDK, plain and streamed: it asks, calls its tool, and answers from the result."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import ollama
import openai
from google import genai
from google.genai import types as genai_types

from support.sdk_calls import KEY

QUESTION = "May I have a refund for order A-1001?"
ORDER = {"order_id": "A-1001", "status": "delivered", "total": 59.9}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order_id": {"type": "string", "pattern": "^[A-Z]-[0-9]{4}$"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
FUNCTION = {"name": "look_up_order", "description": "Look up an order.", "parameters": SCHEMA}
TOOL: Any = {"type": "function", "function": FUNCTION}


# -- agents


def openai_agent(url: str) -> str:
    """Chat completions."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        while True:
            reply = client.chat.completions.create(model="m", messages=messages, tools=[TOOL]).choices[0]
            if reply.finish_reason == "stop":
                return reply.message.content or ""
            assert "tool_calls" == reply.finish_reason
            messages.append(reply.message)
            for call in reply.message.tool_calls or []:
                assert call.type == "function"
                result = run_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def openai_stream_agent(url: str) -> str:
    """Chat completions through the helper that gathers a stream, async."""

    async def run() -> str:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
            while True:
                options = {"include_usage": True}
                call: Any = {"model": "m", "messages": messages, "tools": [TOOL], "stream_options": options}
                async with client.chat.completions.stream(**call) as stream:
                    completion = await stream.get_final_completion()
                assert completion.usage
                assert completion.usage.total_tokens > 10
                message = completion.choices[0].message
                if not message.tool_calls:
                    return message.content or ""
                messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
                for call in message.tool_calls:
                    result = run_tool(call.function.name, json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return asyncio.run(run())


def responses_agent(url: str, stream: bool = False) -> str:
    """The Responses API."""
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    tools: list[Any] = [{"type": "function", **FUNCTION, "strict": True}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        while True:
            if stream:
                with client.responses.stream(model="m", input=items, tools=tools) as events:
                    reply: Any = events.get_final_response()
            else:
                reply = client.responses.create(model="m", input=items, tools=tools)
            if reply.output_text:
                return str(reply.output_text)
            (call,) = reply.output
            result = run_tool(call.name, json.loads(call.arguments))
            items += [
                call.model_dump(exclude_none=True, exclude={"parsed_arguments"}),
                {"type": "function_call_output", "call_id": call.call_id, "output": result},
            ]


def responses_stream_agent(url: str) -> str:
    """The Responses API, as named events."""
    return responses_agent(url, stream=True)


def anthropic_agent(url: str) -> str:
    """Messages."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools: list[Any] = [{"name": "look_up_order", "input_schema": SCHEMA}]
    with anthropic.Anthropic(base_url=url, api_key=KEY) as client:
        while True:
            reply = client.messages.create(model="m", max_tokens=200, messages=messages, tools=tools)
            if reply.stop_reason == "end_turn":
                return anthropic_text(reply)
            messages += anthropic_turn(reply)


def anthropic_stream_agent(url: str) -> str:
    """Messages as a stream, async."""

    async def run() -> str:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        tools: list[Any] = [{"name": "look_up_order", "input_schema": SCHEMA}]
        async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client:
            while True:
                async with client.messages.stream(
                    model="m", max_tokens=200, messages=messages, tools=tools
                ) as stream:
                    reply = await stream.get_final_message()
                if reply.stop_reason == "end_turn":
                    return anthropic_text(reply)
                messages += anthropic_turn(reply)

    return asyncio.run(run())


def anthropic_text(reply: Any) -> str:
    """All text of a reply."""
    return "".join(block.text for block in reply.content if block.type == "text")


def anthropic_turn(reply: Any) -> list[Any]:
    """The tool call, and the tool's result."""
    assert "tool_use" == reply.stop_reason
    (call,) = [block for block in reply.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call.name, call.input)}
    return [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]


def gemini_agent(url: str) -> str:
    """Generate content, where the SDK calls the function itself."""

    def look_up_order(order_id: str) -> dict[str, Any]:
        """Look up an order."""
        return dict(json.loads(run_tool("look_up_order", {"order_id": order_id})))

    with genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=url)) as client:
        config = genai_types.GenerateContentConfig(tools=[look_up_order])
        return client.models.generate_content(model="m", contents=QUESTION, config=config).text or ""


def gemini_stream_agent(url: str) -> str:
    """As a stream, async, with a declared function."""

    async def run() -> str:
        declared: Any = {"function_declarations": [{"name": "look_up_order", "parameters_json_schema": SCHEMA}]}
        contents: list[Any] = [{"role": "user", "parts": [{"text": QUESTION}]}]
        options = genai_types.HttpOptions(base_url=url)
        async with genai.Client(api_key=KEY, http_options=options).aio as client:
            while True:
                parts: list[Any] = []
                config: Any = {"tools": [declared]}
                stream = await client.models.generate_content_stream(model="m", contents=contents, config=config)
                async for piece in stream:
                    parts += piece.candidates[0].content.parts if piece.candidates else []  # type: ignore[union-attr, operator]
                calls = [part.function_call for part in parts if part.function_call]
                if not calls:
                    return "".join(part.text for part in parts)
                result = {"result": json.loads(run_tool(calls[0].name, calls[0].args))}
                contents.append({"role": "model", "parts": parts})
                answer = {"function_response": {"name": calls[0].name, "response": result}}
                contents.append({"role": "user", "parts": [answer]})

    return asyncio.run(run())


def ollama_agent(url: str) -> str:
    """Chat."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    client = ollama.Client(host=url)
    with client._client:
        while True:
            message = client.chat(model="m", messages=messages, tools=[TOOL]).message
            if not message.tool_calls:
                return message.content or ""
            messages += ollama_turn(message, message.tool_calls)


def ollama_stream_agent(url: str) -> str:
    """Chat as a stream, async."""

    async def run() -> str:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        client = ollama.AsyncClient(host=url)
        async with client._client:
            while True:
                stream = await client.chat(model="m", messages=messages, tools=[TOOL], stream=True)
                reply = [part.message async for part in stream]
                calls = [call for message in reply for call in message.tool_calls or []]
                if not calls:
                    return "".join(message.content or "" for message in reply)
                messages += ollama_turn(reply[-2], calls)

    return asyncio.run(run())


def ollama_turn(message: Any, calls: Any) -> list[Any]:
    """The tool call, and the tool's result."""
    (call,) = calls
    result = run_tool(call.function.name, dict(call.function.arguments))
    return [message, {"role": "tool", "tool_name": call.function.name, "content": result}]


def run_tool(name: str, arguments: dict[str, Any]) -> str:
    """The tool; checks its arguments."""
    assert "look_up_order" == name
    assert {"order_id": "A-1001"} == arguments
    return json.dumps(ORDER)


AGENTS = [
    openai_agent, openai_stream_agent, responses_agent, responses_stream_agent, anthropic_agent,
    anthropic_stream_agent, gemini_agent, gemini_stream_agent, ollama_agent, ollama_stream_agent,
]  # fmt: skip
