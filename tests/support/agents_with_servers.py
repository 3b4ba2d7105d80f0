"""An agent in three frameworks, with three tool servers and two models.

The servers: `notes_server.py` over stdio, `one_tool_server.py find_price` over HTTP at the URL of the first argument,
and `one_tool_server.py open_cellar`, which dies when its tool is called. The models: one over chat completions that
uses the first two, and one over the Responses API that uses the third.
"""

from __future__ import annotations

OPENAI_AGENTS = """
import asyncio, sys
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI

set_tracing_disabled(True)

async def main():
    python = {"command": sys.executable}
    async with (
        MCPServerStdio(params={**python, "args": ["notes_server.py"]}) as notes,
        MCPServerStreamableHttp(params={"url": sys.argv[1]}) as prices,
        MCPServerStdio(params={**python, "args": ["one_tool_server.py", "open_cellar"]}) as cellar,
    ):
        small = OpenAIChatCompletionsModel("gpt-4.1-mini", AsyncOpenAI())
        large = OpenAIResponsesModel("gpt-4.1", AsyncOpenAI())
        for model, question in zip((small, large), sys.argv[2:]):
            servers = [notes, prices, cellar]
            agent = Agent(name="clerk", instructions="Use the tools.", mcp_servers=servers, model=model)
            try:
                print((await Runner.run(agent, question)).final_output)
            except Exception as error:
                print("failed:", type(error).__name__, error)

asyncio.run(main())
"""
LANGGRAPH = """
import asyncio, sys
from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

async def main():
    python = {"command": sys.executable, "transport": "stdio"}
    client = MultiServerMCPClient({
        "notes": {**python, "args": ["notes_server.py"]},
        "prices": {"url": sys.argv[1], "transport": "streamable_http"},
        "cellar": {**python, "args": ["one_tool_server.py", "open_cellar"]},
    })
    tools = [tool for name in ("notes", "prices", "cellar") for tool in await client.get_tools(server_name=name)]
    small = ChatOpenAI(model="gpt-4.1-mini")
    large = ChatOpenAI(model="gpt-4.1", use_responses_api=True)
    for model, question in zip((small, large), sys.argv[2:]):
        try:
            print((await create_agent(model, tools).ainvoke({"messages": question}))["messages"][-1].text)
        except Exception as error:
            print("failed:", type(error).__name__, error)

asyncio.run(main())
"""
PYDANTIC_AI = """
import sys
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

notes = MCPToolset(StdioTransport(sys.executable, ["notes_server.py"]))
prices = MCPToolset(sys.argv[1])
cellar = MCPToolset(StdioTransport(sys.executable, ["one_tool_server.py", "open_cellar"]))
for model, question in zip(("openai-chat:gpt-4.1-mini", "openai-responses:gpt-4.1"), sys.argv[2:]):
    try:
        print(Agent(model, toolsets=[notes, prices, cellar]).run_sync(question).output)
    except Exception as error:
        print("failed:", type(error).__name__, error)
"""
# By framework: the environment that has it, and the program.
AGENTS = {
    "openai-agents": ("apps", OPENAI_AGENTS),
    "langgraph": ("mcp", LANGGRAPH),
    "pydantic-ai": ("mcp", PYDANTIC_AI),
}
QUESTIONS = ("Make a note and find the price of milk", "Open the cellar")
