"""The time that vcrpy and cassetter add to a call of an SDK, run in their own virtual environment.

Prints one line of JSON for each of them and each number of recordings: its name, the count, and the microseconds of
CPU that it adds to a call with a canned transport. They hook httpx, so the SDK is the last version that uses it.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cassetter
import httpx
import openai
import vcr

TEXT = "What is the capital of France? " * 60  # as in bench_replay
CALLS = 10  # in a round, spread over the recordings; each is requested once
ROUNDS = 3
MATCH = ["method", "uri", "body"]
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}
DATA = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}).encode()


class Provider(BaseHTTPRequestHandler):
    """Answers every call."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # One write, so that no client waits 40 ms for an acknowledgement.

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(DATA)))
        self.end_headers()
        self.wfile.write(DATA)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


class Canned(httpx.BaseTransport):
    """The floor: a transport with a fixed answer."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "application/json"}, stream=httpx.ByteStream(DATA))


def send_calls(client: openai.OpenAI, numbers: list[int]) -> None:
    for number in numbers:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"{TEXT}{number}"}])


def with_vcr(path: Path, *, record: bool) -> AbstractContextManager[Any]:
    return vcr.use_cassette(str(path), record_mode="all" if record else "none", match_on=MATCH)


def with_cassetter(path: Path, *, record: bool) -> AbstractContextManager[Any]:
    return cassetter.use_cassette(path, record_mode="all" if record else "none", match_on=MATCH)


def measure_added(use: Callable[..., AbstractContextManager[Any]], url: str, count: int, folder: Path) -> float:
    """Microseconds of CPU added to a call; opening the recordings does not count."""
    path = folder / f"{use.__name__}-{count}.yaml"
    with openai.OpenAI(api_key="none", base_url=url) as client, use(path, record=True):
        send_calls(client, list(range(count)))
    numbers = list(range(0, count, max(1, count // CALLS)))[:CALLS]
    floor = openai.OpenAI(api_key="none", base_url=url, http_client=openai.DefaultHttpxClient(transport=Canned()))
    differences = []
    for place in range(ROUNDS + 1):
        with openai.OpenAI(api_key="none", base_url=url) as client, use(path, record=False):
            mine = cpu_seconds(client, numbers)
        theirs = cpu_seconds(floor, numbers)
        if place:
            differences.append((mine - theirs) / len(numbers) * 1e6)
    return statistics.median(differences)


def cpu_seconds(client: openai.OpenAI, numbers: list[int]) -> float:
    start = time.process_time()
    send_calls(client, numbers)
    return time.process_time() - start


@contextmanager
def provider() -> Iterator[str]:
    """The server that is recorded; stopped before the replay, to be sure that the recordings answer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def main(counts: list[int]) -> None:
    """Measure each at each number of recordings."""
    with TemporaryDirectory() as folder, provider() as url:
        for count in counts:
            for name, use in (("vcrpy", with_vcr), ("cassetter", with_cassetter)):
                us = measure_added(use, url, count, Path(folder))
                print(json.dumps({"name": name, "count": count, "added_us": us}), flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
