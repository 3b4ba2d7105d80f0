"""The first calls of the ollama package's documentation."""

from __future__ import annotations

import ollama

QUESTION = "Write a one-sentence bedtime story about a unicorn."


def test_chat() -> None:
    assert ollama.Client().chat(model="gemma3", messages=[{"role": "user", "content": QUESTION}]).message.content
