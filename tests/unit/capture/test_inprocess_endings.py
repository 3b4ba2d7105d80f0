"""Calls of one process that are left, cancelled or interrupted are recorded as far as they came."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import httpx
import httpx2
import pytest
import requests

import traceforge
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.capture.recorder import MemoryRecorder
from traceforge.exchange import CallOutcome

PATH = "/v1/messages"


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as server:
        yield server


@pytest.mark.slow
def test_a_dropped_response_is_recorded_with_the_next_call(server: Upstream) -> None:
    """It was never closed: its outcome is `left`."""
    sink = MemoryRecorder()
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([b"data: 1\n\n", b"data: 2\n\n"], chunked=True, permits=permits))
    client = httpx.Client()
    with traceforge.capture(sink=sink) as captured:
        response = client.send(client.build_request("POST", server.url + PATH), stream=True)
        assert 1 == captured.open
        del response
        gc.collect()
    permits.release(9)
    client.close()

    assert [CallOutcome.CLIENT_LEFT] == [exchange.outcome for exchange in sink.exchanges]


def test_an_open_stream_at_the_end_of_a_capture_is_recorded_as_far_as_it_came(server: Upstream) -> None:
    """Its reader reads on; a child that was forked meanwhile does not record it again."""
    sink = MemoryRecorder()
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([b"data: 1\n\n", b"data: 2\n\n"], chunked=True, permits=permits))
    with httpx.Client() as client:
        with traceforge.capture(sink=sink) as captured:
            response = client.send(client.build_request("POST", server.url + PATH), stream=True)
            pieces = response.iter_raw()
            first = next(pieces)
        permits.release(9)

        assert b"data: 1\n\ndata: 2\n\n" == first + b"".join(pieces)
        response.close()
    assert 0 == captured.open
    (exchange,) = sink.exchanges
    assert (CallOutcome.CLIENT_LEFT, [b"data: 1\n\n"]) == (
        exchange.outcome,
        [chunk.data for chunk in exchange.chunks],
    )


def test_an_open_stream_at_the_end_of_the_process_is_recorded(server: Upstream, tmp_path: Path) -> None:
    """Also by an installed capture."""
    server.respond_with(ScriptedResponse([b"data: 1\n\n"], chunked=True))
    script = f"""
import httpx, traceforge
traceforge.install()
client = httpx.Client()
response = client.send(client.build_request("POST", {server.url + PATH!r}), stream=True)
next(response.iter_raw())
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)
    (file,) = (tmp_path / ".ai-tests" / "traces").glob("*.json")
    assert ("left", "cut") == (
        json.loads(file.read_bytes())["wire"]["outcome"],
        json.loads(file.read_bytes())["wire"]["ending"],
    )


def test_a_cancelled_stream_is_recorded_as_left(server: Upstream) -> None:
    """The task is cancelled while it waits for the next chunk."""
    sink = MemoryRecorder()
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([b"data: 1\n\n", b"data: 2\n\n"], chunked=True, permits=permits))

    async def read(first: asyncio.Event) -> None:
        async with httpx2.AsyncClient() as client, client.stream("POST", server.url + PATH) as response:
            async for _ in response.aiter_raw():
                first.set()

    async def main() -> None:
        first = asyncio.Event()
        with traceforge.capture(sink=sink):
            task = asyncio.create_task(read(first))
            await first.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    permits.release(9)
    (captured,) = sink.exchanges
    assert (CallOutcome.CLIENT_LEFT, [b"data: 1\n\n"]) == (
        captured.outcome,
        [chunk.data for chunk in captured.chunks],
    )


@pytest.mark.parametrize("client", ["httpx", "httpx2", "aiohttp"])
def test_a_call_that_is_cancelled_before_its_response_is_recorded_as_left(server: Upstream, client: str) -> None:
    """There was no response, and the application sees its own cancellation."""
    sink = MemoryRecorder()
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([b"{}"], waits_first=True, permits=permits))
    new = {"httpx": httpx.AsyncClient, "httpx2": httpx2.AsyncClient, "aiohttp": aiohttp.ClientSession}[client]

    async def main() -> None:
        async with new() as connection:
            with traceforge.capture(sink=sink):
                task = asyncio.ensure_future(_post(connection, server.url + PATH))
                while not server.received:
                    await asyncio.sleep(0.005)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    permits.release()
    (captured,) = sink.exchanges
    assert (CallOutcome.CLIENT_LEFT, 0, "CancelledError") == (captured.outcome, captured.status, captured.error)


def test_a_call_that_is_cancelled_before_its_connection_is_recorded_as_left() -> None:
    """With aiohttp, while the name of the host is looked up."""
    sink = MemoryRecorder()

    class Resolver(aiohttp.abc.AbstractResolver):
        def __init__(self) -> None:
            self.is_asked = asyncio.Event()

        async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[aiohttp.abc.ResolveResult]:
            self.is_asked.set()
            await asyncio.sleep(60)
            return []

        async def close(self) -> None:
            """Nothing is open."""

    async def main() -> None:
        resolver = Resolver()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=resolver)) as session:
            with traceforge.capture(sink=sink):
                task = asyncio.ensure_future(_post(session, f"http://models.example.com{PATH}"))
                await asyncio.wait_for(resolver.is_asked.wait(), 10)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    (captured,) = sink.exchanges
    assert (CallOutcome.CLIENT_LEFT, "CancelledError") == (captured.outcome, captured.error)


@pytest.mark.parametrize(
    "post",
    [
        lambda url, body: httpx.post(url, content=body),
        lambda url, body: httpx2.post(url, content=body),
        lambda url, body: requests.post(url, data=body),
    ],
    ids=["httpx", "httpx2", "requests"],
)
def test_a_call_that_is_interrupted_before_its_response_is_recorded_as_left(
    post: Callable[[str, Iterator[bytes]], object],
) -> None:
    """The user presses Ctrl+C while the request is being sent."""
    sink = MemoryRecorder()

    def body() -> Iterator[bytes]:
        yield b"{"
        raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}{PATH}"
        with traceforge.capture(sink=sink), pytest.raises(KeyboardInterrupt):
            post(url, body())

    (captured,) = sink.exchanges
    assert (CallOutcome.CLIENT_LEFT, 0, "KeyboardInterrupt") == (captured.outcome, captured.status, captured.error)


async def _post(client: object, url: str) -> object:
    return await client.post(url)  # type: ignore[attr-defined]
