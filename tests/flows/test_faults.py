"""What goes wrong: the application sees what it would have seen without us, and the traces tell the truth.

Each fault is met three times: without us, through `traceforge proxy` as a process, and in process. What the client
got, and how it complained, must be the same each time; what is on the disk afterwards says how the call ended.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiohttp
import brotli
import httpx
import openai
import pytest
import requests
import zstandard

import traceforge
from support.application import TraceOnDisk, find_files_with, proxy_process, read_traces
from support.raw_sockets import Peer
from support.upstream import Upstream as Provider

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
SECONDS_MAX = 4.0
STALL_S = 0.4  # after which a client of these tests gives up
PATH = "/v1/chat/completions"
WHOLE = json.dumps(
    {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()  # fmt: skip
JSON = b"content-type: application/json\r\n"
SSE = b"content-type: text/event-stream\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


FIRST, SECOND, LAST = event({"role": "assistant", "content": "Pa"}), event({"content": "ris"}), event({}, "stop")
DONE = b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    """In a frame of its own."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def head(status: bytes, *lines: bytes, body: bytes | None = None) -> bytes:
    """A head; with a body, also that."""
    length = b"" if body is None else b"content-length: %d\r\n" % len(body)
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(lines) + length + b"\r\n" + (body or b"")


class Saying:
    """What a provider does when it was asked: bytes to send, `await` the client, close, reset, stall until the test
    is over, `listen` until the client hangs up.
    """

    def __init__(self, *steps: bytes | str) -> None:
        self.steps = steps


class Fault(NamedTuple):
    """One thing that goes wrong, and what a trace says of it."""

    name: str
    says: Saying
    status: int
    outcome: str
    ending: str
    succeeded: bool = False
    streaming: bool = False
    kept: bytes | None = None  # of a stream


def error(message: str, **more: object) -> bytes:
    """An error as a provider writes it."""
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}}).encode()


def _halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


STREAM = head(b"200 OK", SSE, CHUNKED)
BROKEN = b"data: " + error("broke down") + b"\n\n"
FAULTS = [
    Fault("reset-before-head", Saying("reset"), 0, "failed", "none"),
    Fault("close-before-head", Saying("close"), 0, "failed", "none"),
    Fault("reset-mid-head", Saying(b"HTTP/1.1 200 OK\r\ncontent-", "pause", "reset"), 0, "failed", "none"),
    Fault("close-mid-head", Saying(b"HTTP/1.1 200 OK\r\ncontent-", "pause", "close"), 0, "failed", "none"),
    Fault("reset-mid-body", Saying(head(b"200 OK", JSON, b"content-length: 999\r\n") + WHOLE[:40], "await", "reset"),
          200, "cut", "raw"),
    Fault("close-mid-body", Saying(head(b"200 OK", JSON, b"content-length: 999\r\n") + WHOLE[:40], "await", "close"),
          200, "cut", "raw"),
    Fault("reset-mid-stream", Saying(STREAM + chunk(FIRST), "await", chunk(SECOND), "await", "reset"),
          200, "cut", "cut", streaming=True, kept=FIRST + SECOND),
    Fault("close-mid-stream", Saying(STREAM + chunk(FIRST), "await", chunk(SECOND), "await", "close"),
          200, "cut", "cut", streaming=True, kept=FIRST + SECOND),
    Fault("close-mid-chunk", Saying(STREAM + chunk(FIRST), "await", chunk(SECOND)[:20], "pause", "close"),
          200, "cut", "cut", streaming=True),
    Fault("no-end-of-stream", Saying(STREAM + chunk(FIRST) + chunk(SECOND) + b"0\r\n\r\n"),
          200, "answered", "cut", streaming=True, kept=FIRST + SECOND),
    Fault("stall-before-head", Saying("stall"), 0, "failed", "none"),
    Fault("stall-mid-stream", Saying(STREAM + chunk(FIRST), "await", "stall"),
          200, "cut", "cut", streaming=True, kept=FIRST),
    Fault("not-http", Saying(b"SSH-2.0-OpenSSH_9.2\r\n", "pause", "close"), 0, "failed", "none"),
    Fault("no-status", Saying(b"HTTP/1.1 OK\r\n\r\n", "pause", "close"), 0, "failed", "none"),
    Fault("bad-header", Saying(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", "pause", "close"), 0, "failed", "none"),
    Fault("bad-chunk", Saying(STREAM + chunk(FIRST), "await", b"zz\r\n", "pause", "close"),
          200, "cut", "cut", streaming=True, kept=FIRST),
    *(Fault(f"status-{code}", Saying(head(b"%d No" % code, JSON, body=error(f"no {code}", code=str(code)))),
            code, "answered", "error") for code in (400, 401, 404, 429, 500, 503)),
    Fault("status-500-text", Saying(head(b"500 No", b"content-type: text/html\r\n", body=b"<h1>oops</h1>")),
          500, "answered", "error"),
    Fault("error-as-stream", Saying(head(b"400 No", SSE, body=error("not as a stream"))),
          400, "answered", "error", streaming=True),
    Fault("error-in-stream", Saying(STREAM + chunk(FIRST) + chunk(BROKEN) + b"0\r\n\r\n"),
          200, "answered", "error", streaming=True),
    Fault("empty", Saying(head(b"200 OK", JSON, body=b"")), 200, "answered", "raw", succeeded=True),
    Fault("not-json", Saying(head(b"200 OK", JSON, body=b"{oops")), 200, "answered", "raw", succeeded=True),
    Fault("until-close", Saying(head(b"200 OK", JSON, b"connection: close\r\n") + WHOLE, "close"),
          200, "answered", "complete", succeeded=True),
    *(Fault(coding, Saying(head(b"200 OK", JSON, b"content-encoding: %b\r\n" % coding.encode(), body=pack(WHOLE))),
            200, "answered", "complete", succeeded=True)
      for coding, pack in (("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress))),
    *(Fault(f"{coding}-stream",
            Saying(STREAM[:-2] + b"content-encoding: %b\r\n\r\n" % coding.encode()
                   + b"".join(map(chunk, pieces(FIRST + SECOND + LAST + DONE))) + b"0\r\n\r\n"),
            200, "answered", "complete", succeeded=True, streaming=True, kept=FIRST + SECOND + LAST + DONE)
      for coding, pieces in (("gzip", lambda data: _halves(gzip.compress(data))),
                             ("br", lambda data: _halves(brotli.compress(data))))),
    Fault("labelled-gzip", Saying(head(b"200 OK", JSON, b"content-encoding: gzip\r\n", body=WHOLE)),
          200, "answered", "complete", succeeded=True),
    Fault("gzip-cut", Saying(head(b"200 OK", JSON, b"content-encoding: gzip\r\n", body=gzip.compress(WHOLE)[:60])),
          200, "answered", "raw", succeeded=True),
]  # fmt: skip


class Faulty:
    """A provider that does as the header `x-act` says; it waits for `seen` where a step says so."""

    def __init__(self) -> None:
        self.acts: dict[str, Saying] = {fault.name: fault.says for fault in FAULTS}
        self.seen = threading.Semaphore(0)  # released when a client has got something
        self.bodies: list[bytes] = []  # as they came
        self.over = threading.Event()  # a test is over: whoever stalls may go

    def serve(self, connection: Any, request: bytes) -> bool:
        """Answer; False: the connection is no more."""
        act = next(line[7:] for line in request.decode("latin-1").split("\r\n") if line.lower().startswith("x-act: "))
        for step in self.acts[act].steps:
            if isinstance(step, bytes):
                connection.sendall(step)
            elif step == "await":
                self.seen.acquire(timeout=SECONDS_MAX)
            elif step == "pause":
                time.sleep(0.05)  # so that it is read before the connection breaks
            elif step == "stall":
                self.over.wait(SECONDS_MAX)
                return False
            elif step == "listen":
                connection.settimeout(SECONDS_MAX)
                with suppress(OSError):
                    connection.recv(1)
                return False
            elif step == "reset":
                Peer(connection).reset()
                return False
            else:
                return False
        return True


@pytest.fixture(scope="module")
def faulty() -> Iterator[tuple[Faulty, str]]:
    """The provider and where it is."""
    faults = Faulty()

    class Server(Provider):
        def _serve(self, connection: Any) -> None:
            _serve_faults(faults, connection, self)

    server = Server()
    yield faults, server.url
    faults.over.set()
    server.close()


def _serve_faults(faults: Faulty, connection: Any, server: Provider) -> None:
    from contextlib import suppress

    from support.upstream import _read_request

    with suppress(OSError), connection, connection.makefile("rb") as stream:
        while (request := _read_request(stream)) is not None:
            faults.bodies.append(request.body)
            if not faults.serve(connection, request.head):
                return


# -- clients: each returns what it got and how it complained


class Got(NamedTuple):
    """What an application is left with."""

    status: int
    body: bytes
    complaints: tuple[str, ...]  # the exception and those behind it


Seen = Callable[[], object]
Ask = Callable[[str, Fault, Seen], Got]


def complaints(exc: BaseException | None, url: str) -> tuple[str, ...]:
    """An exception, and those that it came from; without the address that was asked, and addresses in memory."""
    found = []
    base, _, prefix = url.partition("://")[2].partition("/")
    while exc is not None and len(found) < 5:
        text = f"{type(exc).__module__}.{type(exc).__name__}: {exc}"
        text = text.replace(f"{base}/{prefix}" if prefix else base, "WHERE").replace(base.rpartition(":")[2], "PORT")
        found.append(re.sub(r" at 0x[0-9a-f]+", "", text))
        exc = exc.__cause__ or exc.__context__
    return tuple(found)


def headers_of(fault: Fault) -> dict[str, str]:
    """What every client sends."""
    return {"x-act": fault.name, "authorization": f"Bearer {KEY}", "content-type": "application/json"}


def body_of(fault: Fault) -> bytes:
    """A request that can be told from others."""
    return json.dumps({"model": fault.name, "messages": [], "stream": fault.streaming}).encode()


def ask_httpx(url: str, fault: Fault, seen: Seen) -> Got:
    """httpx, reading what comes."""
    status, pieces = 0, []
    try:
        with (
            httpx.Client(timeout=STALL_S) as client,
            client.stream("POST", url + PATH, content=body_of(fault), headers=headers_of(fault)) as response,
        ):
            status = response.status_code
            for piece in response.iter_bytes():
                pieces.append(piece)
                seen()
    except Exception as exc:  # noqa: BLE001 (the complaint is the result)
        return Got(status, b"".join(pieces), complaints(exc, url))
    return Got(status, b"".join(pieces), ())


def ask_requests(url: str, fault: Fault, seen: Seen) -> Got:
    """The same with requests."""
    status, pieces = 0, []
    try:
        with (
            requests.Session() as session,
            session.post(
                url + PATH, data=body_of(fault), headers=headers_of(fault), stream=True, timeout=STALL_S
            ) as response,
        ):
            status = response.status_code
            for piece in response.iter_content(1):  # With None it waits for all of an answer that has a length.
                pieces.append(piece)
                if not fault.streaming or b"".join(pieces).endswith(b"\n\n"):
                    seen()
    except Exception as exc:  # noqa: BLE001
        return Got(status, b"".join(pieces), complaints(exc, url))
    return Got(status, b"".join(pieces), ())


def ask_aiohttp(url: str, fault: Fault, seen: Seen) -> Got:
    """The same with aiohttp."""
    pieces: list[bytes] = []
    statuses = [0]

    async def ask() -> None:
        timeout = aiohttp.ClientTimeout(sock_read=STALL_S, total=4 * STALL_S)  # A bad chunk would keep it for ever.
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url + PATH, data=body_of(fault), headers=headers_of(fault)) as response,
        ):
            statuses.append(response.status)
            async for piece in response.content.iter_any():
                pieces.append(piece)
                seen()

    try:
        asyncio.run(ask())
    except Exception as exc:  # noqa: BLE001
        return Got(statuses[-1], b"".join(pieces), complaints(exc, url))
    return Got(statuses[-1], b"".join(pieces), ())


def ask_openai(url: str, fault: Fault, seen: Seen) -> Got:
    """The openai SDK: its own exceptions, and what it understood."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=STALL_S)
    pieces: list[str] = []
    options: Any = {"model": fault.name, "messages": [], "extra_headers": {"x-act": fault.name}}
    try:
        with client:
            if not fault.streaming:
                seen()  # It has no way to say that something came.
                return Got(200, client.chat.completions.create(**options).model_dump_json().encode(), ())
            for one in client.chat.completions.create(**options, stream=True):
                pieces.append(one.model_dump_json())
                seen()
    except Exception as exc:  # noqa: BLE001
        return Got(getattr(exc, "status_code", 0), "".join(pieces).encode(), complaints(exc, url))
    return Got(200, "".join(pieces).encode(), ())


LENIENT = ("close-mid-head", "bad-header")  # To requests, these are answers.
CLIENTS: dict[str, Ask] = {
    "httpx": ask_httpx, "requests": ask_requests, "aiohttp": ask_aiohttp, "openai": ask_openai,
}  # fmt: skip


# -- edges


class Edge(Protocol):
    """A way in which calls are seen."""

    url: str
    folder: Path

    def ask(self, work: Callable[[str], Got]) -> Got:
        """Do something while it watches."""
        ...

    def traces(self, count: int) -> list[TraceOnDisk]:
        """What it has kept since the last time, once there is so much of it."""
        ...


class Proxied:
    """Through the command."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder = folder
        self.url = f"{base}/openai"
        self._known: set[str] = set()

    def ask(self, work: Callable[[str], Got]) -> Got:
        """The proxy is there all the time."""
        return work(self.url)

    def traces(self, count: int) -> list[TraceOnDisk]:
        """They come in their own time."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            found = read_traces(self.folder, self._known)
            if len(found) >= count or time.monotonic() > until:
                self._known |= {one.trace["id"] for one in found}
                return found
            time.sleep(0.02)


class InProcess:
    """With a capture."""

    def __init__(self, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.url = url
        self._known: set[str] = set()
        monkeypatch.chdir(folder)

    def ask(self, work: Callable[[str], Got]) -> Got:
        """A capture each time."""
        with traceforge.capture() as seen:
            got = work(self.url)
        assert (0, 0) == (seen.open, seen.lost)
        return got

    def traces(self, count: int) -> list[TraceOnDisk]:
        """They are there when the capture has ended."""
        found = read_traces(self.folder, self._known)
        self._known |= {one.trace["id"] for one in found}
        return found


@pytest.fixture(scope="module")
def proxied(faulty: tuple[Faulty, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """One proxy for all of them."""
    folder = tmp_path_factory.mktemp("proxied")
    with proxy_process(folder, {"openai": faulty[1]}) as (base, _):
        yield Proxied(folder, base)


@pytest.fixture(params=["proxy", "inprocess"])
def edge(request: pytest.FixtureRequest, faulty: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edge:
    """Each of the two."""
    if request.param == "proxy":
        return request.getfixturevalue("proxied")  # type: ignore[no-any-return]
    return InProcess(tmp_path, faulty[1], monkeypatch)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "httpx")) for name in CLIENTS]
)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_the_same_fault_and_its_trace_is_true(
    fault: Fault, name: str, edge: Edge, faulty: tuple[Faulty, str]
) -> None:
    """Status, bytes, exceptions and their texts; and how the call ended, for one trace."""
    faults, url = faulty
    bare = ask(CLIENTS[name], url, fault, faults)
    got = edge.ask(lambda where: ask(CLIENTS[name], where, fault, faults))

    assert bare == got
    (stored,) = edge.traces(1)
    wire, metadata = stored.trace["wire"], stored.trace["metadata"]
    stalled = "stall" in fault.name and isinstance(edge, Proxied)
    outcome = "left" if stalled else fault.outcome  # From there, a client that gives up has left.
    expected = (fault.status, outcome, fault.ending, "success" if fault.succeeded else "error")
    if name == "openai" and fault.streaming and outcome == "answered":  # It leaves at [DONE], or at an error.
        assert wire["outcome"] in ("answered", "left")
        expected = (fault.status, wire["outcome"], *expected[2:])
    if name == "requests" and fault.name in LENIENT and isinstance(edge, InProcess):
        expected = (200, "answered", "raw", "success")
    if isinstance(edge, InProcess) and name == "aiohttp" and fault.name == "bad-chunk":
        expected = (200, "left", "cut", "error")  # It notices nothing, until its time is over.
    if isinstance(edge, InProcess) and got.complaints and fault.succeeded:
        assert metadata["status"] == "success" or metadata["error"]  # It could not decode it, and read no further.
        return
    assert expected == (wire["status"], wire["outcome"], wire["ending"], metadata["status"]), metadata
    assert expected[3] == "success" or metadata["error"]
    if fault.kept is not None:
        assert fault.kept == b"".join(stored.chunks)
    assert [] == find_files_with(edge.folder, KEY.encode())


def ask(client: Ask, url: str, fault: Fault, faults: Faulty) -> Got:
    """Ask, and let the provider go on when something has come."""
    while faults.seen.acquire(blocking=False):
        pass
    faults.over.clear()
    try:
        return client(url, fault, faults.seen.release)
    finally:
        faults.over.set()
        faults.seen.release(9)


def test_a_client_that_leaves_mid_stream_is_said_to_have_left(edge: Edge, faulty: tuple[Faulty, str]) -> None:
    """What it got is kept, and the provider is let go at once."""
    faults, _ = faulty
    fault = Fault("leaves", Saying(STREAM + chunk(FIRST), "listen"), 200, "left", "cut", streaming=True)
    faults.acts[fault.name] = fault.says

    def leave(url: str) -> Got:
        with (
            httpx.Client() as client,
            client.stream("POST", url + PATH, content=body_of(fault), headers=headers_of(fault)) as response,
        ):
            return Got(response.status_code, next(response.iter_bytes()), ())

    got = edge.ask(lambda url: ask(lambda where, _fault, _seen: leave(where), url, fault, faults))

    assert FIRST == got.body
    (stored,) = edge.traces(1)
    wire = stored.trace["wire"]
    assert (200, "left", "cut", FIRST) == (wire["status"], wire["outcome"], wire["ending"], b"".join(stored.chunks))
    assert "error" == stored.trace["metadata"]["status"]


def test_a_client_that_leaves_at_done_has_a_whole_answer(edge: Edge, faulty: tuple[Faulty, str]) -> None:
    """openai closes there, and the provider may never end its body."""
    faults, _ = faulty
    whole = FIRST + SECOND + LAST + DONE
    fault = Fault("done", Saying(STREAM + chunk(whole), "listen"), 200, "left", "complete", streaming=True)
    faults.acts[fault.name] = fault.says

    def read(url: str) -> Got:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=SECONDS_MAX) as client:
            stream = client.chat.completions.create(
                model="m", messages=[], stream=True, extra_headers={"x-act": fault.name}
            )
            return Got(200, "".join(one.choices[0].delta.content or "" for one in stream).encode(), ())

    got = edge.ask(lambda url: ask(lambda where, _fault, _seen: read(where), url, fault, faults))

    assert b"Paris" == got.body
    (stored,) = edge.traces(1)
    trace = stored.trace
    assert ("left", "complete", "success") == (
        trace["wire"]["outcome"],
        trace["wire"]["ending"],
        trace["metadata"]["status"],
    )
    assert "Paris" == trace["response"]["choices"][0]["message"]["content"]
    assert whole == b"".join(stored.chunks)


@pytest.mark.parametrize("coding", ["zstd", "gzip", "br"])
def test_a_request_that_is_compressed_goes_on_as_it_is_and_is_understood(
    edge: Edge, faulty: tuple[Faulty, str], coding: str
) -> None:
    """The provider gets the bytes that were sent; the trace has what they say."""
    faults, _ = faulty
    pack = {"zstd": zstandard.compress, "gzip": gzip.compress, "br": brotli.compress}[coding]
    fault = Fault("packed", Saying(head(b"200 OK", JSON, body=WHOLE)), 200, "answered", "complete")
    faults.acts[fault.name] = fault.says
    packed = pack(json.dumps({"model": "packed-model", "messages": [{"role": "user", "content": "hi"}]}).encode())
    faults.bodies.clear()
    got = edge.ask(lambda url: _post(url, packed, {**headers_of(fault), "content-encoding": coding}))

    assert (200, WHOLE) == (got.status, got.body)
    assert [packed] == faults.bodies
    (stored,) = edge.traces(1)
    assert "packed-model" == stored.trace["request"]["model"]
    assert [{"role": "user", "content": "hi"}] == stored.trace["request"]["messages"]


def _post(url: str, body: bytes, headers: dict[str, str]) -> Got:
    response = httpx.post(url + PATH, content=body, headers=headers)
    return Got(response.status_code, response.content, ())


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_what_is_no_model_call_goes_through_too(edge: Edge, faulty: tuple[Faulty, str], method: str) -> None:
    """A list of models; an answer to HEAD has a length and no body. In process a host must be named for it."""
    faults, url = faulty
    body = b'{"object": "list", "data": [{"id": "m", "object": "model"}]}'
    sent = head(b"200 OK", JSON, body=body)
    fault = Fault("models", Saying(sent[: -len(body)] if method == "HEAD" else sent), 200, "answered", "raw")
    faults.acts[fault.name] = fault.says
    if isinstance(edge, InProcess):
        (edge.folder / "traceforge.config.json").write_text(json.dumps({"hosts": [url.partition("://")[2]]}))

    def get(where: str) -> Got:
        response = httpx.request(method, f"{where}/v1/models?limit=2", headers=headers_of(fault))
        return Got(response.status_code, response.content + response.headers["content-length"].encode(), ())

    bare = get(url)
    assert bare == edge.ask(get)
    (stored,) = edge.traces(1)
    trace = stored.trace
    assert (method, 200, "answered") == (trace["wire"]["method"], trace["wire"]["status"], trace["wire"]["outcome"])
    assert "success" == trace["metadata"]["status"]
