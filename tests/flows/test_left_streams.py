"""A stream that the application leaves early is approved, and replayed, as far as it was read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.environments import linked_python
from support.gate_project import Site
from support.model_servers import model_server

APPLICATION = """
import asyncio
import contextlib
import os

READ = int(os.environ.get("READ", "3"))
swallow = contextlib.suppress(Exception) if "SWALLOW" in os.environ else contextlib.nullcontext()
BODY = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60, "stream": True,
        "stream_options": {"include_usage": True}}


def body(question):
    return {**BODY, "messages": [{"role": "user", "content": question}]}


def test_an_sdk():
    import openai

    with swallow, openai.OpenAI().chat.completions.create(**body("Name a soup.")) as stream:
        events = [event for event, _ in zip(stream, range(READ))]
        assert len(events) == READ


def test_async():
    import aiohttp

    async def ask():
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(url, json=body("Name a fish.")) as response:
            return [await response.content.readline() for _ in range(2 * READ)]

    with swallow:
        assert all(asyncio.run(ask()))


def test_another_client():
    import requests

    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with swallow, requests.post(url, json=body("Name a nut."), stream=True, timeout=60) as response:
        lines = [line for line, _ in zip(response.iter_lines(), range(2 * READ))]
        assert len(lines) == 2 * READ
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_stream_that_was_left_early_is_replayed_as_far_as_it_was_read(tmp_path: Path, workers: str) -> None:
    """Three clients; one that reads on gets a broken stream, and never an end that nobody approved."""
    (tmp_path / "test_streams.py").write_text(APPLICATION)
    (tmp_path / "traceforge.config.json").write_text("{}")
    with model_server() as server:
        site = Site(tmp_path, linked_python(tmp_path / "python"), server, "test_streams.py")
        recorded = site.run("record", *site.pytest("test_streams.py"))
        assert (0, True) == (recorded.code, "new: 3" in recorded.err), recorded
        left = recorded.err.count("the application left this stream early")  # Fewer if the end came with the start.
        assert 0 == site.approve().code

        verified = site.run("verify")
        tested = site.run("test", *site.pytest("test_streams.py"))
        plugged = site.plugin("-n", workers)
        further = site.run("test", *site.pytest("test_streams.py"), READ="40")
        swallowed = [
            site.run("test", *site.pytest(f"test_streams.py::{test}"), READ="40", SWALLOW="1")
            for test in ("test_an_sdk", "test_async", "test_another_client")
        ]

    assert [0, 0, 0] == [verified.code, tested.code, plugged.code], (verified, tested, plugged)
    assert 0 != further.code, further
    if left == 3:
        for ran in swallowed:
            assert (1, True) == (ran.code, "1 passed" in ran.out), ran
            assert "reads on in a stream that it left early" in ran.err, ran
    wires = [json.loads(file.read_text()) for file in (tmp_path / ".ai-snapshots" / "wire").iterdir()]
    left_early = [wire["response"] for wire in wires if wire["response"].get("left_early")]
    assert (3, left) == (len(wires), len(left_early))
    assert not any("[DONE]" in chunk for response in left_early for chunk in response["chunks"])
