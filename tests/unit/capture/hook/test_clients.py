"""Every hooked client: the application gets what it would get without the hook, and each call is recorded once."""

from __future__ import annotations

import asyncio
import gzip
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import aiohttp
import httpx
import httpx2
import pytest
import requests

import traceforge
from support.http_clients import DRIVERS, ClientResponse, Driver
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.recorder import MemoryRecorder
from traceforge.exchange import CallOutcome, Exchange

PATH = "/v1/chat/completions"
BODY = b'{"model": "m", "messages": []}'
SSE = [b'data: {"a": 1}\n\n', b'data: {"a": 2}\n\n', b"data: [DONE]\n\n"]

each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as server:
        yield server


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """No test may pass because a failure of the hook was swallowed."""
    before = faults.count
    yield
    assert before == faults.count, faults.first


def run_captured(work: Callable[[], object]) -> tuple[object, list[Exchange]]:
    """What `work` returns or raises under a capture, and the recorded exchanges."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        try:
            result: object = work()
        except Exception as exc:  # noqa: BLE001 (the error is the result)
            result = exc
    return result, list(sink.exchanges)


def run_without_and_with_hook(
    server: Upstream, answer: Callable[[], ScriptedResponse], work: Callable[[], ClientResponse]
) -> tuple[ClientResponse, Exchange]:
    """Run it without and with the hook: the application and the upstream must see the same."""
    server.respond_with(answer())
    bare, bare_received = work(), server.received
    server.respond_with(answer())
    response, (exchange,) = run_captured(work)
    assert bare == response
    assert bare_received == server.received
    return bare, exchange


@each_driver
def test_a_call_is_recorded_once_and_not_changed(driver: Driver, server: Upstream) -> None:
    """The request, the response and every byte on the wire are as without the hook."""
    url = server.url + PATH
    response, exchange = run_without_and_with_hook(
        server, lambda: ScriptedResponse([b'{"id": "x"}']), lambda: driver.post(url, BODY)
    )

    assert (200, b'{"id": "x"}') == (response.status, response.body)
    assert ("POST", url, BODY, 200, CallOutcome.ANSWERED) == (
        exchange.method, exchange.url, exchange.request_body, exchange.status, exchange.outcome,
    )  # fmt: skip
    assert b'{"id": "x"}' == b"".join(chunk.data for chunk in exchange.chunks)
    assert ("content-type", "application/json") in [(k.lower(), v) for k, v in exchange.response_headers]


@pytest.mark.parametrize("module", [httpx, httpx2], ids=lambda module: module.__name__)
def test_the_url_of_a_call_is_the_one_that_is_sent(server: Upstream, module: ModuleType) -> None:
    """httpx sends another path and query than those of the URL where an extension says so."""
    server.respond_with(ScriptedResponse([b"{}"]))
    target = {"target": b"/v9/chat/completions?model=other"}

    with module.Client() as client:
        _, (exchange,) = run_captured(lambda: client.post(server.url + PATH, content=BODY, extensions=target))

    assert f"{server.url}/v9/chat/completions?model=other" == exchange.url


@each_driver
def test_a_compressed_response_is_recorded_as_it_was_sent(driver: Driver, server: Upstream) -> None:
    """The application gets the text, the exchange has the bytes of the wire."""
    packed = gzip.compress(b'{"id": "packed"}', mtime=0)
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    response, exchange = run_without_and_with_hook(
        server, lambda: ScriptedResponse([packed], headers=headers), lambda: driver.post(server.url + PATH, BODY)
    )

    assert b'{"id": "packed"}' == response.body
    assert packed == b"".join(chunk.data for chunk in exchange.chunks)


@each_driver
@pytest.mark.parametrize("status", [204, 400, 429, 500])
def test_an_error_response_is_a_complete_response(driver: Driver, server: Upstream, status: int) -> None:
    """The outcome of a response that came to its end is `answered`, whatever its status."""
    pieces = [] if status == 204 else [b'{"error": {}}']
    _, exchange = run_without_and_with_hook(
        server, lambda: ScriptedResponse(pieces, status), lambda: driver.post(server.url + PATH, BODY)
    )

    assert (status, CallOutcome.ANSWERED) == (exchange.status, exchange.outcome)


@each_driver
def test_a_stream_is_handed_on_chunk_by_chunk_as_it_comes(driver: Driver, server: Upstream) -> None:
    """The server sends the next chunk only when the application has the one before."""

    def work() -> ClientResponse:
        permits = threading.Semaphore(0)
        server.respond_with(
            ScriptedResponse(SSE, headers={"content-type": "text/event-stream"}, chunked=True, permits=permits)
        )
        return driver.stream(server.url + PATH, BODY, lambda _: permits.release())

    bare = work()
    response, (exchange,) = run_captured(work)

    assert bare == response
    assert SSE == [chunk.data for chunk in exchange.chunks]
    assert CallOutcome.ANSWERED is exchange.outcome
    times = [chunk.t_ms for chunk in exchange.chunks]
    assert sorted(times) == times


@each_driver
def test_closing_a_stream_early_is_recorded_as_left(driver: Driver, server: Upstream) -> None:
    """The chunks that came before are recorded."""
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse(SSE, chunked=True, permits=permits))
    _, (exchange,) = run_captured(lambda: driver.stream(server.url + PATH, BODY, lambda _: True))
    permits.release(5)

    assert (CallOutcome.CLIENT_LEFT, [SSE[0]], 200) == (
        exchange.outcome,
        [chunk.data for chunk in exchange.chunks],
        exchange.status,
    )


@each_driver
def test_a_stream_that_the_server_breaks_off_is_cut(driver: Driver, server: Upstream) -> None:
    """The application sees the client's error, and the exchange has the chunks that came and the reason."""

    def work() -> ClientResponse:
        permits = threading.Semaphore(0)
        server.respond_with(ScriptedResponse(SSE[:2], chunked=True, permits=permits, reset=True))
        return driver.stream(server.url + PATH, BODY, lambda _: permits.release())

    with pytest.raises(driver.error) as bare:
        work()
    error, (exchange,) = run_captured(work)

    assert type(bare.value) is type(error)
    assert (CallOutcome.CUT, b"".join(SSE[:2])) == (
        exchange.outcome,
        b"".join(chunk.data for chunk in exchange.chunks),
    )
    assert "" != exchange.error


@each_driver
def test_a_response_shorter_than_its_content_length_is_cut(driver: Driver, server: Upstream) -> None:
    """The application sees the client's error, and the exchange has at least what the application had."""
    pieces: list[bytes] = []
    server.respond_with(ScriptedResponse(SSE[:2], reset=True))
    with pytest.raises(driver.error) as bare:
        driver.stream(server.url + PATH, BODY, lambda _: None)
    error, (exchange,) = run_captured(lambda: driver.stream(server.url + PATH, BODY, pieces.append))

    assert type(bare.value) is type(error)
    assert CallOutcome.CUT is exchange.outcome
    assert b"".join(chunk.data for chunk in exchange.chunks).startswith(b"".join(pieces))


@each_driver
def test_a_server_that_sends_nothing_is_a_failed_call(driver: Driver, server: Upstream) -> None:
    """The application sees the client's error, and the exchange has no response."""
    server.respond_with(ScriptedResponse([], silent=True))
    with pytest.raises(driver.error) as bare:
        driver.post(server.url + PATH, BODY)
    error, exchanges = run_captured(lambda: driver.post(server.url + PATH, BODY))

    assert type(bare.value) is type(error)
    assert {(CallOutcome.FAILED, 0, BODY)} == {
        (exchange.outcome, exchange.status, exchange.request_body) for exchange in exchanges
    }
    assert "" != exchanges[0].error


@each_driver
def test_a_refused_connection_is_a_failed_call(driver: Driver) -> None:
    """The server is closed."""
    with upstream() as closed:
        url = closed.url + PATH
    error, (exchange,) = run_captured(lambda: driver.post(url, BODY))

    assert isinstance(error, driver.error)
    assert (CallOutcome.FAILED, 0, url) == (exchange.outcome, exchange.status, exchange.url)


@each_driver
def test_a_request_that_streams_is_copied_as_it_goes(driver: Driver, server: Upstream) -> None:
    """The iterator is consumed once, and the upstream gets the same chunks."""
    _, exchange = run_without_and_with_hook(
        server,
        lambda: ScriptedResponse([b"{}"]),
        lambda: driver.post(server.url + PATH, iter([b'{"a":', b"1", b"}"])),
    )

    assert b'{"a":1}' == exchange.request_body


def test_a_form_with_files_is_copied_as_it_goes(server: Upstream) -> None:
    """However a client builds it: what the upstream got is what was recorded."""
    server.respond_with(ScriptedResponse([b"{}"]))
    url = server.url + PATH

    def form() -> dict[str, tuple[str, io.BytesIO, str]]:
        return {"file": ("a.txt", io.BytesIO(b"12345" * 20_000), "text/plain")}

    async def ask_async() -> None:
        async with httpx2.AsyncClient() as client:
            await client.post(url, files=form(), data={"purpose": "x"})
        async with aiohttp.ClientSession() as session:
            data = aiohttp.FormData({"purpose": "x"})
            data.add_field("file", io.BytesIO(b"12345" * 20_000), filename="a.txt")
            await (await session.post(url, data=data)).read()

    def ask() -> None:
        httpx.post(url, files=form(), data={"purpose": "x"})
        requests.post(url, files=form(), data={"purpose": "x"})
        with open(__file__, "rb") as file:
            requests.post(url, data=file)
        requests.post(url, data=io.StringIO("text"))
        asyncio.run(ask_async())

    result, exchanges = run_captured(ask)

    assert result is None
    assert [request.body for request in server.received] == [exchange.request_body for exchange in exchanges]
    assert 6 == len(exchanges)
    assert (Path(__file__).read_bytes(), b"text") == (exchanges[2].request_body, exchanges[3].request_body)


@each_driver
def test_headers_of_traceforge_do_not_go_upstream_and_the_response_names_the_trace(
    driver: Driver, server: Upstream
) -> None:
    """A client that sent one gets the id of its trace."""
    server.respond_with(ScriptedResponse([b"{}"]))
    headers = {"X-TraceForge-Session-ID": "s1", "X-Other": "1"}
    response, (exchange,) = run_captured(lambda: driver.post(server.url + PATH, BODY, headers))

    assert isinstance(response, ClientResponse)
    (received,) = server.received
    assert b"traceforge" not in received.head.lower()
    assert b"x-other: 1" in received.head.lower()
    assert "s1" == exchange.caller.session_id
    assert (exchange.id, "1") == (
        dict(response.headers)["x-traceforge-trace-id"],
        dict(response.headers)["x-traceforge-next-step"],
    )


@each_driver
@pytest.mark.parametrize("path", ["/v1/rows", "/telemetry", "/v1/threads/t/messages", "/v1/traces/ingest"])
def test_other_traffic_is_not_recorded(driver: Driver, server: Upstream, path: str) -> None:
    """A database, telemetry."""
    server.respond_with(ScriptedResponse([b"{}"]))
    response, exchanges = run_captured(lambda: driver.post(server.url + path, BODY))

    assert isinstance(response, ClientResponse)
    assert [] == exchanges
    assert [ReceivedRequest] == [type(request) for request in server.received]


def test_a_response_that_is_closed_late_does_not_end_the_next_call(server: Upstream) -> None:
    """aiohttp gives a connection back at the end of a response, which an application may close much later."""
    sink = MemoryRecorder()
    permits = threading.Semaphore(0)
    response = ScriptedResponse([b"{}"])
    stream = ScriptedResponse([b"data: 1\n\n", b"data: 2\n\n"], chunked=True, permits=permits)
    server.respond_with(response, stream)

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            first = await session.post(server.url + PATH)
            while not first.content.is_eof():
                await asyncio.sleep(0)
            async with session.post(server.url + PATH) as second:
                assert b"data: 1\n\n" == await second.content.readany()
                first.close()
                permits.release()
                assert b"data: 2\n\n" == await second.content.readany()
                await second.read()

    with traceforge.capture(sink=sink):
        asyncio.run(ask())

    assert [(CallOutcome.ANSWERED, b"{}"), (CallOutcome.ANSWERED, b"data: 1\n\ndata: 2\n\n")] == [
        (exchange.outcome, b"".join(chunk.data for chunk in exchange.chunks)) for exchange in sink.exchanges
    ]
