"""Functions that a model calls, in agents of three frameworks: recorded, approved, and answered without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import installed_python
from support.model_servers import model_server

pytestmark = pytest.mark.slow

HEAD = """
import asyncio, functools, os
import traceforge

def run(what, result):
    print("ran", what)
    return result

def find_dish(name: str) -> str:
    '''Find a dish and its price.'''
    return run("find_dish", f"{name}: {os.environ.get('PRICE', '12.50')}")

def in_capitals(tool):
    @functools.wraps(tool)
    def call(name):
        return tool(name.upper())

    return call

"""
REAL = """
real_tools = traceforge.real_tools("find_dish")
real_tools.__enter__()
"""
OPENAI_AGENTS = """
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
model = OpenAIChatCompletionsModel("gpt-4.1-mini", AsyncOpenAI())

@traceforge.tool
@function_tool
def find_wine(name: str) -> str:
    '''Find a wine and its price.'''
    return run("find_wine", f"{name}: 40")

for tool in (function_tool(traceforge.tool(find_dish)), find_wine):
    agent = Agent(name="clerk", instructions="Use the tools.", tools=[tool], model=model)
    print(Runner.run_sync(agent, "How much is the soup?").final_output)
"""
LANGGRAPH = """
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool

class FindWine(BaseTool):
    name: str = "find_wine"
    description: str = "Find a wine and its price."

    def _run(self, name: str, run_manager=None) -> str:
        return run("find_wine", f"{name}: 40")

async def main():
    for each in (tool(traceforge.tool(find_dish)), traceforge.tool(FindWine())):
        agent = create_agent("openai:gpt-4.1-mini", [each])
        print((await agent.ainvoke({"messages": "How much is the soup?"}))["messages"][-1].content)
        print(agent.invoke({"messages": "How much is the cake?"})["messages"][-1].content)

asyncio.run(main())
"""
PYDANTIC_AI = """
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, Tool

class Wine(BaseModel):
    name: str
    price: float

def find_wine(ctx: RunContext[int], name: str) -> Wine:
    '''Find a wine and its price.'''
    return run("find_wine", Wine(name=name, price=40))

for tool in (traceforge.tool(find_dish), traceforge.tool(Tool(find_wine)), traceforge.tool(find_wine)):
    agent = Agent("openai-chat:gpt-4.1-mini", tools=[tool], deps_type=int)
    print(agent.run_sync("How much is the soup?", deps=3).output)
"""
AGENTS = {
    "openai-agents": ("apps", OPENAI_AGENTS),
    "langgraph": ("mcp", LANGGRAPH),
    "pydantic-ai": ("apps", PYDANTIC_AI),
}


class Waiter:
    """An agent in a project of its own."""

    def __init__(self, folder: Path, framework: str) -> None:
        (folder / ".git").mkdir()
        environment, self._code = AGENTS[framework]
        self._folder = folder
        self._python = str(installed_python(environment))
        self.write(HEAD)

    def write(self, head: str, tool: str = "traceforge.tool(find_dish)") -> None:
        (self._folder / "agent.py").write_text(head + self._code.replace("traceforge.tool(find_dish)", tool))

    def run(self, word: str, **variables: str) -> CommandResult:
        """Run the agent under `record` or `test`."""
        variables["PYTHONPATH"] = str(PROJECT / "src")
        return traceforge(word, "--", self._python, "-W", "ignore", "agent.py", cwd=self._folder, **variables)

    def record(self, **variables: str) -> CommandResult:
        with model_server() as model:
            return self.run("record", OPENAI_BASE_URL=f"{model.url}/v1", OPENAI_API_KEY="none", **variables)

    def approve(self) -> None:
        approved = traceforge("approve", "--all", "--reason", "as it is", cwd=self._folder)
        assert 0 == approved.code, approved


@pytest.fixture(params=list(AGENTS))
def waiter(request: pytest.FixtureRequest, tmp_path: Path) -> Waiter:
    return Waiter(tmp_path, request.param)


def told(result: CommandResult) -> list[str]:
    """What the agent said."""
    return [line for line in result.out.splitlines() if not line.startswith("ran ")]


def test_an_agent_runs_without_its_model_and_its_tools(waiter: Waiter) -> None:
    recorded = waiter.record()
    assert (0, True) == (recorded.code, {"ran find_dish", "ran find_wine"} <= set(recorded.out.splitlines())), (
        recorded
    )
    waiter.approve()

    replayed = waiter.run("test")

    assert (0, False, told(recorded)) == (replayed.code, "ran " in replayed.out, told(replayed)), replayed
    assert "GREEN" in replayed.err


def test_a_tool_with_other_arguments_is_red_and_does_not_run(waiter: Waiter) -> None:
    """The model asked for the same; the code in between has changed."""
    waiter.record()
    waiter.approve()
    waiter.write(HEAD, "in_capitals(traceforge.tool(find_dish))")

    changed = waiter.run("test")

    assert (1, False) == (changed.code, "ran " in changed.out), changed
    assert "$.request.arguments.name" in changed.err


def test_a_tool_that_runs_with_another_result_is_red(waiter: Waiter) -> None:
    """The test wants it to run. The changed price is also in the next prompt."""
    waiter.record()
    waiter.approve()
    waiter.write(HEAD + REAL)

    same = waiter.run("test")
    other = waiter.run("test", PRICE="13.00")

    assert (0, 1) == (same.code, other.code), (same, other)
    assert {"ran find_dish"} == {line for line in same.out.splitlines() if line.startswith("ran ")}
    assert "the tool find_dish ran, and its answer is not the approved one" in other.err


def test_record_repeats_no_approved_tool(waiter: Waiter) -> None:
    """It may have effects. Where the test wants it to run, a changed result is found."""
    waiter.record()
    waiter.approve()

    again = waiter.record(PRICE="13.00")
    waiter.write(HEAD + REAL)
    real = waiter.record(PRICE="13.00")

    assert ("ran " in again.out, "ran find_dish" in real.out) == (False, True), (again, real)
    assert ("traceforge: changed" in again.err, "changed (answer)" in real.err) == (False, True), (
        again.err,
        real.err,
    )
