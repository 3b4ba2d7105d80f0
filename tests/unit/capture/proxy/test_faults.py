"""What goes wrong on either side: the client sees what it would have seen, and the exchange tells the truth."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from support.certificates import make_certificate, server_context
from support.raw_sockets import Peer, Proxy, Upstream, proxy_and_upstream, read_until_broken, request, response
from traceforge.capture.proxy import upstream_pool as pool_module
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.exchange import CallOutcome

Pair = tuple[Upstream, Proxy]
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def error_of(answer: bytes) -> tuple[int, str, str]:
    """Status, code and message of an answer of our own."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"x-should-retry" not in head.lower()
    error = json.loads(body)["error"]
    return int(head.split()[1]), error["code"], error["message"]


# -- the client leaves


def test_a_client_that_leaves_mid_stream_ends_the_upstream_call(pair: Pair) -> None:
    """At once, not at the next chunk; the chunks so far are recorded."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(STREAM + b"2\r\nab\r\n")
    client.read_until(b"ab\r\n")
    client.close()

    assert server.is_closed_by_peer()
    (exchange,) = proxy.sink.wait()
    assert (CallOutcome.CLIENT_LEFT, 200, [b"ab"]) == (
        exchange.outcome,
        exchange.status,
        [chunk.data for chunk in exchange.chunks],
    )


def test_a_client_that_leaves_before_the_response_ends_the_upstream_call(pair: Pair) -> None:
    """There is no status; the request is recorded."""
    upstream, proxy = pair
    client = proxy.post(body=b"ask")
    server = upstream.accept()
    server.request()
    client.reset()

    assert server.is_closed_by_peer()
    (exchange,) = proxy.sink.wait()
    assert (CallOutcome.CLIENT_LEFT, 0, b"ask") == (exchange.outcome, exchange.status, exchange.request_body)


def test_a_client_that_leaves_within_its_request_is_recorded(pair: Pair) -> None:
    """The upstream gets no end that the client did not send."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    server = upstream.accept()
    server.read_until(b"abc")
    client.close()

    assert server.is_closed_by_peer()
    (exchange,) = proxy.sink.wait()
    assert (CallOutcome.CLIENT_LEFT, b"abc") == (exchange.outcome, exchange.request_body)


def test_a_client_that_leaves_after_its_response_ends_no_call(pair: Pair) -> None:
    """The upstream connection stays for the next call."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response())
    client.response()
    client.close()
    proxy.post()
    server.request()

    assert [CallOutcome.ANSWERED] == [exchange.outcome for exchange in proxy.sink.wait()]


def test_a_client_that_leaves_while_we_connect_cancels_the_connection() -> None:
    """Nothing is left behind, and the call is recorded as left."""
    full = socket.create_server(("127.0.0.1", 0), backlog=0)  # It never accepts, so a later connection hangs.
    fillers = [socket.socket() for _ in range(8)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(full.getsockname())
    proxy = Proxy({"up": f"http://127.0.0.1:{full.getsockname()[1]}"})
    client = proxy.post()
    while not proxy.call(lambda: proxy.state.metrics.in_flight):
        pass
    client.close()

    (exchange,) = proxy.sink.wait()
    assert CallOutcome.CLIENT_LEFT is exchange.outcome
    proxy.stop()
    for sock in (*fillers, full):
        sock.close()


# -- the upstream breaks


@pytest.mark.parametrize(
    ("sent", "recorded_body"),
    [
        (STREAM + b"2\r\nab\r\n", b"ab"),
        (STREAM + b"5\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"ab"),
    ],
)
@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_upstream_that_breaks_off_breaks_off_for_the_client(
    pair: Pair, sent: bytes, recorded_body: bytes, how: str
) -> None:
    """The client's connection breaks in the same way, after the same bytes, without an invented end."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(sent)
    data = client.read_exactly(len(sent))
    getattr(server, how)()

    if how == "reset":
        with pytest.raises(ConnectionResetError):
            client.read_to_end()
    else:
        assert b"" == client.read_to_end()
    assert sent == data
    (exchange,) = proxy.sink.wait()
    assert (CallOutcome.CUT, 200, recorded_body) == (
        exchange.outcome,
        exchange.status,
        b"".join(chunk.data for chunk in exchange.chunks),
    )
    assert how in exchange.error


def test_a_reset_does_not_end_a_response_without_a_length(pair: Pair) -> None:
    """A close would have ended it; so the client gets a reset too."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\r\n\r\nab")
    client.read_until(b"ab")
    server.reset()

    with pytest.raises(ConnectionResetError):
        client.read_to_end()
    (exchange,) = proxy.sink.wait()
    assert CallOutcome.CUT is exchange.outcome


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\nContent-Le"])
def test_an_upstream_that_breaks_off_before_its_response_breaks_off_for_the_client(
    pair: Pair, how: str, begun: bytes
) -> None:
    """In the same way, after the same bytes: the application's client reports what it would have without us."""
    upstream, proxy = pair
    client = proxy.post("/up/v1/x?key=s3cret")
    server = upstream.accept()
    server.request()
    server.send(begun)
    if begun:
        while not proxy.call(lambda: any(connection._has_received for connection in upstreams(proxy))):
            pass
    getattr(server, how)()

    assert (begun if how == "close" else b"") == read_until_broken(client, how)
    (exchange,) = proxy.sink.wait()
    assert (CallOutcome.FAILED, 0) == (exchange.outcome, exchange.status)
    assert "s3cret" not in exchange.error
    assert {"no-answer": 1} == proxy.state.metrics.upstream_errors


def upstreams(proxy: Proxy) -> list[Any]:
    """The connections to the upstream that have a call."""
    calls = [connection._call for connection in proxy.state.connections]
    return [relay._upstream for relay in calls if relay is not None and relay._upstream is not None]


MALFORMED = [
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA b\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * (257 << 10),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 OK\r\n\r\n",
]


@pytest.mark.parametrize("answer", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_malformed_response_is_forwarded_unchanged(pair: Pair, answer: bytes, how: str, pieces: int) -> None:
    """With all that follows and its end; the call is recorded as failed."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    for part in [answer] if pieces == 1 else [answer[:14], answer[14:]]:
        server.send(part)
    (exchange,) = proxy.sink.wait()
    data = client.read_exactly(len(answer))
    server.send(b"more")
    more = client.read_exactly(4)
    getattr(server, how)()

    assert b"" == read_until_broken(client, how)
    assert (answer, b"more") == (data, more)
    assert (CallOutcome.FAILED, 0) == (exchange.outcome, exchange.status)
    assert exchange.error.startswith("malformed: ")
    assert {"malformed": 1} == proxy.state.metrics.upstream_errors


@pytest.mark.parametrize("answer", [b"zz\r\n", b"1\r\nabc\r\n"])
@pytest.mark.parametrize("together", [True, False])
def test_malformed_chunks_are_forwarded_unchanged(pair: Pair, answer: bytes, together: bool) -> None:
    """What came before them is recorded, and the response is marked as cut."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    if together:
        server.send(STREAM + b"2\r\nok\r\n" + answer)
    else:
        server.send(STREAM)
        client.read_head()
        server.send(b"2\r\nok\r\n" + answer)
    (exchange,) = proxy.sink.wait()
    server.close()

    assert (STREAM if together else b"") + b"2\r\nok\r\n" + answer == client.read_to_end()
    assert (CallOutcome.CUT, 200) == (exchange.outcome, exchange.status)
    assert b"".join(chunk.data for chunk in exchange.chunks).startswith(b"ok")
    assert "malformed" in exchange.error


def test_a_client_may_send_its_next_request_after_a_response_that_we_could_not_parse(pair: Pair) -> None:
    """Some clients accept a bare newline: for them the response was complete."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
    client.read_until(b"ok")
    client.send(request())
    second = upstream.accept()
    second.request()
    second.send(response())

    assert response() == client.response()
    assert server.is_closed_by_peer()
    assert [CallOutcome.FAILED, CallOutcome.ANSWERED] == [exchange.outcome for exchange in proxy.sink.wait(2)]


def test_a_client_that_leaves_a_malformed_response_ends_the_upstream_call(pair: Pair) -> None:
    """The call is recorded once."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"SSH-2.0-OpenSSH\r\n")
    client.read_until(b"\r\n")
    client.close()

    assert server.is_closed_by_peer()
    assert [CallOutcome.FAILED] == [exchange.outcome for exchange in proxy.sink.wait()]
    assert 0 == proxy.call(lambda: proxy.state.metrics.in_flight)


def test_an_unreachable_upstream_is_a_502() -> None:
    """The reason is the system's own."""
    closed = Upstream()
    closed.close()
    proxy = Proxy({"up": closed.url})
    client = proxy.post()
    status, code, message = error_of(client.response())

    assert (502, "upstream_connect") == (status, code)
    assert "refused" in message
    assert CallOutcome.FAILED is proxy.sink.wait()[0].outcome
    proxy.stop()


def test_a_host_name_that_does_not_exist_is_a_502() -> None:
    """`.invalid` never exists."""
    proxy = Proxy({"up": "http://nowhere.invalid"})

    assert (502, "upstream_name") == error_of(proxy.post().response())[:2]
    proxy.stop()


def test_an_upstream_that_does_not_accept_in_time_is_a_504(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting has a time limit; responding has none."""
    monkeypatch.setattr(pool_module, "CONNECT_SECONDS_MAX", 0.05)
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [socket.socket() for _ in range(8)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(full.getsockname())
    proxy = Proxy({"up": f"http://127.0.0.1:{full.getsockname()[1]}"})

    assert (504, "upstream_connect_timeout") == error_of(proxy.post().response())[:2]
    proxy.stop()
    for sock in (*fillers, full):
        sock.close()


def test_https_to_a_plain_port_is_a_502() -> None:
    """The TLS handshake fails."""
    plain = Upstream()
    proxy = Proxy({"up": plain.url.replace("http", "https")})
    client = proxy.post()
    server = plain.accept()
    server.sock.recv(10)
    server.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert (502, "upstream_tls") == error_of(client.response())[:2]
    proxy.stop()
    plain.close()


# -- TLS


@pytest.fixture
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A certificate for localhost, and its key, in one file."""
    return str(make_certificate(tmp_path_factory.mktemp("tls")))


@pytest.mark.parametrize("trusted", [True, False])
def test_the_certificate_of_an_upstream_must_be_trusted(
    certificate: str, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_FILE adds to what is trusted; the name is sent and checked."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
    context = server_context(Path(certificate))
    names: list[str | None] = []
    context.sni_callback = lambda _sock, name, _context: names.append(name)
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy({"up": f"https://localhost:{listener.getsockname()[1]}"})
    client = proxy.post()
    raw, _ = listener.accept()
    raw.settimeout(10)
    try:
        server = Peer(context.wrap_socket(raw, server_side=True))
    except ssl.SSLError:
        assert not trusted
    else:
        assert trusted
        server.request()
        server.send(response(b"secret"))
        assert response(b"secret") == client.response()
        assert ["localhost"] == names
        server.close()
    if not trusted:
        status, code, message = error_of(client.response())
        assert (502, "upstream_tls") == (status, code)
        assert "certificate" in message
    proxy.stop()
    raw.close()
    listener.close()


# -- loops


def test_an_upstream_that_is_the_proxy_itself_is_refused() -> None:
    """By its address, or by the connected address where a name hides it."""
    with proxy_and_upstream() as (_, proxy):
        proxy.state.routes = UpstreamRoutes({"self": f"http://127.0.0.1:{proxy.port}"})
        proxy.state.add_own_address("127.0.0.1", proxy.port)
        assert (508, "loop") == error_of(proxy.post("/self/x").response())[:2]

        proxy.state.looping_upstreams.clear()
        assert (508, "upstream_loop") == error_of(proxy.post("/self/x").response())[:2]
