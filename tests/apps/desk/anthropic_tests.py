"""The Anthropic SDK."""

import anthropic

CLIENT = anthropic.Anthropic(max_retries=1)
MODEL = {"model": "claude-sonnet-5", "max_tokens": 60, "system": "You are brief."}
MESSAGES = [{"role": "user", "content": "Name a bird."}]


def test_anthropic_message():
    assert CLIENT.messages.create(messages=MESSAGES, metadata={"user_id": "u-1"}, **MODEL).content


def test_anthropic_stream():
    with CLIENT.messages.stream(messages=MESSAGES, extra_headers={"anthropic-beta": "a-1,b-2"}, **MODEL) as stream:
        assert "".join(stream.text_stream)
