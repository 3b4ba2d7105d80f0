"""An application that calls a small model on this machine, and its tests, which `make test-model` records."""

from __future__ import annotations

from typing import Any

import openai
import pytest

SYSTEM = "You are a patient teacher who answers in plain words and gives examples from daily life."
MORE = "Say more about that, with another example."
SETTINGS: dict[str, Any] = {"model": "smollm2-135m", "temperature": 0, "seed": 7, "max_tokens": 48}
QUESTIONS = [
    "Explain how bread rises.",
    "Describe a market in the morning.",
    "Write a letter to a friend who moved away.",
    "What is the difference between a lake and a sea?",
]


def opening(question: str) -> list[Any]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def ask(question: str) -> str:
    answer = openai.OpenAI().chat.completions.create(messages=opening(question), **SETTINGS)
    return answer.choices[0].message.content or ""


def again(question: str, answer: str) -> str:
    next_turn = [{"role": "assistant", "content": answer}, {"role": "user", "content": MORE}]
    pieces = openai.OpenAI().chat.completions.create(messages=opening(question) + next_turn, stream=True, **SETTINGS)
    return "".join(piece.choices[0].delta.content or "" for piece in pieces)


@pytest.mark.parametrize("question", QUESTIONS)
def test_conversation(question: str) -> None:
    assert again(question, ask(question))
