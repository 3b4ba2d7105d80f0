"""A call that the application cancels before a response comes is approved, and cancelled again in a replay."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.environments import linked_python
from support.gate_project import Site
from support.model_servers import ModelServer, Reply, serve_in_thread

TESTS = """
import asyncio
import os

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
QUESTION = os.environ.get("QUESTION", "Write a slow poem")


def body(client):
    return {"model": "gpt-4.1-mini", "messages": [{"role": "user", "content": f"{QUESTION} for {client}."}]}


async def first_of(*calls):
    tasks = [asyncio.ensure_future(call) for call in calls]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.wait(tasks)
    return [task.result() for task in done]


def test_httpx_times_out():
    import httpx
    import pytest

    with pytest.raises(httpx.ReadTimeout):
        httpx.post(URL, json=body("httpx"), timeout=0.3)


def test_an_sdk_times_out_and_tries_again():
    import openai
    import pytest

    client = openai.OpenAI(timeout=0.3, max_retries=1)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(**body("an SDK"))


def test_an_async_sdk_times_out():
    import openai
    import pytest

    async def ask():
        async with openai.AsyncOpenAI(timeout=0.3, max_retries=0) as client:
            await client.chat.completions.create(**body("an async SDK"))

    with pytest.raises(openai.APITimeoutError):
        asyncio.run(ask())


def test_httpx_is_cancelled():
    import httpx
    import pytest

    async def ask():
        async with httpx.AsyncClient(timeout=90) as client:
            await asyncio.wait_for(client.post(URL, json=body("wait_for")), 0.3)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(ask())


def test_requests_times_out():
    import pytest
    import requests

    with pytest.raises(requests.ReadTimeout):
        requests.post(URL, json=body("requests"), timeout=(5, 0.3))


def test_aiohttp_times_out():
    import aiohttp
    import pytest

    async def ask():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as session:
            await session.post(URL, json=body("aiohttp"))

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(ask())


def test_aiohttp_is_cancelled():
    import aiohttp
    import pytest

    async def ask():
        async with aiohttp.ClientSession() as session:
            await asyncio.wait_for(session.post(URL, json=body("aiohttp and wait_for")), 0.3)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(ask())


def test_the_slower_of_two_is_cancelled():
    import httpx

    async def ask():
        async with httpx.AsyncClient(timeout=90) as client:
            quick = {**body("nobody"), "messages": [{"role": "user", "content": "Name a soup."}]}
            return await first_of(client.post(URL, json=body("two")), client.post(URL, json=quick))

    assert [200] == [response.status_code for response in asyncio.run(ask())]

"""
TEST_COUNT = CANCELLED_COUNT = 8
WAITING = """
import os

import httpx

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
BODY = {"model": "gpt-4.1-mini", "messages": [{"role": "user", "content": "Write a slow poem."}]}


def test_waits():
    timeout = float(os.environ["TIMEOUT"]) if "TIMEOUT" in os.environ else None
    try:
        httpx.post(URL, json=BODY, timeout=timeout)
    except httpx.TimeoutException:
        pass
"""


PROGRAM = """
curl -s -m 0.4 -H 'content-type: application/json' "$OPENAI_BASE_URL/chat/completions" -d '{
  "model": "gpt-4.1-mini", "messages": [{"role": "user", "content": "Write a slow '"${WORK:-poem}"'."}]}'
test $? = 28  # its timeout
"""


class SlowServer(ModelServer):
    """A model server that answers a slow prompt only when the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = threading.Event()

    def reply(self, path: str, query: str, data: bytes) -> Reply:
        if b"slow" in data:
            self.is_over.wait(300)
        return super().reply(path, query, data)


@pytest.fixture
def slow_server() -> Iterator[SlowServer]:
    """A model server that does not answer slow prompts."""
    with serve_in_thread(SlowServer()) as server:
        try:
            yield server
        finally:
            server.is_over.set()


def make_site(folder: Path, server: SlowServer, tests: str) -> Site:
    """A project whose calls are not recorded yet."""
    (folder / "test_calls.py").write_text(tests)
    (folder / "traceforge.config.json").write_text("{}")
    return Site(folder, linked_python(folder / "python"), server, "test_calls.py")


def read_cancellations(folder: Path) -> list[dict[str, object]]:
    """What the approved calls say in place of a response."""
    responses = [json.loads(file.read_text())["response"] for file in (folder / ".ai-snapshots" / "wire").iterdir()]
    return [response for response in responses if "cancelled" in response]


@pytest.mark.slow
def test_a_cancelled_call_is_recorded_approved_and_cancelled_again(tmp_path: Path, slow_server: SlowServer) -> None:
    """With four clients; another prompt is red, although no answer was ever there."""
    site = make_site(tmp_path, slow_server, TESTS)
    command = site.pytest("test_calls.py")

    recorded = site.run("record", *command)
    approved = site.approve()
    verified = site.run("verify")
    again = site.run("record", *command)
    tested = site.run("test", *command)
    plugged = site.plugin("-n", "0")
    changed = site.run("test", *command, QUESTION="Write a slow song")
    changed_plugged = site.plugin("-n", "0", QUESTION="Write a slow song")

    assert (0, 0, 0) == (recorded.code, approved.code, verified.code), (recorded, approved, verified)
    assert CANCELLED_COUNT == recorded.err.count("cancelled the call before a response came"), recorded
    assert CANCELLED_COUNT == len(read_cancellations(tmp_path))
    assert (0, True) == (again.code, "0 live" in again.err), again
    assert (0, True) == (tested.code, f"{TEST_COUNT} passed" in tested.out), tested
    assert 0 == plugged.code, plugged
    assert (1, True) == (changed.code, f"{CANCELLED_COUNT} failed" in changed.out), changed
    assert "song" in changed.err, changed
    assert 0 != changed_plugged.code, changed_plugged


@pytest.mark.slow
def test_an_application_that_waits_on_is_red(tmp_path: Path, slow_server: SlowServer) -> None:
    """Without a timeout it would wait for an answer that nobody approved; the command that `test` prints gets one."""
    site = make_site(tmp_path, slow_server, WAITING)
    assert 0 == site.run("record", *site.pytest("test_calls.py"), TIMEOUT="0.3").code
    assert 0 == site.approve().code

    tested = site.run("test", *site.pytest("test_calls.py"))
    plugged = site.plugin("-n", "0")
    slow_server.is_over.set()
    replayed = site.run("record", *site.pytest("test_calls.py"))
    (printed,) = [line.split() for line in tested.err.splitlines() if line.startswith("    traceforge record")]
    recorded = site.run(*printed[1:])
    approved = site.approve()
    green = site.run("test", *site.pytest("test_calls.py"))

    finding = "test_calls.py::test_waits: GT2 the application waits for a response that it did not wait for"
    assert (1, True) == (tested.code, finding in tested.err), tested
    assert ["traceforge", "record", "--fresh", "--"] == printed[:4], tested
    assert "does not help" not in tested.err + plugged.out + plugged.err, (tested, plugged)
    assert "traceforge record --fresh -- pytest, then traceforge approve" in plugged.out + plugged.err, plugged
    assert (3, True) == (replayed.code, "traceforge record --fresh -- COMMAND" in replayed.err), replayed
    assert (0, True) == (recorded.code, "changed" in recorded.err), recorded
    assert (0, 0) == (approved.code, green.code), (approved, green)
    assert [] == read_cancellations(tmp_path)


@pytest.mark.slow
def test_a_program_that_gives_up_is_replayed_by_the_proxy(tmp_path: Path, slow_server: SlowServer) -> None:
    """The proxy holds its response back until it leaves; another prompt is red."""
    site = make_site(tmp_path, slow_server, "")
    (tmp_path / "ask.sh").write_text(PROGRAM)
    command = ("--", "sh", "ask.sh")

    recorded = site.run("record", *command)
    approved = site.approve()
    tested = site.run("test", *command)
    changed = site.run("test", *command, WORK="song")

    assert (0, 0) == (recorded.code, approved.code), (recorded, approved)
    assert ["application"] == [entry["cancelled"]["cause"] for entry in read_cancellations(tmp_path)]  # type: ignore[index]
    assert (0, True) == (tested.code, "1 call replayed" in tested.err), tested
    assert (1, True) == (changed.code, "song" in changed.err), changed
