"""Bytes through the proxy, in both directions, on real sockets."""

from __future__ import annotations

import pytest

from support.sockets import Proxy, Upstream, between, request, response
from traceforge.exchange import CallOutcome

Pair = tuple[Upstream, Proxy]
CHUNKS = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 6\r\n\r\n"


def test_a_request_arrives_as_it_was_sent_but_for_its_host(pair: Pair) -> None:
    """Order, case, duplicates and the body are the client's own; the prefix of the path is gone."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(
        b"POST /up/v1/x?key=a%20b HTTP/1.1\r\nx-b: 1\r\nhOST: localhost:1\r\nAccept-Encoding: gzip, br\r\nX-B:2\r\n"
        b"Content-Length: 4\r\nConnection: keep-alive\r\n\r\n\x00\xff{}"
    )

    got = upstream.accept().request()

    assert got == (
        b"POST /v1/x?key=a%%20b HTTP/1.1\r\nx-b: 1\r\nhOST: 127.0.0.1:%d\r\nAccept-Encoding: gzip, br\r\nX-B:2\r\n"
        b"Content-Length: 4\r\n\r\n\x00\xff{}" % upstream.port
    )


def test_an_answer_arrives_as_it_was_sent(pair: Pair) -> None:
    """Status, reason, headers and body; only what belongs to one connection is not passed on."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(
        b"HTTP/1.1 299 Very  Fine\r\nset-cookie: a\r\nKeep-Alive: 5\r\nSet-Cookie:b\r\n"
        b"Content-Length: 3\r\n\r\n\x00\xff!"
    )

    assert b"HTTP/1.1 299 Very  Fine\r\nset-cookie: a\r\nSet-Cookie:b\r\nContent-Length: 3\r\n\r\n\x00\xff!" == (
        client.response()
    )


@pytest.mark.parametrize("cut", [1, 7, 30, 48, 60, 75, 1000])
def test_a_chunked_answer_keeps_its_chunks_extensions_and_trailers(pair: Pair, cut: int) -> None:
    """Wherever the network splits it."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + CHUNKS
    server.send(wire[:cut])
    server.send(wire[cut:])

    assert wire == client.exactly(len(wire))
    (seen,) = proxy.sink.wait()
    assert b"hello!" == b"".join(chunk.data for chunk in seen.chunks)


@pytest.mark.parametrize("cut", [20, 90, 105, 118, 1000])
def test_a_chunked_request_keeps_its_chunks(pair: Pair, cut: int) -> None:
    """It is streamed on, with its trailers, and its body is known without them."""
    upstream, proxy = pair
    client = proxy.connect()
    wire = b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS
    client.send(wire[:cut])
    client.send(wire[cut:])
    server = upstream.accept()
    server.head()

    assert CHUNKS == server.exactly(len(CHUNKS))
    server.send(response())
    client.response()
    (seen,) = proxy.sink.wait()
    assert b"hello!" == seen.request_body


def test_the_first_piece_is_relayed_before_the_second_is_sent(pair: Pair) -> None:
    """Nothing is held back: the upstream sends on only when the client has seen what it sent."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.head()
    for number in range(5):
        piece = b"8\r\ndata: %d\n\r\n" % number
        server.send(piece)
        assert piece == client.exactly(len(piece))
    server.send(b"0\r\n\r\n")

    assert b"0\r\n\r\n" == client.exactly(5)
    (seen,) = proxy.sink.wait()
    assert [b"data: %d\n" % number for number in range(5)] == [chunk.data for chunk in seen.chunks]
    assert sorted(chunk.t_ms for chunk in seen.chunks) == [chunk.t_ms for chunk in seen.chunks]


def test_a_request_is_streamed_before_it_is_complete(pair: Pair) -> None:
    """The upstream sees the first half before the client sends the second."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc")
    server = upstream.accept()
    server.head()
    assert b"abc" == server.exactly(3)
    client.send(b"def")

    assert b"def" == server.exactly(3)


def test_an_answer_that_ends_with_its_connection_ends_so_here_too(pair: Pair) -> None:
    """No length is invented; the client sees the close."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nabc")
    server.send(b"def")
    server.close()

    assert b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nabcdef" == client.rest()
    (seen,) = proxy.sink.wait()
    assert CallOutcome.ANSWERED is seen.outcome


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_ends_with_its_head(pair: Pair, method: bytes, answer: bytes) -> None:
    """And the next call uses the same two connections."""
    upstream, proxy = pair
    client = proxy.connect()
    ask = method + b" /up/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    client.send(ask)
    server = upstream.accept()
    for _ in range(2):
        server.head()
        server.send(answer)
        assert answer == client.head()
        client.send(ask)
    server.head()

    assert upstream.nobody_else()


def test_a_client_is_told_to_go_on_by_the_upstream_itself(pair: Pair) -> None:
    """`Expect` goes through, 100 and 103 come back, and then the body goes."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    server = upstream.accept()
    assert b"Expect: 100-continue\r\n" in server.head()
    server.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.head()
    assert b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" == client.head()
    client.send(b"{}")
    assert b"{}" == server.exactly(2)
    server.send(response())

    assert response() == client.response()
    (seen,) = proxy.sink.wait()
    assert 200 == seen.status


def test_requests_sent_ahead_are_served_in_turn(pair: Pair) -> None:
    """Three in one packet: each waits for the answer to the one before, over one upstream connection."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"".join(request(f"/up/{number}", b"%d" % number) for number in range(3)))
    server = upstream.accept()
    for number in range(3):
        got = server.request()
        assert got.startswith(b"POST /%d " % number)
        assert got.endswith(b"%d" % number)
        server.send(response(b"answer %d" % number))

    assert [response(b"answer %d" % number) for number in range(3)] == [client.response() for _ in range(3)]
    assert 3 == len(proxy.sink.wait(3))
    assert upstream.nobody_else()


def test_own_answers_keep_their_turn_among_requests_sent_ahead(pair: Pair) -> None:
    """An unknown path behind a call is refused after the call was answered."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(request() + request("/nowhere") + request("/healthz") + request("/up/last"))
    server = upstream.accept()
    server.request()
    server.send(response(b"first"))

    assert response(b"first") == client.response()
    assert client.response().startswith(b"HTTP/1.1 404 ")
    assert client.response().endswith(b'{"status":"ok"}')
    assert server.request().startswith(b"POST /last ")


def test_connections_are_kept_on_both_sides(pair: Pair) -> None:
    """Many calls, one connection each way; a second client opens a second one only while the first is busy."""
    upstream, proxy = pair
    client = proxy.connect()
    server = None
    for _ in range(5):
        client.send(request())
        server = server or upstream.accept()
        server.request()
        server.send(response())
        client.response()
    other = proxy.post()
    assert server is not None
    server.request()
    server.send(response())

    assert response() == other.response()
    assert upstream.nobody_else()
    assert 1 == proxy.state.metrics.upstream_connections


def test_an_old_client_gets_its_answer_without_chunks(pair: Pair) -> None:
    """HTTP/1.0 knows no chunks, no trailers and no 1xx: it is sent what they hold, and then the end."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
    server = upstream.accept()
    assert server.request().startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:")
    server.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n" + CHUNKS)

    assert b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nhello!" == client.rest()


def test_a_client_that_wants_to_close_is_closed(pair: Pair) -> None:
    """The upstream's connection is kept all the same."""
    upstream, proxy = pair
    client = proxy.post(headers=b"Connection: close\r\n")
    server = upstream.accept()
    server.request()
    server.send(response())

    assert b"Connection: close\r\n" in client.rest()
    proxy.post()
    assert server.request()


def test_a_whole_url_as_a_target_is_understood(pair: Pair) -> None:
    """Some clients send it."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"GET http://localhost:1/up/v1/models?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert upstream.accept().head().startswith(b"GET /v1/models?a=b HTTP/1.1\r\n")


def test_h2c_is_offered_in_vain_and_the_call_goes_through(pair: Pair) -> None:
    """Some clients offer HTTP/2 with each request; an offer may be passed over."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(
        b"GET /up/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AA\r\n\r\n"
    )

    assert b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % upstream.port == upstream.accept().head()


def test_an_answer_before_the_end_of_the_request_is_passed_on(pair: Pair) -> None:
    """The rest of the request is taken and thrown away, and the client goes on with the next."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    server = upstream.accept()
    server.head()
    server.send(response(b"no", status=b"413 Too Large"))
    assert response(b"no", status=b"413 Too Large") == client.response()
    client.send(b"defghij" + request("/up/next"))
    second = upstream.accept()

    assert second.request().startswith(b"POST /next ")


def test_a_large_body_goes_through_slow_readers_whole(pair: Pair) -> None:
    """Neither side is made to hold it: reading stops until the other side has taken what came."""
    upstream, proxy = pair
    body = bytes(range(256)) * 20_000
    client = proxy.connect()
    import threading

    sender = threading.Thread(target=client.send, args=(request("/up/x", body),), daemon=True)
    sender.start()
    server = upstream.accept()
    head = server.head()
    assert body == server.exactly(len(body))
    sender.join()
    assert b"Content-Length: %d\r\n" % len(body) in head
    sender = threading.Thread(target=server.send, args=(response(body),), daemon=True)
    sender.start()
    client.head()

    assert body == client.exactly(len(body))
    (seen,) = proxy.sink.wait()
    assert body == seen.request_body == b"".join(chunk.data for chunk in seen.chunks)


def test_with_recording_off_calls_only_go_through() -> None:
    """Our headers still do not reach the upstream, and none is sent back."""
    with between(sink=False) as (upstream, proxy):
        client = proxy.post(headers=b"X-TraceForge-Session-ID: s\r\nX-TraceForge-Other: 1\r\n")
        server = upstream.accept()
        assert b"traceforge" not in server.request().lower()
        server.send(response())

        assert response() == client.response()


@pytest.mark.parametrize("spoken", [True, False])
def test_our_headers_are_taken_out_and_answered_only_to_those_who_sent_some(pair: Pair, spoken: bool) -> None:
    """The upstream sees none; a client that sent none gets the upstream's answer and nothing else."""
    upstream, proxy = pair
    client = proxy.post(headers=b"x-TRACEFORGE-session-id: s1\r\n" if spoken else b"")
    server = upstream.accept()
    assert b"traceforge" not in server.request().lower()
    server.send(response())
    got = client.response()

    (seen,) = proxy.sink.wait()
    told = f"X-TraceForge-Trace-ID: {seen.id}\r\n".encode()
    assert (spoken, spoken) == (told in got, b"X-TraceForge-Next-Step: 1\r\n" in got)
    assert spoken or response() == got


@pytest.mark.parametrize("cut", [5, 40, 1000])
def test_a_head_that_comes_again_is_read_as_the_first_was(pair: Pair, cut: int) -> None:
    """After the same, after another, in two pieces, with another body, and where it answers HEAD."""
    upstream, proxy = pair
    plain = b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nContent-Length: 3\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = [plain + b"one", plain + b"two", chunked + CHUNKS, chunked + CHUNKS, plain + b"six"]
    client = proxy.post()
    server = upstream.accept()
    for number, wire in enumerate(said):
        server.request()
        server.send(wire[:cut])
        if wire[cut:]:
            server.send(wire[cut:])
        assert wire == client.exactly(len(wire))
        client.send(request() if number < len(said) - 1 else request().replace(b"POST", b"HEAD"))
    server.request()
    server.send(plain)

    assert plain == client.exactly(len(plain))
    client.send(request())
    server.request()
    server.send(plain + b"end")
    assert plain + b"end" == client.exactly(len(plain) + 3)
    bodies = [b"".join(chunk.data for chunk in one.chunks) for one in proxy.sink.wait(7)]
    assert [b"one", b"two", b"hello!", b"hello!", b"six", b"", b"end"] == bodies
    assert [("Set-Cookie", "a"), ("Content-Length", "3")] == [*proxy.sink.exchanges[1].response_headers]
