"""The first calls of the anthropic SDK's documentation."""

from __future__ import annotations

from anthropic import Anthropic

QUESTION = "Write a one-sentence bedtime story about a unicorn."


def test_message() -> None:
    message = Anthropic().messages.create(
        model="claude-sonnet-4-5", max_tokens=1024, messages=[{"role": "user", "content": QUESTION}]
    )
    assert message.content[0].text


def test_stream() -> None:
    request = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": [{"role": "user", "content": "Hello"}]}
    with Anthropic().messages.stream(**request) as stream:
        assert "".join(stream.text_stream)
