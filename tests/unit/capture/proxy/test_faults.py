"""What goes wrong on either side: the client sees what it would have seen, and the exchange tells the truth."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest

from support.sockets import Peer, Proxy, Upstream, between, request, response
from traceforge.capture.proxy import relayed_call as relay_module
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


def test_a_client_that_leaves_mid_stream_ends_the_upstreams_call(pair: Pair) -> None:
    """At once, not at the next piece; what came is kept."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(STREAM + b"2\r\nab\r\n")
    client.until(b"ab\r\n")
    client.close()

    assert server.gone()
    (seen,) = proxy.sink.wait()
    assert (CallOutcome.CLIENT_LEFT, 200, [b"ab"]) == (
        seen.outcome,
        seen.status,
        [chunk.data for chunk in seen.chunks],
    )


def test_a_client_that_leaves_before_the_answer_ends_the_upstreams_call(pair: Pair) -> None:
    """There is no status; the request is kept."""
    upstream, proxy = pair
    client = proxy.post(body=b"ask")
    server = upstream.accept()
    server.request()
    client.reset()

    assert server.gone()
    (seen,) = proxy.sink.wait()
    assert (CallOutcome.CLIENT_LEFT, 0, b"ask") == (seen.outcome, seen.status, seen.request_body)


def test_a_client_that_leaves_within_its_request_is_seen(pair: Pair) -> None:
    """The upstream gets no end that the client did not send."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    server = upstream.accept()
    server.until(b"abc")
    client.close()

    assert server.gone()
    (seen,) = proxy.sink.wait()
    assert (CallOutcome.CLIENT_LEFT, b"abc") == (seen.outcome, seen.request_body)


def test_a_client_that_leaves_after_the_end_was_answered(pair: Pair) -> None:
    """The connection to the upstream stays for the next one."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response())
    client.response()
    client.close()
    proxy.post()
    server.request()

    assert [CallOutcome.ANSWERED] == [seen.outcome for seen in proxy.sink.wait()]


def test_a_client_that_leaves_while_we_connect_is_let_go() -> None:
    """Nothing is left behind, and the call is told as left."""
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

    (seen,) = proxy.sink.wait()
    assert CallOutcome.CLIENT_LEFT is seen.outcome
    proxy.stop()
    for sock in (*fillers, full):
        sock.close()


# -- the upstream breaks


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (STREAM + b"2\r\nab\r\n", b"ab"),
        (STREAM + b"5\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"ab"),
    ],
)
@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_upstream_that_breaks_off_breaks_off_for_the_client(
    pair: Pair, sent: bytes, kept: bytes, how: str
) -> None:
    """After what it had sent, in the same way, and without an end that nobody sent."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(sent)
    got = client.exactly(len(sent))
    getattr(server, how)()

    if how == "reset":
        with pytest.raises(ConnectionResetError):
            client.rest()
    else:
        assert b"" == client.rest()
    assert sent == got
    (seen,) = proxy.sink.wait()
    assert (CallOutcome.CUT, 200, kept) == (seen.outcome, seen.status, b"".join(chunk.data for chunk in seen.chunks))
    assert how in seen.error


def test_a_reset_is_no_end_of_an_answer_without_a_length(pair: Pair) -> None:
    """A close would have been one; so the client sees a reset too."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\r\n\r\nab")
    client.until(b"ab")
    server.reset()

    with pytest.raises(ConnectionResetError):
        client.rest()
    (seen,) = proxy.sink.wait()
    assert CallOutcome.CUT is seen.outcome


def broken(client: Peer, how: str) -> bytes:
    """What the client gets before its connection ends, which must be in this way."""
    if how == "reset":
        with pytest.raises(ConnectionResetError):
            client.rest()
        return b""
    return client.rest()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\nContent-Le"])
def test_an_upstream_that_breaks_off_before_it_answers_breaks_off_for_the_client(
    pair: Pair, how: str, begun: bytes
) -> None:
    """In the same way, after the same bytes: an application's client says what it would have said."""
    upstream, proxy = pair
    client = proxy.post("/up/v1/x?key=s3cret")
    server = upstream.accept()
    server.request()
    server.send(begun)
    if begun:
        while not proxy.call(lambda: any(connection._has_received for connection in upstreams(proxy))):
            pass
    getattr(server, how)()

    assert (begun if how == "close" else b"") == broken(client, how)
    (seen,) = proxy.sink.wait()
    assert (CallOutcome.FAILED, 0) == (seen.outcome, seen.status)
    assert "s3cret" not in seen.error
    assert {"no-answer": 1} == proxy.state.metrics.upstream_errors


def upstreams(proxy: Proxy) -> list[Any]:
    """The connections to the upstream that have a call."""
    calls = [one._call for one in proxy.state.connections]
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
def test_malformed_http_is_for_the_client_to_judge(pair: Pair, answer: bytes, how: str, pieces: int) -> None:
    """Its bytes are passed on, with what follows and with their end; the call has failed."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    for part in [answer] if pieces == 1 else [answer[:14], answer[14:]]:
        server.send(part)
    (seen,) = proxy.sink.wait()
    got = client.exactly(len(answer))
    server.send(b"more")
    more = client.exactly(4)
    getattr(server, how)()

    assert b"" == broken(client, how)
    assert (answer, b"more") == (got, more)
    assert (CallOutcome.FAILED, 0) == (seen.outcome, seen.status)
    assert seen.error.startswith("malformed: ")
    assert {"malformed": 1} == proxy.state.metrics.upstream_errors


@pytest.mark.parametrize("answer", [b"zz\r\n", b"1\r\nabc\r\n"])
@pytest.mark.parametrize("together", [True, False])
def test_malformed_chunks_are_for_the_client_to_judge(pair: Pair, answer: bytes, together: bool) -> None:
    """What came before them is kept, and the answer is said to have been cut."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    if together:
        server.send(STREAM + b"2\r\nok\r\n" + answer)
    else:
        server.send(STREAM)
        client.head()
        server.send(b"2\r\nok\r\n" + answer)
    (seen,) = proxy.sink.wait()
    server.close()

    assert (STREAM if together else b"") + b"2\r\nok\r\n" + answer == client.rest()
    assert (CallOutcome.CUT, 200) == (seen.outcome, seen.status)
    assert b"".join(chunk.data for chunk in seen.chunks).startswith(b"ok")
    assert "malformed" in seen.error


def test_a_client_that_understood_what_we_could_not_may_ask_again(pair: Pair) -> None:
    """A bare newline is fine for some: the answer was whole for them, and the next call is one like any other."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
    client.until(b"ok")
    client.send(request())
    again = upstream.accept()
    again.request()
    again.send(response())

    assert response() == client.response()
    assert server.gone()
    assert [CallOutcome.FAILED, CallOutcome.ANSWERED] == [one.outcome for one in proxy.sink.wait(2)]


def test_a_client_that_leaves_what_we_could_not_read_ends_it(pair: Pair) -> None:
    """The upstream is let go, and the call is told once."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"SSH-2.0-OpenSSH\r\n")
    client.until(b"\r\n")
    client.close()

    assert server.gone()
    assert [CallOutcome.FAILED] == [one.outcome for one in proxy.sink.wait()]
    assert 0 == proxy.call(lambda: proxy.state.metrics.in_flight)


def test_an_upstream_that_is_not_there_is_a_502() -> None:
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


def test_a_name_that_does_not_exist_is_a_502() -> None:
    """`.invalid` never does."""
    proxy = Proxy({"up": "http://nowhere.invalid"})

    assert (502, "upstream_name") == error_of(proxy.post().response())[:2]
    proxy.stop()


def test_an_upstream_that_does_not_accept_in_time_is_a_504(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting has a limit; answering has none."""
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


def test_an_upstream_that_speaks_no_tls_is_a_502() -> None:
    """https to a plain port."""
    plain = Upstream()
    proxy = Proxy({"up": plain.url.replace("http", "https")})
    client = proxy.post()
    server = plain.accept()
    server.sock.recv(10)
    server.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert (502, "upstream_tls") == error_of(client.response())[:2]
    proxy.stop()
    plain.close()


# -- connections that were kept


def stale(upstream: Upstream, proxy: Proxy) -> Peer:
    """The upstream's end of a connection that is kept after a call."""
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response())
    client.response()
    client.close()
    return server


def test_a_kept_connection_that_the_upstream_closed_is_not_used(pair: Pair) -> None:
    """It is known to be gone before the next call."""
    upstream, proxy = pair
    stale(upstream, proxy).close()
    client = proxy.post(body=b"again")
    server = upstream.accept()
    assert server.request().endswith(b"again")
    server.send(response())

    assert response() == client.response()


def test_a_stale_connection_is_replaced_once(pair: Pair) -> None:
    """It took the request and died without a byte: the request is sent again, whole, over a new connection."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.post(body=b"again")
    old.request()
    old.reset()
    server = upstream.accept()
    assert server.request().endswith(b"again")
    server.close()

    assert b"" == client.rest()
    assert upstream.nobody_else()
    assert (2, 1) == (len(proxy.sink.wait(2)), proxy.state.metrics.upstream_retries)


def test_a_request_under_way_goes_on_over_the_new_connection(pair: Pair) -> None:
    """What had come is sent again, and the rest follows."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc")
    old.until(b"abc")
    old.close()
    server = upstream.accept()
    server.until(b"abc")
    client.send(b"def")

    assert b"def" == server.exactly(3)


def test_an_answer_that_began_is_not_asked_for_again(pair: Pair) -> None:
    """One byte is an answer: the upstream was there."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.post()
    old.request()
    old.send(b"H")
    old.close()

    assert b"H" == client.rest()
    assert upstream.nobody_else()


def test_a_request_that_is_not_held_is_not_sent_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was too large to keep for a second time."""
    monkeypatch.setattr(relay_module, "RESEND_BYTES_MAX", 100)
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.post(body=b"x" * 200)
    old.request()
    old.reset()

    assert b"" == broken(client, "reset")
    assert upstream.nobody_else()


def test_bytes_that_nobody_asked_for_close_a_kept_connection(pair: Pair) -> None:
    """They could be taken for the answer to the next call."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    old.send(response(b"poison"))

    assert old.gone()
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response())
    assert response() == client.response()


def test_bytes_behind_an_answer_close_the_connection(pair: Pair) -> None:
    """The same, where they come with the answer."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response() + b"x")

    assert response() == client.response()
    assert server.gone()


def test_idle_connections_are_bounded_in_number_and_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """One beyond the limit is closed after its call; one that was idle for too long is closed then."""
    upstream, proxy = pair
    monkeypatch.setattr(pool_module, "IDLE_MAX", 1)
    clients = [proxy.post() for _ in range(2)]
    servers = [upstream.accept() for _ in range(2)]
    for server in servers:
        server.request()
        server.send(response())
    for client in clients:
        client.response()
    monkeypatch.setattr(pool_module, "IDLE_SECONDS_MAX", -1.0)
    proxy.call(proxy.state.pool.close_expired)

    assert all(server.gone() for server in servers)


# -- TLS


@pytest.fixture
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A certificate for localhost, and its key, in one file."""
    import subprocess

    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", path,
         "-out", f"{path}.crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + path.with_name("both.pem.crt").read_bytes())
    return str(path)


@pytest.mark.parametrize("trusted", [True, False])
def test_upstreams_speak_tls_and_must_be_trusted(
    certificate: str, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_FILE adds to what is trusted; the name is sent and checked."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
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
    """By its address; and where a name hides it, by what was connected to."""
    with between() as (_, proxy):
        proxy.state.routes = UpstreamRoutes({"self": f"http://127.0.0.1:{proxy.port}"})
        proxy.state.add_own_address("127.0.0.1", proxy.port)
        assert (508, "loop") == error_of(proxy.post("/self/x").response())[:2]

        proxy.state.looping_upstreams.clear()
        assert (508, "upstream_loop") == error_of(proxy.post("/self/x").response())[:2]
