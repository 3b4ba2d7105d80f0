"""The OpenAI SDK."""

import openai

CLIENT = openai.OpenAI(max_retries=1)
MODEL = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}
MESSAGES = [{"role": "user", "content": "Name a tree."}]


def test_openai_chat():
    assert CLIENT.chat.completions.create(messages=MESSAGES, **MODEL).choices


def test_openai_stream():
    usage = {"include_usage": True}
    with CLIENT.chat.completions.create(messages=MESSAGES, stream=True, stream_options=usage, **MODEL) as stream:
        assert len(list(stream)) > 1


def test_openai_responses():
    assert CLIENT.responses.create(model="gpt-5-mini", input="Name a flower.", max_output_tokens=60).output_text


def test_openai_embeddings():
    assert CLIENT.embeddings.create(model="text-embedding-3-small", input="a tree").data
