"""The first calls of litellm's documentation."""

from __future__ import annotations

import litellm

QUESTION = "Write a one-sentence bedtime story about a unicorn."


def test_completion() -> None:
    answer = litellm.completion(model="openai/gpt-4.1", messages=[{"role": "user", "content": QUESTION}])
    assert answer.choices[0].message.content


def test_anthropic() -> None:
    answer = litellm.completion(model="anthropic/claude-sonnet-4-5", messages=[{"role": "user", "content": "Hello"}])
    assert answer.choices[0].message.content
