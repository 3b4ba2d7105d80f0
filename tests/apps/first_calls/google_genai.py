"""The first calls of the google-genai SDK's documentation."""

from __future__ import annotations

from google import genai

QUESTION = "Write a one-sentence bedtime story about a unicorn."


def test_content() -> None:
    client = genai.Client()
    assert client.models.generate_content(model="gemini-2.5-flash", contents=QUESTION).text


def test_stream() -> None:
    client = genai.Client()  # closes its connections when it is collected
    stream = client.models.generate_content_stream(model="gemini-2.5-flash", contents="Say it slowly.")
    assert "".join(chunk.text or "" for chunk in stream)
