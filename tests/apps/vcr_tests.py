"""Tests of an application with cassettes of pytest-recording, before TraceForge is used."""

from __future__ import annotations

import os

import httpx
import pytest
import requests

URL = os.environ["MODEL_URL"]
KEY = {"Authorization": "Bearer sk-abcdefghijklmnopqrstuvwxyz123456"}
SETTINGS = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}

pytestmark = pytest.mark.vcr


def ask(question, **more):
    body = {**SETTINGS, "messages": [{"role": "user", "content": question}], **more}
    return requests.post(f"{URL}/v1/chat/completions", json=body, headers=KEY, timeout=10)


def test_chat():
    assert ask("Name a soup.").json()["choices"][0]["message"]["content"]


class TestMany:
    @pytest.mark.parametrize("dish", ["pie", "v1.5 stew"])
    def test_dish(self, dish):
        assert ask(f"Name a {dish}.").json()["choices"]


def test_stream():
    body = {"stream": True, "stream_options": {"include_usage": True}}
    assert "data: [DONE]" in ask("Name a law.", **body).text


def test_httpx():
    body = {"model": "claude-sonnet-5", "max_tokens": 60, "messages": [{"role": "user", "content": "Name a river."}]}
    answer = httpx.post(f"{URL}/v1/messages", json=body, headers={"x-api-key": "nothing-of-value"})
    assert answer.json()["content"]


def test_something_else():
    assert requests.get(f"{URL}/requests", timeout=10).json()["requests"] >= 0
