"""An application that calls models in every way its SDKs offer. It knows nothing of TraceForge.

The addresses of the providers are in OPENAI_URL, ANTHROPIC_URL, GEMINI_URL and OLLAMA_URL. `MODELS` is a JSON object:
each model to call, and the tool to offer it. A model is named after its case, `openai-async-tools-stream.3`, so that
the scripted provider knows what to answer. `MORE_CASES` names a module with further cases. The result of the SDK, or
its exception, is printed as one line of JSON, with the lines of this file that made the call: those that end with
the comment "call".
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"  # looks like a real key, so that tests can search for it
QUESTION = "What is the capital of France?"
RESULT = '{"found": "Paris"}'
SCHEMA: Any = {"type": "object", "properties": {}, "additionalProperties": True}
VOLATILE = {
    "timestamp", "run_id", "conversation_id",  # new in every run
    "provider_url",  # the address of the call, which may be the proxy's
    "sdk_http_response",  # holds what the application's own HTTP client adds
}  # fmt: skip

CASES: dict[str, Callable[[str, str], Any]] = {}


def case(function: Callable[[str, str], Any], name: str = "") -> Callable[[str, str], Any]:
    """Register a case under the name of its function, or under another name."""
    CASES[(name or function.__name__).replace("_", "-")] = function
    return function


def plain(value: Any) -> Any:
    """The result of an SDK as comparable JSON values, without the fields that differ in every run."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name not in VOLATILE and not _is_run_id(item)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _is_run_id(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("lc_run-", "lc_run--", "run-"))


# -- openai, chat completions


@cache
def openai_client() -> Any:
    import openai

    return openai.OpenAI(base_url=f"{os.environ['OPENAI_URL']}/v1", api_key=KEY, max_retries=0)


@cache
def openai_async_client() -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=f"{os.environ['OPENAI_URL']}/v1", api_key=KEY, max_retries=0)


def chat_messages() -> list[Any]:
    return [{"role": "user", "content": QUESTION}]


def chat_tools(tool: str) -> list[Any]:
    return [{"type": "function", "function": {"name": tool, "parameters": SCHEMA}}]


def chat_results(message: Any) -> list[Any]:
    """The message that calls tools, and the results of the tools."""
    reply = message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message
    calls = reply["tool_calls"]
    return [reply, *({"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls)]


def join_chat_chunks(chunks: list[Any]) -> dict[str, Any]:
    """The message of a stream, joined as an application does it."""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            for delta in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(
                    delta["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = delta.get("id") or call["id"]
                for name in ("name", "arguments"):
                    call["function"][name] += delta["function"].get(name) or ""
    return {"role": "assistant", "content": None, "tool_calls": list(calls.values())}


@case
def openai_sync_plain(model: str, tool: str) -> Any:
    return openai_client().chat.completions.create(model=model, messages=chat_messages(), temperature=0)  # call


@case
def openai_sync_stream(model: str, tool: str) -> Any:
    create = openai_client().chat.completions.create
    with create(model=model, messages=chat_messages(), stream=True) as stream:  # call
        return [plain(chunk) for chunk in stream]


@case
def openai_sync_tools(model: str, tool: str) -> Any:
    messages, tools = chat_messages(), chat_tools(tool)
    first = openai_client().chat.completions.create(model=model, messages=messages, tools=tools)  # call
    messages += chat_results(first.choices[0].message)
    return [first, openai_client().chat.completions.create(model=model, messages=messages, tools=tools)]  # call


@case
def openai_sync_tools_stream(model: str, tool: str) -> Any:
    create, messages, tools = openai_client().chat.completions.create, chat_messages(), chat_tools(tool)
    first = [plain(chunk) for chunk in create(model=model, messages=messages, tools=tools, stream=True)]  # call
    messages += chat_results(join_chat_chunks(first))
    stream = create(model=model, messages=messages, tools=tools, stream=True)  # call
    return [first, [plain(chunk) for chunk in stream]]


@case
async def openai_async_plain(model: str, tool: str) -> Any:
    return await openai_async_client().chat.completions.create(model=model, messages=chat_messages())  # call


@case
async def openai_async_stream(model: str, tool: str) -> Any:
    create = openai_async_client().chat.completions.create
    async with await create(model=model, messages=chat_messages(), stream=True) as stream:  # call
        return [plain(chunk) async for chunk in stream]


@case
async def openai_async_tools(model: str, tool: str) -> Any:
    create, messages, tools = openai_async_client().chat.completions.create, chat_messages(), chat_tools(tool)
    first = await create(model=model, messages=messages, tools=tools)  # call
    messages += chat_results(first.choices[0].message)
    return [first, await create(model=model, messages=messages, tools=tools)]  # call


@case
async def openai_async_tools_stream(model: str, tool: str) -> Any:
    create, messages, tools = openai_async_client().chat.completions.create, chat_messages(), chat_tools(tool)
    stream = await create(model=model, messages=messages, tools=tools, stream=True)  # call
    first = [plain(chunk) async for chunk in stream]
    messages += chat_results(join_chat_chunks(first))
    stream = await create(model=model, messages=messages, tools=tools, stream=True)  # call
    return [first, [plain(chunk) async for chunk in stream]]


# -- openai, Responses


def response_tools(tool: str) -> list[Any]:
    return [{"type": "function", "name": tool, "parameters": SCHEMA, "strict": False}]


def response_results(items: list[Any]) -> list[Any]:
    calls = [item for item in items if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": call["call_id"], "output": RESULT} for call in calls]
    names = ("type", "call_id", "name", "arguments")
    return [
        {"role": "user", "content": QUESTION},
        *({name: call[name] for name in names} for call in calls),
        *results,
    ]


def done_items(events: list[Any]) -> list[Any]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


@case
def responses_sync_plain(model: str, tool: str) -> Any:
    return openai_client().responses.create(model=model, input=QUESTION)  # call


@case
def responses_sync_stream(model: str, tool: str) -> Any:
    with openai_client().responses.create(model=model, input=QUESTION, stream=True) as stream:  # call
        return [plain(event) for event in stream]


@case
def responses_sync_tools(model: str, tool: str) -> Any:
    create, tools = openai_client().responses.create, response_tools(tool)
    first = create(model=model, input=QUESTION, tools=tools)  # call
    return [first, create(model=model, input=response_results(plain(first.output)), tools=tools)]  # call


@case
def responses_sync_tools_stream(model: str, tool: str) -> Any:
    create, tools = openai_client().responses.create, response_tools(tool)
    first = [plain(event) for event in create(model=model, input=QUESTION, tools=tools, stream=True)]  # call
    after = response_results(done_items(first))
    return [first, [plain(event) for event in create(model=model, input=after, tools=tools, stream=True)]]  # call


@case
async def responses_async_plain(model: str, tool: str) -> Any:
    return await openai_async_client().responses.create(model=model, input=QUESTION)  # call


@case
async def responses_async_stream(model: str, tool: str) -> Any:
    create = openai_async_client().responses.create
    async with await create(model=model, input=QUESTION, stream=True) as stream:  # call
        return [plain(event) async for event in stream]


@case
async def responses_async_tools(model: str, tool: str) -> Any:
    create, tools = openai_async_client().responses.create, response_tools(tool)
    first = await create(model=model, input=QUESTION, tools=tools)  # call
    return [first, await create(model=model, input=response_results(plain(first.output)), tools=tools)]  # call


@case
async def responses_async_tools_stream(model: str, tool: str) -> Any:
    create, tools = openai_async_client().responses.create, response_tools(tool)
    stream = await create(model=model, input=QUESTION, tools=tools, stream=True)  # call
    first = [plain(event) async for event in stream]
    stream = await create(model=model, input=response_results(done_items(first)), tools=tools, stream=True)  # call
    return [first, [plain(event) async for event in stream]]


# -- anthropic


@cache
def anthropic_client() -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=os.environ["ANTHROPIC_URL"], api_key=KEY, max_retries=0)


@cache
def anthropic_async_client() -> Any:
    import anthropic

    return anthropic.AsyncAnthropic(base_url=os.environ["ANTHROPIC_URL"], api_key=KEY, max_retries=0)


def claude_body(model: str, messages: list[Any] | None = None, tool: str = "") -> dict[str, Any]:
    tools: dict[str, Any] = {"tools": [{"name": tool, "input_schema": SCHEMA}]} if tool else {}
    return {"model": model, "max_tokens": 64, "messages": messages or chat_messages(), **tools}


def claude_results(content: list[Any]) -> list[Any]:
    calls = [
        {name: block[name] for name in ("type", "id", "name", "input")}
        for block in content
        if block["type"] == "tool_use"
    ]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
    return [*chat_messages(), {"role": "assistant", "content": calls}, {"role": "user", "content": results}]


@case
def anthropic_sync_plain(model: str, tool: str) -> Any:
    return anthropic_client().messages.create(**claude_body(model))  # call


@case
def anthropic_sync_stream(model: str, tool: str) -> Any:
    with anthropic_client().messages.stream(**claude_body(model)) as stream:  # call
        return [plain(event) for event in stream]


@case
def anthropic_sync_tools(model: str, tool: str) -> Any:
    first = anthropic_client().messages.create(**claude_body(model, tool=tool))  # call
    after = claude_results(plain(first.content))
    return [first, anthropic_client().messages.create(**claude_body(model, after, tool))]  # call


@case
def anthropic_sync_tools_stream(model: str, tool: str) -> Any:
    with anthropic_client().messages.stream(**claude_body(model, tool=tool)) as stream:  # call
        first = [plain(event) for event in stream]
        after = claude_results(plain(stream.get_final_message().content))
    stream = anthropic_client().messages.create(**claude_body(model, after, tool), stream=True)  # call
    return [first, [plain(event) for event in stream]]


@case
async def anthropic_async_plain(model: str, tool: str) -> Any:
    return await anthropic_async_client().messages.create(**claude_body(model))  # call


@case
async def anthropic_async_stream(model: str, tool: str) -> Any:
    stream = await anthropic_async_client().messages.create(**claude_body(model), stream=True)  # call
    return [plain(event) async for event in stream]


@case
async def anthropic_async_tools(model: str, tool: str) -> Any:
    first = await anthropic_async_client().messages.create(**claude_body(model, tool=tool))  # call
    after = claude_results(plain(first.content))
    return [first, await anthropic_async_client().messages.create(**claude_body(model, after, tool))]  # call


@case
async def anthropic_async_tools_stream(model: str, tool: str) -> Any:
    async with anthropic_async_client().messages.stream(**claude_body(model, tool=tool)) as stream:  # call
        first = [plain(event) async for event in stream]
        after = claude_results(plain((await stream.get_final_message()).content))
    stream = await anthropic_async_client().messages.create(**claude_body(model, after, tool), stream=True)  # call
    return [first, [plain(event) async for event in stream]]


# -- google-genai


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


# -- ollama


@cache
def ollama_client() -> Any:
    import ollama

    return ollama.Client(host=os.environ["OLLAMA_URL"])


@cache
def ollama_async_client() -> Any:
    import ollama

    return ollama.AsyncClient(host=os.environ["OLLAMA_URL"])


def ollama_results(parts: list[Any]) -> list[Any]:
    calls = [call for part in parts for call in part["message"].get("tool_calls") or []]
    results = [{"role": "tool", "tool_name": call["function"]["name"], "content": RESULT} for call in calls]
    return [*chat_messages(), {"role": "assistant", "tool_calls": calls}, *results]


@case
def ollama_sync_plain(model: str, tool: str) -> Any:
    return ollama_client().chat(model=model, messages=chat_messages(), options={"temperature": 0, "seed": 1})  # call


@case
def ollama_sync_stream(model: str, tool: str) -> Any:
    return [plain(part) for part in ollama_client().chat(model=model, messages=chat_messages(), stream=True)]  # call


@case
def ollama_sync_tools(model: str, tool: str) -> Any:
    chat, tools = ollama_client().chat, chat_tools(tool)
    first = plain(chat(model=model, messages=chat_messages(), tools=tools))  # call
    return [first, chat(model=model, messages=ollama_results([first]), tools=tools)]  # call


@case
def ollama_sync_tools_stream(model: str, tool: str) -> Any:
    chat, tools = ollama_client().chat, chat_tools(tool)
    first = [plain(part) for part in chat(model=model, messages=chat_messages(), tools=tools, stream=True)]  # call
    after = ollama_results(first)
    return [first, [plain(part) for part in chat(model=model, messages=after, tools=tools, stream=True)]]  # call


@case
async def ollama_async_plain(model: str, tool: str) -> Any:
    return await ollama_async_client().chat(model=model, messages=chat_messages())  # call


@case
async def ollama_async_stream(model: str, tool: str) -> Any:
    stream = await ollama_async_client().chat(model=model, messages=chat_messages(), stream=True)
    return [plain(part) async for part in stream]  # call


@case
async def ollama_async_tools(model: str, tool: str) -> Any:
    chat, tools = ollama_async_client().chat, chat_tools(tool)
    first = plain(await chat(model=model, messages=chat_messages(), tools=tools))  # call
    return [first, await chat(model=model, messages=ollama_results([first]), tools=tools)]  # call


@case
async def ollama_async_tools_stream(model: str, tool: str) -> Any:
    chat, tools = ollama_async_client().chat, chat_tools(tool)
    stream = await chat(model=model, messages=chat_messages(), tools=tools, stream=True)
    first = [plain(part) async for part in stream]  # call
    stream = await chat(model=model, messages=ollama_results(first), tools=tools, stream=True)
    return [first, [plain(part) async for part in stream]]  # call


# -- the program


def call_sites(function: Any) -> list[list[Any]]:
    """The lines on which a function calls a model."""
    lines, first = inspect.getsourcelines(function)
    return [[first + at, function.__name__] for at, line in enumerate(lines) if line.rstrip().endswith("# call")]


def print_result(name: str, model: str, result: Any) -> None:
    function = CASES[name]
    file = os.path.basename(function.__code__.co_filename)
    line = {"model": model, "result": plain(result), "file": file, "sites": call_sites(function)}
    print(json.dumps(line), flush=True)


def describe_exception(exc: Exception) -> Any:
    return {"exception": type(exc).__name__, "message": str(exc)}


def call_model(model: str, tool: str) -> None:
    """Run the case that the model's name says, outside an event loop."""
    name = model.rpartition(".")[0]
    try:
        result = CASES[name](model, tool)
    except Exception as exc:
        result = describe_exception(exc)
    print_result(name, model, result)


async def call_models_async(models: dict[str, str]) -> None:
    """Run the cases one after the other in one event loop."""
    for model, tool in models.items():
        name = model.rpartition(".")[0]
        try:
            result = await CASES[name](model, tool)
        except Exception as exc:
            result = describe_exception(exc)
        print_result(name, model, result)


def main() -> None:
    models: dict[str, str] = json.loads(os.environ["MODELS"])
    awaited = {model: tool for model, tool in models.items() if "-async-" in model}
    for model, tool in models.items():
        if model not in awaited:
            call_model(model, tool)
    if awaited:
        asyncio.run(call_models_async(awaited))


if __name__ == "__main__":
    sys.modules["sdk_calls"] = sys.modules["__main__"]  # for the modules with further cases
    if os.environ.get("MORE_CASES"):
        __import__(os.environ["MORE_CASES"])
    main()
