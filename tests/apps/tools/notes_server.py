"""A tool server over stdio or, with a port, over HTTP. It writes down that it was started, and each note.

With `sse` before the port, it is served over the older HTTP transport.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

try:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Server

LOG = Path(__file__).with_name("server.log")
server = Server("notes")
notes: list[str] = []


def log(line: str) -> None:
    with LOG.open("a") as file:
        file.write(line + "\n")


@server.tool()
async def add_note(text: str, ctx: Context) -> str:
    """Add a note."""
    log(f"add {text}")
    if text == "die":
        os._exit(3)
    if text == "wait":
        await asyncio.sleep(60)
    if text == "stall":
        await ctx.report_progress(0, 2)
        await asyncio.sleep(60)
    if text == "fail":
        raise ValueError("the paper is used up")
    notes.append(text)
    await ctx.report_progress(1, 2)
    return f"note {len(notes)}: {text}"


@server.tool()
async def ask_the_client(question: str, ctx: Context) -> str:
    """Let the model of the client answer."""
    from mcp.types import SamplingMessage, TextContent

    content = TextContent(type="text", text=question)
    result = await ctx.session.create_message([SamplingMessage(role="user", content=content)], max_tokens=5)
    return f"the client says {result.content.text}"


if __name__ == "__main__":
    log("started")
    with contextlib.suppress(KeyboardInterrupt):
        if len(sys.argv) == 1:
            server.run()
        else:
            import uvicorn

            app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
            uvicorn.run(app, port=int(sys.argv[-1]), log_level="error")
