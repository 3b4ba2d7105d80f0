"""The first call of instructor's documentation."""

from __future__ import annotations

import instructor
from pydantic import BaseModel

QUESTION = "John Doe is 30 years old."


class Person(BaseModel):
    name: str
    age: int


def test_extraction() -> None:
    client = instructor.from_provider("openai/gpt-4.1")
    assert client.create(response_model=Person, messages=[{"role": "user", "content": QUESTION}]).name
