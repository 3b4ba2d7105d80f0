"""A client of `notes_server.py`: prints what it is told. Arguments: `stdio` or a URL, then the notes to add."""

import asyncio
import sys
from contextlib import AsyncExitStack

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, TextContent


async def answer(context, params):
    question = params.messages[0].content.text
    print("asked", question)
    return CreateMessageResult(
        role="assistant", model="mine", content=TextContent(type="text", text=question.upper())
    )


def connect(address):
    if address == "stdio":
        return stdio_client(StdioServerParameters(command=sys.executable, args=["notes_server.py"]))
    return (sse_client if address.endswith("/sse") else streamable_http_client)(address)


async def add_until_progress(session, text):
    """Leave the call when its server makes progress."""
    with anyio.CancelScope() as scope:

        async def leave(done, total, message):
            print("left at", done)
            scope.cancel()

        await session.call_tool("add_note", {"text": text}, progress_callback=leave)


async def main(address, texts):
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(connect(address))
        session = await stack.enter_async_context(ClientSession(*streams[:2], sampling_callback=answer))
        await session.initialize()
        print(*[tool.name for tool in (await session.list_tools()).tools])

        async def show_progress(done, total, message):
            print("progress", done, total)

        for text in texts:
            if text == "stall":
                await add_until_progress(session, text)
                continue
            if text.startswith("ask "):
                result = await session.call_tool("ask_the_client", {"question": text[4:]})
            else:
                result = await session.call_tool("add_note", {"text": text}, progress_callback=show_progress)
            await asyncio.sleep(0.01)  # for the progress, which 2.x tells in a task of its own
            print(result.content[0].text)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
