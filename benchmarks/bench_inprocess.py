"""CPU time of a call under `traceforge.capture()`, its exchange discarded, against the same call without."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import httpx
import httpx2
import requests

import traceforge
from harness import Row, is_quick, measure
from traceforge.capture.null_recorder import NullRecorder
from traceforge.exchange import Exchange

GOAL_US = 100.0  # of CPU time that a capture may add to a call
EVENT_US = 1.5  # and to each event of a stream
CALLS = 1000  # in a round, so that opening and closing a capture, about a millisecond, does not count
EVENTS = 100  # of a stream
ROUNDS = 5 if is_quick() else 15
BODY = (
    b'{"model": "m", "messages": [{"role": "user", "content": "' + b"What is the capital of France? " * 30 + b'"}]}'
)
PROVIDER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1] / "tests")!r})
from support.upstream import ScriptedResponse, Upstream
server = Upstream()
piece = b'data: {{"choices": [{{"index": 0, "delta": {{"content": "Paris"}}}}]}}\\n\\n'
pieces = {{"plain": [b"x" * 1000], "stream": [piece] * {EVENTS}}}[sys.argv[1]]
server.respond_with(ScriptedResponse(pieces, chunked=sys.argv[1] == "stream"))
print(server.url + "/v1/chat/completions", flush=True)
sys.stdin.read()
"""


class AddedTimeRow(Row):
    """A row about the time added to a call."""

    def text(self) -> str:
        """The row as it is printed."""
        times = f"{self.ours * 1e6:.0f} µs against {self.peer * 1e6:.0f} µs of CPU ({self.peer_name})"
        return f"  {self.title:<46} {times:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


def rows() -> Iterator[Row]:
    """Every comparison."""
    for kind in ("plain", "stream"):
        provider = subprocess.Popen(
            [sys.executable, "-c", PROVIDER, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert provider.stdout is not None
            url = provider.stdout.readline().strip()
            if not url:
                sys.exit("benchmark: the provider did not start")
            for name, calls in (PLAIN if kind == "plain" else STREAMS).items():
                goal = GOAL_US + (EVENT_US * EVENTS if kind == "stream" else 0)
                yield compare(name, lambda calls=calls, url=url: calls(url), goal)
        finally:
            provider.terminate()
            provider.wait()


class CountingRecorder(NullRecorder):
    """Stores no call, and counts them. The cost of keeping exchanges is measured elsewhere."""

    seen = 0

    def take(self, exchange: Exchange) -> None:
        self.seen += 1


def compare(name: str, calls: Callable[[], None], goal: float) -> Row:
    """The same calls with and without a capture, alternating."""
    recorder = CountingRecorder()

    def captured() -> None:
        with traceforge.capture(sink=recorder):
            calls()

    captured()
    if recorder.seen != CALLS:
        sys.exit(f"benchmark: {name}: {recorder.seen} of {CALLS} calls were seen")
    mine, theirs = measure(captured, calls, ROUNDS, 1, time.process_time)
    added = statistics.median((m - t) / CALLS * 1e6 for m, t in zip(mine, theirs, strict=True))
    result = f"{added:+.0f} µs a call, goal {goal:.0f}"
    return AddedTimeRow(name, min(mine) / CALLS, min(theirs) / CALLS, "without", goal / added, result, added <= goal)


def with_httpx(url: str) -> None:
    """httpx, sync."""
    with httpx.Client() as client:
        for _ in range(CALLS):
            client.post(url, content=BODY)


def with_httpx2(url: str) -> None:
    """httpx2, sync."""
    with httpx2.Client() as client:
        for _ in range(CALLS):
            client.post(url, content=BODY)


def with_httpx2_async(url: str) -> None:
    """httpx2, async."""

    async def calls() -> None:
        async with httpx2.AsyncClient() as client:
            for _ in range(CALLS):
                await client.post(url, content=BODY)

    asyncio.run(calls())


def with_requests(url: str) -> None:
    """requests."""
    with requests.Session() as session:
        for _ in range(CALLS):
            session.post(url, data=BODY)


def with_aiohttp(url: str) -> None:
    """aiohttp."""

    async def calls() -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(CALLS):
                async with session.post(url, data=BODY) as response:
                    await response.read()

    asyncio.run(calls())


def stream_httpx2(url: str) -> None:
    """A stream through httpx2, line by line as SDKs read it."""
    with httpx2.Client() as client:
        for _ in range(CALLS):
            with client.stream("POST", url, content=BODY) as response:
                for _line in response.iter_lines():
                    pass


def stream_aiohttp(url: str) -> None:
    """A stream through aiohttp."""

    async def calls() -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(CALLS):
                async with session.post(url, data=BODY) as response:
                    async for _line in response.content:
                        pass

    asyncio.run(calls())


PLAIN = {
    "httpx": with_httpx,
    "httpx2": with_httpx2,
    "httpx2 async": with_httpx2_async,
    "requests": with_requests,
    "aiohttp": with_aiohttp,
}
STREAMS = {f"httpx2, {EVENTS} events": stream_httpx2, f"aiohttp, {EVENTS} events": stream_aiohttp}
