"""Exchanges for a recorder, and the traces that it made of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from traceforge.exchange import Chunk, Exchange


def exchange(number: int = 0, text: str = "hello") -> Exchange:
    """One chat call."""
    request = {"model": "m", "messages": [{"role": "user", "content": text}]}
    answer = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }  # fmt: skip
    return Exchange(
        f"00000000-0000-4000-8000-{number:012d}",
        "2026-01-01T00:00:00.000Z",
        "POST",
        "https://api.example.com/v1/chat/completions",
        (("Authorization", "Bearer sk-proj-" + "Ab1" * 16),),
        json.dumps(request).encode(),
        200,
        (("Content-Type", "application/json"),),
        (Chunk(1.0, json.dumps(answer).encode()),),
        2.0,
    )


def ids(folder: Path) -> list[str]:
    """The ids of the traces that are files."""
    return sorted(json.loads(file.read_bytes())["id"] for file in folder.glob("*.json"))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail where it never does."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
