"""A server with one tool over stdio or, with a port, over HTTP. Arguments: the name of the tool, and the port.

`open_cellar` is the tool that takes the server away.
"""

import os
import sys
from pathlib import Path

try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import MCPServer as Server

server = Server("one")


def answer(item: str) -> str:
    """Say what it is worth."""
    with Path(__file__).with_name("server.log").open("a") as file:
        file.write(f"{sys.argv[1]} {item}\n")
    if sys.argv[1] == "open_cellar":
        os._exit(3)
    return f"{item}: 12.50"


server.tool(name=sys.argv[1])(answer)

if __name__ == "__main__":
    if len(sys.argv) == 2:
        server.run()
    else:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), port=int(sys.argv[2]), log_level="error")
