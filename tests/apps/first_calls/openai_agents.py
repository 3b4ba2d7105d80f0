"""An agent of openai-agents with a tool."""

from __future__ import annotations

from agents import Agent, Runner, function_tool

QUESTION = "What is the weather in Paris?"


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def test_agent() -> None:
    agent = Agent(name="Assistant", instructions="Be brief.", model="gpt-5", tools=[get_weather])
    assert Runner.run_sync(agent, QUESTION).final_output
