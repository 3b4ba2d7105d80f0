"""The first calls of LangChain's documentation, with two providers."""

from __future__ import annotations

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

QUESTION = "Write a one-sentence bedtime story about a unicorn."


def test_openai() -> None:
    assert ChatOpenAI(model="gpt-4.1").invoke(QUESTION).text


def test_stream() -> None:
    assert "".join(chunk.text for chunk in ChatOpenAI(model="gpt-4.1").stream("Say it slowly."))


def test_anthropic() -> None:
    assert ChatAnthropic(model="claude-sonnet-4-5").invoke("Hello").text
