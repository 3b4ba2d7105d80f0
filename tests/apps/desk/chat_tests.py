"""Chat, parameters, messages, images."""

import desk

PARAMETERS = {
    "top_p": 0.9,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.25,
    "stop": ["END"],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "reasoning_effort": "low",
    "service_tier": "flex",
    "store": False,
    "account_number": 9007199254740993,
    "user": "ada",
    "prompt_cache_key": "desk-1",
    "safety_identifier": "hash-1",
    "metadata": {"team": "desk"},
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_chat():
    assert desk.ask("Where is my parcel?")


def test_stream():
    assert len(desk.stream("Tell me a story.")) > 1


def test_parameters():
    assert desk.ask("What does it cost?", **PARAMETERS)


def test_history():
    messages = [
        {"role": "system", "content": "You remember."},
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Hello, Ada."},
        {"role": "user", "content": "My colour is green."},
        {"role": "user", "content": "What is my name?"},
    ]
    assert desk.complete(messages)


def test_image():
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}
    parts = [{"type": "text", "text": "What is this?"}, picture]
    assert desk.complete([{"role": "user", "content": parts}])
