"""Faults: the application sees what it would see without TraceForge, and the traces are true.

Each fault is met three times: without TraceForge, through `traceforge proxy`, and in process. The client's result and
exception must be the same each time; the trace on the disk says how the call ended.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
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
from support.faulty_provider import (
    DONE_EVENT,
    FAULTS,
    FIRST,
    FULL_BODY,
    JSON,
    KEY,
    LAST,
    PATH,
    PATIENT_S,
    SECOND,
    SECONDS_MAX,
    STALL_S,
    STREAM,
    Fault,
    FaultyProvider,
    Steps,
    chunk,
    head,
)
from support.upstream import Upstream as Provider


@pytest.fixture(scope="module")
def faulty() -> Iterator[tuple[FaultyProvider, str]]:
    """The provider and its URL."""
    faults = FaultyProvider()

    class Server(Provider):
        def _serve(self, connection: Any) -> None:
            _serve_faults(faults, connection, self)

    server = Server()
    yield faults, server.url
    faults.over.set()
    server.close()


def _serve_faults(faults: FaultyProvider, connection: Any, server: Provider) -> None:
    from contextlib import suppress

    from support.upstream import _read_request

    with suppress(OSError), connection, connection.makefile("rb") as stream:
        while (request := _read_request(stream)) is not None:
            faults.bodies.append(request.body)
            if not faults.serve(connection, request.head):
                return


# -- clients: each returns its result and its exceptions


class ClientResult(NamedTuple):
    """The result that an application sees."""

    status: int
    body: bytes
    errors: tuple[str, ...]  # the exception and its causes


OnPiece = Callable[[], object]
Client = Callable[[str, Fault, OnPiece], ClientResult]


def exception_chain(exc: BaseException | None, url: str) -> tuple[str, ...]:
    """The texts of an exception and its causes, without the address of the server and addresses in memory."""
    texts = []
    base, _, prefix = url.partition("://")[2].partition("/")
    while exc is not None and len(texts) < 5:
        text = f"{type(exc).__module__}.{type(exc).__name__}: {exc}"
        text = text.replace(f"{base}/{prefix}" if prefix else base, "WHERE").replace(base.rpartition(":")[2], "PORT")
        texts.append(re.sub(r" at 0x[0-9a-f]+", "", text))
        exc = exc.__cause__ or exc.__context__
    return tuple(texts)


def headers_of(fault: Fault) -> dict[str, str]:
    """The headers of every client."""
    return {"x-act": fault.name, "authorization": f"Bearer {KEY}", "content-type": "application/json"}


def body_of(fault: Fault) -> bytes:
    """A request that is different for every fault."""
    return json.dumps({"model": fault.name, "messages": [], "stream": fault.streaming}).encode()


def timeout_s(fault: Fault) -> float:
    """How long a client waits. A bad chunk would block aiohttp for ever."""
    return STALL_S if "stall" in fault.name or fault.name == "bad-chunk" else PATIENT_S


def ask_httpx(url: str, fault: Fault, on_piece: OnPiece) -> ClientResult:
    """httpx, reading pieces as they arrive."""
    status, pieces = 0, []
    try:
        with (
            httpx.Client(timeout=timeout_s(fault)) as client,
            client.stream("POST", url + PATH, content=body_of(fault), headers=headers_of(fault)) as response,
        ):
            status = response.status_code
            for piece in response.iter_bytes():
                pieces.append(piece)
                on_piece()
    except Exception as exc:  # noqa: BLE001 (the exception is the result)
        return ClientResult(status, b"".join(pieces), exception_chain(exc, url))
    return ClientResult(status, b"".join(pieces), ())


def ask_requests(url: str, fault: Fault, on_piece: OnPiece) -> ClientResult:
    status, pieces = 0, []
    try:
        with (
            requests.Session() as session,
            session.post(
                url + PATH, data=body_of(fault), headers=headers_of(fault), stream=True, timeout=timeout_s(fault)
            ) as response,
        ):
            status = response.status_code
            for piece in response.iter_content(1):  # With None it waits for a whole answer of known length.
                pieces.append(piece)
                if not fault.streaming or b"".join(pieces).endswith(b"\n\n"):
                    on_piece()
    except Exception as exc:  # noqa: BLE001
        return ClientResult(status, b"".join(pieces), exception_chain(exc, url))
    return ClientResult(status, b"".join(pieces), ())


def ask_aiohttp(url: str, fault: Fault, on_piece: OnPiece) -> ClientResult:
    pieces: list[bytes] = []
    statuses = [0]

    async def run_client() -> None:
        seconds = timeout_s(fault)
        timeout = aiohttp.ClientTimeout(sock_read=seconds, total=4 * seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url + PATH, data=body_of(fault), headers=headers_of(fault)) as response,
        ):
            statuses.append(response.status)
            async for piece in response.content.iter_any():
                pieces.append(piece)
                on_piece()

    try:
        asyncio.run(run_client())
    except Exception as exc:  # noqa: BLE001
        return ClientResult(statuses[-1], b"".join(pieces), exception_chain(exc, url))
    return ClientResult(statuses[-1], b"".join(pieces), ())


def ask_openai(url: str, fault: Fault, on_piece: OnPiece) -> ClientResult:
    """The openai SDK: its own exceptions, and the parsed answer."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=timeout_s(fault))
    pieces: list[str] = []
    options: Any = {"model": fault.name, "messages": [], "extra_headers": {"x-act": fault.name}}
    try:
        with client:
            if not fault.streaming:
                on_piece()  # It has no callback for pieces.
                return ClientResult(200, client.chat.completions.create(**options).model_dump_json().encode(), ())
            for part in client.chat.completions.create(**options, stream=True):
                pieces.append(part.model_dump_json())
                on_piece()
    except Exception as exc:  # noqa: BLE001
        return ClientResult(getattr(exc, "status_code", 0), "".join(pieces).encode(), exception_chain(exc, url))
    return ClientResult(200, "".join(pieces).encode(), ())


LENIENT = ("close-mid-head", "bad-header")  # requests accepts these as answers.
CLIENTS: dict[str, Client] = {
    "httpx": ask_httpx, "requests": ask_requests, "aiohttp": ask_aiohttp, "openai": ask_openai,
}  # fmt: skip


# -- edges


class Recording(Protocol):
    """A way to record calls."""

    url: str
    folder: Path

    def run(self, work: Callable[[str], ClientResult]) -> ClientResult:
        """Run `work` while calls are recorded."""
        ...

    def traces(self, count: int) -> list[TraceOnDisk]:
        """The new traces, once there are `count` of them."""
        ...


class ProxyRecording:
    """Through `traceforge proxy`."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder = folder
        self.url = f"{base}/openai"
        self._known: set[str] = set()

    def run(self, work: Callable[[str], ClientResult]) -> ClientResult:
        return work(self.url)

    def traces(self, count: int) -> list[TraceOnDisk]:
        """Waits: the proxy writes them later."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            traces = read_traces(self.folder, self._known)
            if len(traces) >= count or time.monotonic() > until:
                self._known |= {stored.trace["id"] for stored in traces}
                return traces
            time.sleep(0.02)


class CaptureRecording:
    """With `traceforge.capture()`."""

    def __init__(self, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.url = url
        self._known: set[str] = set()
        monkeypatch.chdir(folder)

    def run(self, work: Callable[[str], ClientResult]) -> ClientResult:
        with traceforge.capture() as on_piece:
            actual = work(self.url)
        assert (0, 0) == (on_piece.open, on_piece.lost)
        return actual

    def traces(self, count: int) -> list[TraceOnDisk]:
        traces = read_traces(self.folder, self._known)
        self._known |= {stored.trace["id"] for stored in traces}
        return traces


@pytest.fixture(scope="module")
def proxy_recording(
    faulty: tuple[FaultyProvider, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxyRecording]:
    """One proxy for all of them."""
    folder = tmp_path_factory.mktemp("proxied")
    with proxy_process(folder, {"openai": faulty[1]}) as (base, _):
        yield ProxyRecording(folder, base)


@pytest.fixture(params=["proxy", "inprocess"])
def recording(
    request: pytest.FixtureRequest, faulty: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Recording:
    """Each of the two."""
    if request.param == "proxy":
        return request.getfixturevalue("proxy_recording")  # type: ignore[no-any-return]
    return CaptureRecording(tmp_path, faulty[1], monkeypatch)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "httpx")) for name in CLIENTS]
)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("recording", [pytest.param("proxy", marks=pytest.mark.slow), "inprocess"], indirect=True)
def test_a_fault_looks_the_same_with_recording_and_its_trace_is_true(
    fault: Fault, name: str, recording: Recording, faulty: tuple[FaultyProvider, str]
) -> None:
    """Status, bytes, exceptions and their texts; one trace with the call's outcome."""
    faults, url = faulty
    bare = run_client(CLIENTS[name], url, fault, faults)
    actual = recording.run(lambda where: run_client(CLIENTS[name], where, fault, faults))

    assert bare == actual
    (stored,) = recording.traces(1)
    wire, metadata = stored.trace["wire"], stored.trace["metadata"]
    stalled = "stall" in fault.name and isinstance(recording, ProxyRecording)
    outcome = "left" if stalled else fault.outcome  # The proxy sees that the client left.
    expected = (fault.status, outcome, fault.ending, "success" if fault.succeeded else "error")
    if name == "openai" and fault.streaming and outcome == "answered":  # It closes at [DONE], or at an error.
        assert wire["outcome"] in ("answered", "left")
        expected = (fault.status, wire["outcome"], *expected[2:])
    if name == "requests" and fault.name in LENIENT and isinstance(recording, CaptureRecording):
        expected = (200, "answered", "raw", "success")
    if isinstance(recording, CaptureRecording) and name == "aiohttp" and fault.name == "bad-chunk":
        expected = (200, "left", "cut", "error")  # It notices nothing until its timeout.
    if isinstance(recording, CaptureRecording) and actual.errors and fault.succeeded:
        assert (
            metadata["status"] == "success" or metadata["error"]
        )  # It could not decode the body, and stopped reading.
        return
    assert expected == (wire["status"], wire["outcome"], wire["ending"], metadata["status"]), metadata
    assert expected[3] == "success" or metadata["error"]
    if fault.recorded is not None:
        assert fault.recorded == b"".join(stored.chunks)
    assert [] == find_files_with(recording.folder, KEY.encode())


def run_client(client: Client, url: str, fault: Fault, faults: FaultyProvider) -> ClientResult:
    """Call with a client; the provider continues as the client receives pieces."""
    while faults.seen.acquire(blocking=False):
        pass
    faults.over.clear()
    try:
        return client(url, fault, faults.seen.release)
    finally:
        faults.over.set()
        faults.seen.release(9)


def test_a_client_that_leaves_mid_stream_has_the_outcome_left(
    recording: Recording, faulty: tuple[FaultyProvider, str]
) -> None:
    """The received pieces are recorded, and the provider's connection is closed at once."""
    faults, _ = faulty
    fault = Fault("leaves", Steps(STREAM + chunk(FIRST), "listen"), 200, "left", "cut", streaming=True)
    faults.acts[fault.name] = fault.steps

    def leave(url: str) -> ClientResult:
        with (
            httpx.Client() as client,
            client.stream("POST", url + PATH, content=body_of(fault), headers=headers_of(fault)) as response,
        ):
            return ClientResult(response.status_code, next(response.iter_bytes()), ())

    actual = recording.run(lambda url: run_client(lambda where, _fault, _on_piece: leave(where), url, fault, faults))

    assert FIRST == actual.body
    (stored,) = recording.traces(1)
    wire = stored.trace["wire"]
    assert (200, "left", "cut", FIRST) == (wire["status"], wire["outcome"], wire["ending"], b"".join(stored.chunks))
    assert "error" == stored.trace["metadata"]["status"]


def test_a_client_that_leaves_at_done_has_a_complete_answer(
    recording: Recording, faulty: tuple[FaultyProvider, str]
) -> None:
    """openai closes there, and the provider may never end its body."""
    faults, _ = faulty
    stream_body = FIRST + SECOND + LAST + DONE_EVENT
    fault = Fault("done", Steps(STREAM + chunk(stream_body), "listen"), 200, "left", "complete", streaming=True)
    faults.acts[fault.name] = fault.steps

    def read(url: str) -> ClientResult:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=SECONDS_MAX) as client:
            stream = client.chat.completions.create(
                model="m", messages=[], stream=True, extra_headers={"x-act": fault.name}
            )
            return ClientResult(200, "".join(part.choices[0].delta.content or "" for part in stream).encode(), ())

    actual = recording.run(lambda url: run_client(lambda where, _fault, _on_piece: read(where), url, fault, faults))

    assert b"Paris" == actual.body
    (stored,) = recording.traces(1)
    trace = stored.trace
    assert ("left", "complete", "success") == (
        trace["wire"]["outcome"],
        trace["wire"]["ending"],
        trace["metadata"]["status"],
    )
    assert "Paris" == trace["response"]["choices"][0]["message"]["content"]
    assert stream_body == b"".join(stored.chunks)


@pytest.mark.parametrize("coding", ["zstd", "gzip", "br"])
def test_a_compressed_request_is_passed_on_unchanged_and_decoded_in_its_trace(
    recording: Recording, faulty: tuple[FaultyProvider, str], coding: str
) -> None:
    faults, _ = faulty
    pack = {"zstd": zstandard.compress, "gzip": gzip.compress, "br": brotli.compress}[coding]
    fault = Fault("packed", Steps(head(b"200 OK", JSON, body=FULL_BODY)), 200, "answered", "complete")
    faults.acts[fault.name] = fault.steps
    packed = pack(json.dumps({"model": "packed-model", "messages": [{"role": "user", "content": "hi"}]}).encode())
    faults.bodies.clear()
    actual = recording.run(lambda url: _post(url, packed, {**headers_of(fault), "content-encoding": coding}))

    assert (200, FULL_BODY) == (actual.status, actual.body)
    assert [packed] == faults.bodies
    (stored,) = recording.traces(1)
    assert "packed-model" == stored.trace["request"]["model"]
    assert [{"role": "user", "content": "hi"}] == stored.trace["request"]["messages"]


def _post(url: str, body: bytes, headers: dict[str, str]) -> ClientResult:
    response = httpx.post(url + PATH, content=body, headers=headers)
    return ClientResult(response.status_code, response.content, ())


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_other_requests_are_passed_on(recording: Recording, faulty: tuple[FaultyProvider, str], method: str) -> None:
    """A list of models; HEAD, whose answer has a length and no body. In process its host must be configured."""
    faults, url = faulty
    body = b'{"object": "list", "data": [{"id": "m", "object": "model"}]}'
    sent = head(b"200 OK", JSON, body=body)
    fault = Fault("models", Steps(sent[: -len(body)] if method == "HEAD" else sent), 200, "answered", "raw")
    faults.acts[fault.name] = fault.steps
    if isinstance(recording, CaptureRecording):
        (recording.folder / "traceforge.config.json").write_text(json.dumps({"hosts": [url.partition("://")[2]]}))

    def get(where: str) -> ClientResult:
        response = httpx.request(method, f"{where}/v1/models?limit=2", headers=headers_of(fault))
        return ClientResult(response.status_code, response.content + response.headers["content-length"].encode(), ())

    bare = get(url)
    assert bare == recording.run(get)
    (stored,) = recording.traces(1)
    trace = stored.trace
    assert (method, 200, "answered") == (trace["wire"]["method"], trace["wire"]["status"], trace["wire"]["outcome"])
    assert "success" == trace["metadata"]["status"]
