"""Streams that no dialect knows: their chunks are kept, shown, approved and replayed one by one, by every client."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import pytest

from support.command import PLAIN_PYTEST, CommandResult, traceforge
from support.proxy_process import proxy
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream
from traceforge.wire.binary_frames import Frame, write_headers

MAIL = "ann.lee@corp-example.org"
KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
APP = """
import asyncio
import json
import os
from itertools import islice

import pytest

URL, LEFT = os.environ["WEB_URL"], int(os.environ.get("LEFT", "2"))
KEY = {"authorization": "Bearer " + os.environ["WEB_KEY"]}


def tell(name, pieces):
    pieces = [piece.decode("latin-1") if isinstance(piece, bytes) else piece for piece in pieces]
    with open("told.jsonl", "a") as file:
        file.write(json.dumps([name, pieces]) + "\\n")


def read_httpx(path, count=99):
    import httpx

    with httpx.stream("GET", URL + path, headers=KEY) as response:
        return list(islice(response.iter_raw(), count))


def read_requests(path):
    import requests

    with requests.get(URL + path, headers=KEY, stream=True, timeout=9) as response:
        return list(response.iter_content(None))


def read_urllib3(path):
    import urllib3

    with urllib3.PoolManager() as pool:
        response = pool.request("GET", URL + path, headers=KEY, preload_content=False)
        return list(response.read_chunked())


def read_aiohttp(path):
    import aiohttp

    async def read():
        async with aiohttp.ClientSession() as session, session.get(URL + path, headers=KEY) as response:
            return [piece async for piece in response.content.iter_any()]

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_httpx, read_requests, read_urllib3, read_aiohttp])
@pytest.mark.parametrize("path", ["/events", "/lines", "/frames", "/sound"])
def test_clients(read, path):
    tell(read.__name__ + path, read(path))


def test_left_early():
    tell("early", read_httpx("/long", LEFT))


def test_documents():
    import httpx

    tell("document", [httpx.get(URL + "/document", headers=KEY).text])
    sized = httpx.get(URL + "/sized", headers=KEY)
    tell("sized", [sized.headers["content-length"], sized.text])


def test_echo():
    import httpx

    with httpx.stream("POST", URL + "/echo", json={"to": "ann.lee@corp-example.org"}) as response:
        tell("echo", response.iter_lines())


def test_openai():
    from openai import OpenAI

    client = OpenAI(base_url=URL + "/v1")
    events = client.beta.threads.runs.create("thread_1", assistant_id="asst_1", stream=True)
    tell("run", [event.event for event in events])
    sound = client.audio.speech.with_streaming_response
    with sound.create(model="tts-1", voice="alloy", input="soup") as stream:
        tell("speech", stream.iter_bytes())
"""
RUN = {
    "id": "run_1", "object": "thread.run", "created_at": 1, "assistant_id": "asst_1", "instructions": "x",
    "thread_id": "thread_1", "model": "gpt-4.1", "tools": [], "metadata": {}, "status": "queued",
}  # fmt: skip
SOUND = [b"ID3\x04" + bytes(range(200)), b"\xff\xfb" * 90, b"\x00\x01\xfe"]


def event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def frame(payload: bytes) -> bytes:
    return Frame(write_headers({":event-type": "part", ":message-type": "event"}), payload).encode()


STREAMS = {
    "/events": ("text/event-stream", [event("output", "Leek "), event("output", "soup"), event("done", "{}")]),
    "/lines": ("application/x-ndjson", [b'{"part": 1}\n', b'{"part": 2, "of', b'": 2}\n']),
    "/frames": ("application/vnd.amazon.eventstream", [frame(b'{"part":1}'), frame(b'{"part":2}')]),
    "/sound": ("audio/mpeg", SOUND),
    "/long": ("text/event-stream", [event("output", f"word {number}") for number in range(9)]),
    "/echo": (
        "text/event-stream",
        [b"data: to ann.lee@corp", b"-example.org\n\n", f"data: with {KEY}\n\n".encode(), b"data: (end)\n\n"],
    ),
    "/v1/threads/thread_1/runs": (
        "text/event-stream",
        [*(event(f"thread.run.{name}", json.dumps(RUN)) for name in ("created", "queued")), event("done", "[DONE]")],
    ),
    "/v1/audio/speech": ("audio/mpeg", SOUND),
    "/document": ("application/json", [b'{"a": ', b"[1, 2]}"]),
}  # fmt: skip


class Pause:
    """Lets a piece go when the one before has been read."""

    def acquire(self, timeout: float = 0) -> bool:
        time.sleep(min(timeout, 0.03))
        return True


def answer(request: ReceivedRequest) -> ScriptedResponse:
    path = request.line.split()[1].decode()
    if path == "/sized":
        return ScriptedResponse([b"of known ", b"length"], headers={"content-type": "text/plain"}, permits=Pause())  # type: ignore[arg-type]
    kind, pieces = STREAMS[path]
    return ScriptedResponse(pieces, headers={"content-type": kind}, chunked=True, permits=Pause())  # type: ignore[arg-type]


PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


class Project(NamedTuple):
    """An application, recorded and approved, and what its clients read."""

    folder: Path
    server: Upstream
    recorded: CommandResult
    told: list[list[object]]

    def run(self, *words: str, **variables: str) -> CommandResult:
        return traceforge(*words, cwd=self.folder, **self.environ(), **variables)

    def environ(self) -> dict[str, str]:
        return {"WEB_URL": self.server.url, "WEB_KEY": KEY, "OPENAI_API_KEY": KEY, "PYTHONDONTWRITEBYTECODE": "1"}

    def test(self, *words: str, **variables: str) -> tuple[CommandResult, list[list[object]]]:
        """Run its tests with `traceforge test`; what its clients read."""
        ran = self.run("test", "--", *PYTEST, "-p", "no:traceforge", "test_app.py", *words, **variables)
        return ran, take_told(self.folder)

    def raw_responses(self) -> dict[str, dict[str, Any]]:
        """What was approved, by path."""
        files = sorted((self.folder / ".ai-snapshots" / "wire").iterdir())
        stored = [json.loads(file.read_text()) for file in files]
        return {raw["request"]["path"]: raw["response"] for raw in stored}


def take_told(folder: Path) -> list[list[object]]:
    file = folder / "told.jsonl"
    told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return told


def encode(piece: bytes) -> object:
    """A chunk, as a raw response has it."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(piece).decode()}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / ".git").mkdir()
    (folder / "test_app.py").write_text(APP)
    with upstream() as server:
        server.choose = answer
        (folder / "traceforge.config.json").write_text(json.dumps({"hosts": [server.url.removeprefix("http://")]}))
        new = Project(folder, server, CommandResult(0, "", ""), [])
        recorded = new.run("record", "--", *PYTEST, "-p", "no:traceforge", "test_app.py")
        assert 0 == recorded.code, recorded.out + recorded.err
        told = take_told(folder)
        approved = new.run("approve", "--all", "--policy", "--reason", "as it is")
        assert 0 == approved.code, approved
        server.received.clear()
        yield new._replace(recorded=recorded, told=told)


@pytest.mark.slow
def test_every_client_reads_the_same_chunks_offline(project: Project) -> None:
    """Under `test` and under pytest alone; nothing is asked."""
    recorded = [[name, _hide(pieces)] for name, pieces in project.told]
    tested, told = project.test()
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    plugged = subprocess.run(
        [*PYTEST, "test_app.py"], cwd=project.folder, env={**environ, **PLAIN_PYTEST, **project.environ()},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (0, []) == (tested.code, project.server.received), tested
    for expected, actual in zip(recorded, told, strict=True):
        assert expected == actual
    assert (0, recorded) == (plugged.returncode, take_told(project.folder)), plugged
    pieces = dict(cast("list[tuple[str, object]]", told))
    for client in ("httpx", "requests", "urllib3", "aiohttp"):
        for path in ("/events", "/lines", "/frames", "/sound"):
            assert [piece.decode("latin-1") for piece in STREAMS[path][1]] == pieces[f"read_{client}{path}"]
    assert ["thread.run.created", "thread.run.queued"] == pieces["run"][:2]  # type: ignore[index]
    assert ["data: to ann.lee@corp-example.org", "", "data: with [REDACTED]", "", "data: (end)", ""] == pieces["echo"]


def _hide(pieces: object) -> object:
    """The pieces of an answer without the key in it, which is not kept."""
    return json.loads(json.dumps(pieces).replace(KEY, "[REDACTED]"))


def test_what_was_approved_has_the_chunks(project: Project) -> None:
    """A JSON document and an answer with a length are a whole; a stream that was left is left there."""
    verified = project.run("verify")
    approved = project.raw_responses()

    assert 0 == verified.code, verified
    for path in ("/events", "/lines", "/frames", "/sound", "/v1/audio/speech", "/v1/threads/thread_1/runs"):
        assert [encode(piece) for piece in STREAMS[path][1]] == approved[path]["chunks"]
        assert approved[path]["t_ms"] == sorted(set(approved[path]["t_ms"]))
    assert (True, STREAMS["/long"][1][:2]) == (
        approved["/long"]["left_early"], [chunk.encode() for chunk in approved["/long"]["chunks"]]
    )  # fmt: skip
    assert [1, 1] == [len(approved[path]["chunks"]) for path in ("/document", "/sized")]
    assert ["data: to [REDACTED]", "\n\n", "data: with [REDACTED]\n\n", "data: (end)\n\n"] == approved["/echo"][
        "chunks"
    ]
    stored = [path for path in project.folder.rglob("*") if path.is_file() and ".ai-" in str(path)]
    assert [] == [path for path in stored if KEY.encode() in path.read_bytes()]


def test_a_client_that_reads_on_in_a_stream_that_was_left_is_red(project: Project) -> None:
    read_on, _ = project.test("-k", "test_left_early", LEFT="3")

    assert 0 != read_on.code, read_on


def test_trace_show_has_the_text_and_the_chunks(project: Project) -> None:
    """Of sound, how many bytes it has."""
    listed = json.loads(project.run("trace", "list", "--limit", "100", "--json").out)["data"]
    ids = {row["endpoint"]: row["id"] for row in listed}
    events, sound = (project.run("trace", "show", ids[path]).out for path in ("/events", "/sound"))
    chunks = project.run("trace", "show", ids["/events"], "--chunks").out

    assert "  stream    3 chunks, first byte after " in events
    assert "    | data: Leek " in events
    assert f"    | {sum(map(len, SOUND))} bytes of audio/mpeg" in sound
    assert [piece.decode() for piece in STREAMS["/events"][1]] == [
        json.loads(line)["data"] for line in chunks.splitlines()
    ]


def test_the_proxy_replays_chunk_by_chunk(tmp_path: Path) -> None:
    def read(url: str) -> list[list[bytes]]:
        return [[*_stream(f"{url}/web{path}")] for path in ("/events", "/lines", "/sound")]

    with upstream() as server:
        server.choose = answer
        with proxy(tmp_path, "--upstream", f"web={server.url}") as running:
            recorded = read(running.url)
            assert 0 == running.stop().code
        server.received.clear()
        with proxy(tmp_path, "--mode", "replay", "--pace", "recorded", "--upstream", f"web={server.url}") as running:
            replayed = read(running.url)
            stopped = running.stop()

    assert [STREAMS[path][1] for path in ("/events", "/lines", "/sound")] == recorded == replayed
    assert (0, []) == (stopped.code, server.received), stopped


def _stream(url: str) -> Iterator[bytes]:
    with httpx.stream("GET", url) as response:
        yield from response.iter_raw()
