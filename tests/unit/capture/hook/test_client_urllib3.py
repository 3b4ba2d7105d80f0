"""urllib3 used directly: its retries, redirects, proxies and bodies are its own, and each attempt is one call."""

from __future__ import annotations

import io
import socket
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.util import Retry

import traceforge
from support.exchanges import make_exchange
from support.replay_player import make_player
from support.upstream import ScriptedResponse, Upstream, uncalled_upstream, upstream
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.recorder import MemoryRecorder
from traceforge.exchange import CallOutcome, Exchange

PATH = "/v1/chat/completions"
QUESTION = b'{"model":"m","messages":[]}'
JSON_TYPE = {"Content-Type": "application/json"}
ANSWER = ScriptedResponse([b'{"n":', b"1}"])


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


def ask(url: str, **options: object) -> tuple[urllib3.BaseHTTPResponse, list[Exchange]]:
    """A response, and the exchanges that were recorded."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink), urllib3.PoolManager() as pool:
        response = pool.request("POST", url, **{"body": QUESTION, "headers": JSON_TYPE, **options})  # type: ignore[arg-type]
    return response, list(sink.exchanges)


def test_each_attempt_of_a_retry_is_a_call(server: Upstream) -> None:
    """urllib3 decides that it asks again, and sends the same body."""
    server.respond_with(ScriptedResponse([b"{}"], status=503), ANSWER)
    retries = Retry(2, status_forcelist=[503], allowed_methods=None, backoff_factor=0)

    response, exchanges = ask(server.url + PATH, retries=retries)

    assert (200, b'{"n":1}', [QUESTION] * 2) == (
        response.status,
        response.data,
        [request.body for request in server.received],
    )
    assert [(503, b"{}"), (200, b'{"n":1}')] == [
        (exchange.status, b"".join(chunk.data for chunk in exchange.chunks)) for exchange in exchanges
    ]


def test_a_body_that_is_cut_while_urllib3_reads_ahead_is_asked_for_again(server: Upstream) -> None:
    """It reads before its caller has a response, and an error there is one of the attempt."""
    server.respond_with(ScriptedResponse([b"{"], reset=True), ANSWER)

    response, exchanges = ask(server.url + PATH, retries=Retry(2, allowed_methods=None, backoff_factor=0))

    assert b'{"n":1}' == response.data
    assert [CallOutcome.CUT, CallOutcome.ANSWERED] == [exchange.outcome for exchange in exchanges]


def test_a_refused_connection_is_a_failed_call(server: Upstream) -> None:
    """And raises what it raises without a hook."""
    sink = MemoryRecorder()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        traceforge.capture(sink=sink),
        urllib3.PoolManager() as pool,
        pytest.raises(urllib3.exceptions.NewConnectionError),
    ):
        pool.request("POST", f"http://127.0.0.1:{port}{PATH}", body=QUESTION, retries=False)

    assert [CallOutcome.FAILED] == [exchange.outcome for exchange in sink.exchanges]


def test_a_redirect_is_a_call_of_its_own(server: Upstream) -> None:
    """With the method and the body that urllib3 chooses."""
    server.respond_with(ScriptedResponse([b""], status=307, headers={"location": f"{PATH}?again=1"}), ANSWER)

    response, exchanges = ask(server.url + PATH)

    assert b'{"n":1}' == response.data
    assert [(307, QUESTION), (200, QUESTION)] == [(exchange.status, exchange.request_body) for exchange in exchanges]


@pytest.mark.parametrize(
    "body",
    [
        QUESTION.decode(),
        bytearray(QUESTION),
        memoryview(QUESTION),
        io.BytesIO(QUESTION),
        io.StringIO(QUESTION.decode()),
        [QUESTION[:5], QUESTION[5:]],
    ],
    ids=lambda body: type(body).__name__,
)
def test_every_kind_of_body_is_sent_and_recorded(server: Upstream, body: object) -> None:
    server.respond_with(ANSWER)

    _, exchanges = ask(server.url + PATH, body=body)

    assert (QUESTION, [QUESTION]) == (server.received[0].body, [exchange.request_body for exchange in exchanges])


def test_a_body_that_urllib3_refuses_is_named_in_its_error(server: Upstream) -> None:
    """Not an object of ours around it."""
    with pytest.raises(TypeError, match=r"Instead was 5\Z"):
        ask(server.url + PATH, body=5, retries=False)


def test_our_headers_are_not_sent_and_the_client_is_told_the_trace(server: Upstream) -> None:
    """The application's own headers stay as they were."""
    server.respond_with(ANSWER)
    headers = {**JSON_TYPE, "X-TraceForge-Session-ID": "order-17"}

    response, (exchange,) = ask(server.url + PATH, headers=headers)

    assert b"traceforge" not in server.received[0].head.lower()
    assert "order-17" == headers["X-TraceForge-Session-ID"]
    assert exchange.id == response.headers["X-TraceForge-Trace-ID"]


def test_a_call_of_requests_is_seen_once(server: Upstream) -> None:
    """Although it goes through urllib3; also one that nobody records."""
    server.respond_with(ANSWER)
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        requests.post(server.url + PATH, data=QUESTION, timeout=9)
        requests.post(f"{server.url}/other", data=QUESTION, timeout=9)

    assert (2, 1) == (len(server.received), len(sink.exchanges))


class TracedPool(HTTPConnectionPool):
    """Sends a copy of the headers, with its own, as a tracer does."""

    def urlopen(self, *args: Any, headers: Any = None, **options: Any) -> Any:
        return super().urlopen(*args, headers={**headers, "traceparent": "00-1"}, **options)


def test_a_call_of_requests_is_seen_once_below_a_tracer(server: Upstream) -> None:
    server.respond_with(ANSWER)
    session, adapter, sink = requests.Session(), requests.adapters.HTTPAdapter(), MemoryRecorder()
    adapter.poolmanager.pool_classes_by_scheme = {"http": TracedPool}
    session.mount("http://", adapter)
    with traceforge.capture(sink=sink):
        session.post(server.url + PATH, data=QUESTION, timeout=9)

    assert b"traceparent" in server.received[0].head
    assert 1 == len(sink.exchanges)


class AdapterWithQuestion(requests.adapters.HTTPAdapter):
    """Asks a model for a header."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def add_headers(self, request: requests.PreparedRequest, **_options: object) -> None:
        request.headers["X-Answer"] = urllib3.PoolManager().request("POST", self.url, body=QUESTION).data


@pytest.mark.parametrize("path", ["/other", PATH])
def test_a_call_that_is_made_within_one_of_requests_is_seen(server: Upstream, path: str) -> None:
    """A generator of its body asks a model, or an adapter does. The call around it may ask one, too."""

    def generate() -> Iterator[bytes]:
        yield urllib3.PoolManager().request("POST", server.url + PATH, body=QUESTION).data

    server.respond_with(*[ANSWER] * 4)
    session = requests.Session()
    session.mount(server.url, AdapterWithQuestion(server.url + PATH))
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        requests.post(server.url + path, data=generate(), timeout=9)
        session.post(server.url + path, data=b"{}", timeout=9)

    calls_around = 2 if path == PATH else 0
    assert 2 == [exchange.request_body for exchange in sink.exchanges].count(QUESTION)
    assert (4, 2 + calls_around) == (len(server.received), len(sink.exchanges))


def test_other_calls_are_passed_on_as_they_are(server: Upstream) -> None:
    """An upload of a file keeps its own object, position and length."""
    server.respond_with(ANSWER)
    file = io.BytesIO(b"--" + b"x" * 100_000)
    file.seek(2)

    response, exchanges = ask(f"{server.url}/bucket/soup", body=file, headers={"Content-Length": "100000"})

    assert (200, 100_000, []) == (response.status, len(server.received[0].body), exchanges)


def test_a_hook_is_gone_after_the_last_capture(server: Upstream) -> None:
    before = HTTPConnectionPool.urlopen, HTTPConnectionPool._make_request, urllib3.HTTPResponse.__init__
    server.respond_with(ANSWER)

    ask(server.url + PATH)

    after = HTTPConnectionPool.urlopen, HTTPConnectionPool._make_request, urllib3.HTTPResponse.__init__
    assert before == after


def test_a_replayed_call_opens_no_tunnel(tmp_path: Path) -> None:
    """Neither to the proxy that code names, nor to the host behind it."""
    exchange = make_exchange(f"https://h.example{PATH}", QUESTION, b'{"n":1}')
    with (
        uncalled_upstream() as proxy,
        traceforge.replay(player=make_player(tmp_path, exchange)) as replayed,
        urllib3.ProxyManager(proxy.url) as pool,
    ):
        response = pool.request("POST", f"https://h.example{PATH}", body=QUESTION, headers=JSON_TYPE)

    assert (b'{"n":1}', 1) == (response.data, replayed.played)


def test_urllib3_retries_a_replayed_error(tmp_path: Path) -> None:
    """As it did when the attempts were recorded."""
    url = f"https://h.example{PATH}"
    player = make_player(
        tmp_path,
        make_exchange(url, QUESTION, b"{}", status=503, number=1),
        make_exchange(url, QUESTION, b"[]", number=2),
    )
    retries = Retry(2, status_forcelist=[503], allowed_methods=None, backoff_factor=0)
    with traceforge.replay(player=player) as replayed, urllib3.PoolManager() as pool:
        response = pool.request("POST", url, body=QUESTION, headers=JSON_TYPE, retries=retries)

    assert (200, b"[]", 2) == (response.status, response.data, replayed.played)


def test_a_replayed_retry_finds_a_generator_used_up(tmp_path: Path) -> None:
    """As without a replay: urllib3 cannot begin it again, and sends nothing."""
    url = f"https://h.example{PATH}"
    player = make_player(
        tmp_path,
        make_exchange(url, QUESTION, b"{}", status=503, number=1),
        make_exchange(url, b"", b"[]", number=2),
    )
    retries = Retry(2, status_forcelist=[503], allowed_methods=None, backoff_factor=0)
    with traceforge.replay(player=player) as replayed, urllib3.PoolManager() as pool:
        body = iter([QUESTION[:5], QUESTION[5:]])
        response = pool.request("POST", url, body=body, headers=JSON_TYPE, retries=retries)

    assert (200, b"[]", 2) == (response.status, response.data, replayed.played)


def test_an_array_replays_by_its_bytes(tmp_path: Path) -> None:
    """As urllib3 sends it, not by its numbers."""
    numbers = array("H", [258, 772])
    url = f"https://h.example{PATH}"
    player = make_player(tmp_path, make_exchange(url, numbers.tobytes(), b"{}"))
    with traceforge.replay(player=player), urllib3.PoolManager() as pool:
        response = pool.request("POST", url, body=numbers, headers=JSON_TYPE)

    assert b"{}" == response.data


def test_a_replayed_response_has_what_a_client_reads_of_it(tmp_path: Path) -> None:
    """Its version in words, a socket to shut down, and, through requests, its retries and its address."""
    url = f"https://h.example{PATH}"
    player = make_player(tmp_path, *(make_exchange(url, QUESTION, b"{}", number=number) for number in range(2)))
    with traceforge.replay(player=player), urllib3.PoolManager() as pool:
        response = pool.request("POST", url, body=QUESTION, headers=JSON_TYPE, preload_content=False)
        response.shutdown()
        raw = requests.post(url, data=QUESTION, headers=JSON_TYPE, timeout=9).raw

    assert "HTTP/1.1" == response.version_string
    assert ("HTTP/1.1", PATH, ()) == (raw.version_string, raw.geturl(), raw.retries.history)


def test_a_pool_that_blocks_gets_its_connection_back(tmp_path: Path) -> None:
    """A replayed response returns the connection that was never opened."""
    url = f"https://h.example{PATH}"
    player = make_player(tmp_path, *(make_exchange(url, QUESTION, b"{}", number=number) for number in range(3)))
    with (
        traceforge.replay(player=player),
        urllib3.HTTPSConnectionPool("h.example", maxsize=1, block=True) as pool,
    ):
        for preload in (True, False, True):
            response = pool.urlopen(
                "POST", PATH, QUESTION, JSON_TYPE, pool_timeout=1, preload_content=preload, retries=False
            )
            assert b"{}" == response.data
            response.release_conn()
