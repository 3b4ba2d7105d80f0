"""Suites that forbid blocking calls in an event loop (BlockBuster): recorded, tested and replayed like any other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.corpus import PROJECT
from support.environments import installed_python
from support.gate_project import Site
from support.model_servers import model_server

CONFTEST = """import asyncio
import pytest
from blockbuster import blockbuster_ctx


@pytest.fixture(autouse=True)
def no_blocking_calls():
    with blockbuster_ctx():
        yield
"""
APP = """import asyncio
import os
import sys

import aiohttp
import httpcore2  # httpx2 imports it for its first client, and that reads files
import httpx
import httpx2
import openai
import requests

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"


def body(question):
    return {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60,
            "messages": [{"role": "user", "content": question}]}


async def ask_httpx(question, module=httpx):
    async with module.AsyncClient(verify=False) as client:
        return (await client.post(URL, json=body(question))).json()


async def ask_httpx2(question):
    return await ask_httpx(question, httpx2)


async def ask_aiohttp(question):
    async with aiohttp.ClientSession() as session, session.post(URL, json=body(question)) as response:
        return await response.json()


async def stream_httpx(question):
    events = []
    async with httpx.AsyncClient(verify=False) as client:
        async with client.stream("POST", URL, json={**body(question), "stream": True}) as response:
            async for line in response.aiter_lines():
                events.append(line)
    return {"choices": events} if "data: [DONE]" in events else {}


async def stream_httpx2(question):
    async with httpx2.AsyncClient(verify=False) as client:
        async with client.stream("POST", URL, json={**body(question), "stream": True}) as response:
            async for line in response.aiter_lines():
                return {"choices": line}  # The rest is left.


async def stream_aiohttp(question):
    stream = {**body(question), "stream": True}
    async with aiohttp.ClientSession() as session, session.post(URL, json=stream) as response:
        events = [line async for line in response.content]
    return {"choices": events} if b"data: [DONE]" in b"".join(events) else {}


async def ask_openai(question):
    transport = httpx2.AsyncClient(verify=False)  # To read certificates blocks.
    url = os.environ["OPENAI_BASE_URL"]
    async with openai.AsyncOpenAI(base_url=url, api_key="none", http_client=transport) as client:
        return (await client.chat.completions.create(**body(question))).model_dump()


async def ask_requests(question):
    return await asyncio.to_thread(lambda: requests.post(URL, json=body(question)).json())


async def ask_in_a_child(question):
    words = [sys.executable, "-c", "import app, asyncio, sys; print(asyncio.run(app.ask_httpx(sys.argv[1])))"]
    child = await asyncio.create_subprocess_exec(*words, question, stdout=asyncio.subprocess.PIPE)
    output, _ = await child.communicate()
    return {"choices": output} if b"choices" in output else {}
"""
TESTS = """import asyncio
import os
import time

import pytest
from blockbuster import BlockingError

import app

VERB = os.environ.get("VERB", "Name")


@pytest.mark.parametrize("ask", [
    app.ask_httpx, app.ask_httpx2, app.ask_aiohttp, app.ask_requests, app.ask_openai, app.ask_in_a_child,
    app.stream_httpx, app.stream_httpx2, app.stream_aiohttp,
])
def test_it(ask):
    async def several():
        return await asyncio.gather(*[ask(f"{VERB} a soup of {ask.__name__}.") for _ in range(2)])

    answers = asyncio.run(several(), debug=True)

    assert ["choices" in answer for answer in answers] == [True, True]


def test_blocking_calls_are_seen():
    async def block():
        time.sleep(0)

    with pytest.raises(BlockingError):
        asyncio.run(block())


def test_a_connection_is_refused():
    async def connect():
        await asyncio.open_connection("192.0.2.1", 80)

    if "VERB" in os.environ:
        with pytest.raises(OSError, match="a test has no network"):
            asyncio.run(connect(), debug=True)
"""
PROGRAM = """import asyncio
import os
import traceforge
from blockbuster import blockbuster_ctx
from app import ask_aiohttp, ask_httpx


async def ask_both():
    return [await ask_httpx("Name a lake."), await ask_aiohttp("Name a hill.")]


# BlockBuster changes classes of C in place, so it must not begin or end while other threads run.
with blockbuster_ctx():
    with traceforge.capture() as captured:
        live = asyncio.run(ask_both())
    with traceforge.replay() as replayed:
        assert live == asyncio.run(ask_both())
assert (captured.exchanges, captured.lost, replayed.played) == (2, 0, 2)
os._exit(0)  # With BlockBuster, some programs crash at exit, also without TraceForge.
"""


@pytest.fixture(scope="module")
def packages() -> str:
    """The folder with BlockBuster."""
    (folder,) = installed_python("blockbuster").parent.parent.glob("lib/python*/site-packages")
    return str(folder)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A project whose tests forbid blocking calls."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "test_app.py").write_text(TESTS)
    with model_server() as server:
        yield Site(tmp_path, Path(sys.executable), server, "test_app.py")


@pytest.mark.slow
def test_a_suite_that_forbids_blocking_calls_is_recorded_and_replayed(site: Site, packages: str) -> None:
    """`record`, `test` and the plugin; every call is seen, and none of the tests notices; nor what is refused."""
    words = site.pytest("test_app.py")
    recorded = site.run("record", *words, PYTHONPATH=packages)
    approved = site.approve()
    served = site.server.served
    tested = site.run("test", *words, PYTHONPATH=packages)
    plugin = site.plugin(PYTHONPATH=packages)
    again = site.run("record", *words, PYTHONPATH=packages)
    changed = site.run("test", *words, PYTHONPATH=packages, VERB="List")

    assert (0, True) == (recorded.code, "18 live" in recorded.err), recorded
    assert 0 == approved.code, approved
    assert (0, True) == (tested.code, "11 passed" in tested.out), tested
    assert (0, True) == (plugin.code, "11 passed" in plugin.out), plugin
    assert (0, True) == (again.code, "18 answered from snapshots" in again.err), again
    assert (1, True) == (changed.code, "GT1 the request of ask_httpx-" in changed.err), changed
    assert "changed, and the same edit in 8 more" in changed.err
    assert "GT5 a connection to 192.0.2.1:80 was refused" in changed.err
    assert "BlockingError" not in changed.out + changed.err
    assert (18, 18) == (served, site.server.served)


@pytest.mark.slow
def test_a_program_that_forbids_blocking_calls_is_recorded(site: Site, packages: str) -> None:
    """`run` in a child process, and `capture` and `replay` in the process itself."""
    (site.folder / "program.py").write_text(PROGRAM)
    path = os.pathsep.join([packages, str(PROJECT / "src")])
    alone = site.run("run", "--", str(site.python), "program.py", PYTHONPATH=path)
    listed = site.run("trace", "list", "--json")

    assert 0 == alone.code, alone
    assert 2 == site.server.served
    assert 2 == listed.out.count('"endpoint"'), listed
