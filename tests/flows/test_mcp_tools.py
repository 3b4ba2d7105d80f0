"""Agents with tool servers (MCP), on both major versions of the SDK: recorded, approved, and replayed offline."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from support.command import CommandResult, traceforge
from support.environments import installed_python
from support.model_servers import model_server
from support.tool_servers import approve_all, copy_tool_servers, read_server_log, serve_over_http

pytestmark = pytest.mark.slow

OPENAI_AGENTS = """
import asyncio, sys
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI

set_tracing_disabled(True)

async def main():
    async with MCPServerStdio(params={"command": sys.executable, "args": ["notes_server.py"]}) as server:
        model = OpenAIChatCompletionsModel("gpt-4.1-mini", AsyncOpenAI())
        agent = Agent(name="clerk", instructions="Use the tools.", mcp_servers=[server], model=model)
        print((await Runner.run(agent, "Add a note that says milk")).final_output)

asyncio.run(main())
"""
LANGGRAPH = """
import asyncio, sys
from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

async def main():
    notes = {"command": sys.executable, "args": ["notes_server.py"], "transport": "stdio"}
    agent = create_agent("openai:gpt-4.1-mini", await MultiServerMCPClient({"notes": notes}).get_tools())
    print((await agent.ainvoke({"messages": "Add a note that says milk"}))["messages"][-1].content)

asyncio.run(main())
"""
PYDANTIC_AI = """
import sys
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

notes = MCPToolset(StdioTransport(sys.executable, ["notes_server.py"]))
print(Agent("openai-chat:gpt-4.1-mini", toolsets=[notes]).run_sync("Add a note that says milk").output)
"""


class Project(NamedTuple):
    """An application with a tool server, on one version of the SDK."""

    folder: Path
    python: Path

    def run(self, word: str, *arguments: str, **variables: str) -> CommandResult:
        """Run the client, or another program, under `record` or `test`."""
        command = [str(self.python), "-W", "ignore", *(arguments or ["client.py", "stdio", "milk"])]
        return traceforge(word, "--", *command, cwd=self.folder, **variables)

    def approve(self) -> None:
        approve_all(self.folder)

    def server_log(self) -> list[str]:
        """What the server did since this was last asked."""
        return read_server_log(self.folder)


@pytest.fixture(params=["mcp", "apps"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """A project with the client and the server. `mcp` has version 1 of the SDK, `apps` version 2."""
    return make_project(tmp_path, request.param)


def make_project(folder: Path, environment: str) -> Project:
    copy_tool_servers(folder)
    return Project(folder, installed_python(environment))


def told(result: CommandResult) -> str:
    """What the client printed; version 1 of the server's library prints a log, too."""
    lines = result.out.splitlines()
    return "\n".join(line for line in lines if "INFO" not in line and "Request" not in line)


def test_approved_tool_results_replay_without_a_server(project: Project) -> None:
    """The same output: progress, errors of tools, and what the server asked the model of the client."""
    arguments = ("client.py", "stdio", "milk", "milk", "ask why", "fail")
    recorded = project.run("record", *arguments)
    assert (0, ["started", "add milk", "add milk", "add fail"]) == (recorded.code, project.server_log()), recorded
    project.approve()

    replayed = project.run("test", *arguments)

    assert (0, told(recorded), []) == (replayed.code, told(replayed), project.server_log()), replayed
    assert "GREEN: 6 calls replayed" in replayed.err
    assert "asked why\nthe client says WHY" in told(replayed)


def test_a_changed_argument_of_a_tool_is_red(project: Project) -> None:
    """The application is told why, and the server is not started."""
    project.run("record")
    project.approve()
    project.server_log()

    changed = project.run("test", "client.py", "stdio", "bread")

    assert (1, []) == (changed.code, project.server_log()), changed
    assert '$.request.params.arguments.text: "milk" → "bread"' in changed.err
    assert "TraceForge replay: no recorded call matches" in changed.err


def test_an_approved_call_is_not_repeated_while_recording(project: Project) -> None:
    """A tool has effects. Only the new call reaches the server, which was initialised as ever."""
    project.run("record")
    project.approve()
    project.server_log()

    recorded = project.run("record", "client.py", "stdio", "milk", "bread")

    assert (0, ["started", "add bread"]) == (recorded.code, project.server_log()), recorded
    assert ("new: 1" in recorded.err, "unchanged: 3" in recorded.err) == (True, True), recorded.err


def test_a_changed_tool_is_found_while_recording(project: Project) -> None:
    """It changes what a model sees, so it waits for an approval."""
    project.run("record")
    project.approve()
    server = project.folder / "notes_server.py"
    server.write_text(server.read_text().replace("Add a note.", "Add one note."))

    recorded = project.run("record")
    diff = traceforge("diff", cwd=project.folder)

    assert "changed (answer): 1" in recorded.err, recorded.err
    assert "Add [-a-]{+one+} note." in diff.out, diff.out


def test_a_server_that_dies_replays_as_it_died(project: Project) -> None:
    """Also after progress was made before."""
    arguments = ("client.py", "stdio", "milk", "die")
    recorded = project.run("record", *arguments)
    assert recorded.code != 0
    project.approve()
    project.server_log()

    replayed = project.run("test", *arguments)

    assert (told(recorded), []) == (told(replayed), project.server_log()), replayed
    assert "Connection closed" in recorded.err
    assert "Connection closed" in replayed.err


def test_a_call_that_was_left_at_its_progress_is_left_there_again(project: Project) -> None:
    """A client that waits on would be told so."""
    arguments = ("client.py", "stdio", "stall", "milk")
    recorded = project.run("record", *arguments)
    assert (0, True) == (recorded.code, "left at 0" in recorded.out), recorded
    project.approve()

    replayed = project.run("test", *arguments)

    assert (0, told(recorded)) == (replayed.code, told(replayed)), replayed


def http_server(project: Project, *options: str, path: str = "/mcp") -> AbstractContextManager[str]:
    """The server over HTTP; its URL."""
    command = [str(project.python), "-W", "ignore", "notes_server.py", *options]
    return serve_over_http(command, project.folder, path)


@pytest.mark.parametrize("options", [(), ("sse",)], ids=["streamable", "sse"])
def test_a_server_over_http_replays_when_it_is_gone(project: Project, options: tuple[str, ...]) -> None:
    """Each request is one call, however many HTTP calls carried it. The older transport is no other."""
    with http_server(project, *options, path="/sse" if options else "/mcp") as url:
        recorded = project.run("record", "client.py", url, "milk", "milk")
    assert (0, True) == (recorded.code, "new: 4" in recorded.err), recorded
    project.approve()

    replayed = project.run("test", "client.py", url, "milk", "milk")

    assert (0, told(recorded)) == (replayed.code, told(replayed)), replayed
    assert "GREEN: 4 calls replayed" in replayed.err


def test_all_http_may_be_recorded_beside_tools(project: Project) -> None:
    """The HTTP calls of the transport are not recorded a second time, because their messages are."""
    (project.folder / "traceforge.config.json").write_text('{"record_http": "all", "hosts": ["127.0.0.1"]}')
    with http_server(project) as url:
        recorded = project.run("record", "client.py", url, "milk")

    assert (0, True) == (recorded.code, "3 model calls" in recorded.err), recorded


def test_a_run_sees_tools_and_changes_nothing(project: Project) -> None:
    """Traces of each request, in the order of the session."""
    ran = project.run("run")
    traces = traceforge("trace", "list", cwd=project.folder)

    assert (0, ["started", "add milk"]) == (ran.code, project.server_log()), ran
    assert "could not record" not in ran.err, "its server is not meant to be watched itself"
    endpoints = [f"/notes_server/{method}" for method in ("tools/call", "tools/list", "initialize")]
    assert endpoints == [line.split()[-1] for line in traces.out.splitlines()[1:]]


@pytest.mark.parametrize(("environment", "code"), [("apps", OPENAI_AGENTS), ("mcp", LANGGRAPH), ("mcp", PYDANTIC_AI)])
def test_an_agent_runs_with_no_model_and_no_tool_server(tmp_path: Path, environment: str, code: str) -> None:
    """Its model calls and its tool calls replay, in the words of its framework."""
    project = make_project(tmp_path, environment)
    (tmp_path / "agent.py").write_text(code)
    with model_server() as server:
        keys = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none"}
        recorded = project.run("record", "agent.py", **keys)
    assert (0, ["add"]) == (recorded.code, [line.split()[0] for line in project.server_log() if "add" in line])
    project.approve()

    replayed = project.run("test", "agent.py", OPENAI_BASE_URL=keys["OPENAI_BASE_URL"])

    assert (0, []) == (replayed.code, project.server_log()), replayed
    assert told(recorded) == told(replayed)
    assert "GREEN" in replayed.err
