"""Agents of pydantic-ai with a tool, for OpenAI and Gemini."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent

QUESTION = "What is the weather in Paris?"


@pytest.mark.parametrize("model", ["openai-chat:gpt-4.1", "google:gemini-2.5-flash"])
def test_agent(model: str) -> None:
    agent = Agent(model)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"It is sunny in {city}."

    assert agent.run_sync(QUESTION).output
