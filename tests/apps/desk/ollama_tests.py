"""The Ollama SDK."""

import ollama

CLIENT = ollama.Client()
OPTIONS = {"temperature": 0, "seed": 7, "num_predict": 60}
MESSAGES = [{"role": "user", "content": "Name a stone."}]


def test_ollama_chat():
    assert CLIENT.chat(model="llama3.2", messages=MESSAGES, options=OPTIONS).message.content


def test_ollama_stream():
    assert list(CLIENT.chat(model="llama3.2", messages=MESSAGES, options=OPTIONS, stream=True))
