"""A client that uses all that the protocol has: prints what it is told. Argument: the answer to the question."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client


def show(result):
    if hasattr(result, "model_dump"):
        result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    print(result)
    return result


async def elicit(context, params):
    print("elicit", params.message)
    return types.ElicitResult(action="accept", content={"n": int(sys.argv[1])})


async def sample(context, params):
    text = types.TextContent(type="text", text="because")
    return types.CreateMessageResult(role="assistant", model="mine", content=text)


async def list_roots(context):
    return types.ListRootsResult(roots=[types.Root(uri=f"file://{os.getcwd()}/{os.getpid()}")])


async def take_log(params):
    print("log", params.data)


async def list_tools(session):
    cursor = None
    while True:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = show(await session.list_tools(params=params))
        cursor = page.get("nextCursor")
        if cursor is None:
            return


async def main():
    server = StdioServerParameters(command=sys.executable, args=["whole_server.py"])
    changed = asyncio.Event()

    async def take_message(message):
        if "list_changed" in repr(message) or "ToolListChanged" in repr(message):
            changed.set()

    async with (
        stdio_client(server) as streams,
        ClientSession(
            *streams, elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=list_roots,
            logging_callback=take_log, message_handler=take_message,
        ) as session,
    ):  # fmt: skip
        await session.initialize()
        await list_tools(session)
        show(await session.list_resources())
        show(await session.read_resource("notes://all"))
        show(await session.list_prompts())
        show(await session.get_prompt("greet", {"who": "Ann"}))
        show(await session.call_tool("ask", {}))
        show(await session.call_tool("fail", {}))
        try:
            await session.subscribe_resource("notes://all")
        except Exception as error:
            print(type(error).__name__, error)
        show(await session.call_tool("grow", {}))
        await asyncio.wait_for(changed.wait(), 60)
        await list_tools(session)


asyncio.run(main())
