"""Bytes through the proxy, in both directions, on real sockets."""

from __future__ import annotations

import pytest

from support.raw_sockets import Proxy, Upstream, proxy_and_upstream, request, response
from traceforge.exchange import CallOutcome

Pair = tuple[Upstream, Proxy]
CHUNKS = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 6\r\n\r\n"


def test_a_request_arrives_unchanged_except_for_its_host(pair: Pair) -> None:
    """Order, case, duplicates and the body are the client's own; the prefix of the path is removed."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(
        b"POST /up/v1/x?key=a%20b HTTP/1.1\r\nx-b: 1\r\nhOST: localhost:1\r\nAccept-Encoding: gzip, br\r\nX-B:2\r\n"
        b"Content-Length: 4\r\nConnection: keep-alive\r\n\r\n\x00\xff{}"
    )

    request_bytes = upstream.accept().request()

    assert request_bytes == (
        b"POST /v1/x?key=a%%20b HTTP/1.1\r\nx-b: 1\r\nhOST: 127.0.0.1:%d\r\nAccept-Encoding: gzip, br\r\nX-B:2\r\n"
        b"Content-Length: 4\r\n\r\n\x00\xff{}" % upstream.port
    )


def test_a_response_arrives_unchanged(pair: Pair) -> None:
    """Status, reason, headers and body; only hop-by-hop headers are dropped."""
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
def test_a_chunked_response_keeps_its_chunks_extensions_and_trailers(pair: Pair, cut: int) -> None:
    """Wherever the network splits it."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + CHUNKS
    server.send(wire[:cut])
    server.send(wire[cut:])

    assert wire == client.read_exactly(len(wire))
    (exchange,) = proxy.sink.wait()
    assert b"hello!" == b"".join(chunk.data for chunk in exchange.chunks)


@pytest.mark.parametrize("cut", [20, 90, 105, 118, 1000])
def test_a_chunked_request_keeps_its_chunks(pair: Pair, cut: int) -> None:
    """It is streamed on, with its trailers, and recorded without them."""
    upstream, proxy = pair
    client = proxy.connect()
    wire = b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS
    client.send(wire[:cut])
    client.send(wire[cut:])
    server = upstream.accept()
    server.read_head()

    assert CHUNKS == server.read_exactly(len(CHUNKS))
    server.send(response())
    client.response()
    (exchange,) = proxy.sink.wait()
    assert b"hello!" == exchange.request_body


def test_the_first_chunk_is_forwarded_before_the_second_is_sent(pair: Pair) -> None:
    """The upstream sends on only after the client has read the first chunk."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.read_head()
    for number in range(5):
        piece = b"8\r\ndata: %d\n\r\n" % number
        server.send(piece)
        assert piece == client.read_exactly(len(piece))
    server.send(b"0\r\n\r\n")

    assert b"0\r\n\r\n" == client.read_exactly(5)
    (exchange,) = proxy.sink.wait()
    assert [b"data: %d\n" % number for number in range(5)] == [chunk.data for chunk in exchange.chunks]
    assert sorted(chunk.t_ms for chunk in exchange.chunks) == [chunk.t_ms for chunk in exchange.chunks]


def test_a_request_is_streamed_before_it_is_complete(pair: Pair) -> None:
    """The upstream gets the first half before the client sends the second."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc")
    server = upstream.accept()
    server.read_head()
    assert b"abc" == server.read_exactly(3)
    client.send(b"def")

    assert b"def" == server.read_exactly(3)


def test_a_response_that_ends_with_its_connection_does_so_for_the_client(pair: Pair) -> None:
    """No length is invented; the client sees the close."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nabc")
    server.send(b"def")
    server.close()

    assert b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nabcdef" == client.read_to_end()
    (exchange,) = proxy.sink.wait()
    assert CallOutcome.ANSWERED is exchange.outcome


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    ],
)
def test_a_response_without_a_body_ends_with_its_head(pair: Pair, method: bytes, answer: bytes) -> None:
    """The next call uses the same two connections."""
    upstream, proxy = pair
    client = proxy.connect()
    head_only_request = method + b" /up/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    client.send(head_only_request)
    server = upstream.accept()
    for _ in range(2):
        server.read_head()
        server.send(answer)
        assert answer == client.read_head()
        client.send(head_only_request)
    server.read_head()

    assert upstream.has_no_other_connection()


def test_100_continue_comes_from_the_upstream(pair: Pair) -> None:
    """`Expect` is forwarded, 100 and 103 come back, and then the body is sent."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    server = upstream.accept()
    assert b"Expect: 100-continue\r\n" in server.read_head()
    server.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.read_head()
    assert b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" == client.read_head()
    client.send(b"{}")
    assert b"{}" == server.read_exactly(2)
    server.send(response())

    assert response() == client.response()
    (exchange,) = proxy.sink.wait()
    assert 200 == exchange.status


def test_pipelined_requests_are_served_in_turn(pair: Pair) -> None:
    """Three in one packet: each waits for the previous response, over one upstream connection."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"".join(request(f"/up/{number}", b"%d" % number) for number in range(3)))
    server = upstream.accept()
    for number in range(3):
        request_bytes = server.request()
        assert request_bytes.startswith(b"POST /%d " % number)
        assert request_bytes.endswith(b"%d" % number)
        server.send(response(b"answer %d" % number))

    assert [response(b"answer %d" % number) for number in range(3)] == [client.response() for _ in range(3)]
    assert 3 == len(proxy.sink.wait(3))
    assert upstream.has_no_other_connection()


def test_our_own_responses_keep_their_turn_among_pipelined_requests(pair: Pair) -> None:
    """An unknown path after a call is refused after the call's response."""
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
    assert upstream.has_no_other_connection()
    assert 1 == proxy.state.metrics.upstream_connections


def test_an_http_1_0_client_gets_its_response_without_chunks(pair: Pair) -> None:
    """HTTP/1.0 has no chunks, no trailers and no 1xx: the client gets the payload, then the close."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
    server = upstream.accept()
    assert server.request().startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:")
    server.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n" + CHUNKS)

    assert b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nhello!" == client.read_to_end()


def test_connection_close_of_a_client_is_respected(pair: Pair) -> None:
    """The upstream's connection is kept all the same."""
    upstream, proxy = pair
    client = proxy.post(headers=b"Connection: close\r\n")
    server = upstream.accept()
    server.request()
    server.send(response())

    assert b"Connection: close\r\n" in client.read_to_end()
    proxy.post()
    assert server.request()


def test_a_request_target_may_be_a_complete_url(pair: Pair) -> None:
    """Some clients send it."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"GET http://localhost:1/up/v1/models?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert upstream.accept().read_head().startswith(b"GET /v1/models?a=b HTTP/1.1\r\n")


def test_an_offer_of_h2c_is_ignored_and_the_call_goes_through(pair: Pair) -> None:
    """Some clients offer HTTP/2 with each request; a server may ignore the offer."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(
        b"GET /up/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AA\r\n\r\n"
    )

    assert b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % upstream.port == upstream.accept().read_head()


def test_a_response_before_the_end_of_the_request_is_forwarded(pair: Pair) -> None:
    """The rest of the request is discarded, and the client goes on with the next one."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    server = upstream.accept()
    server.read_head()
    server.send(response(b"no", status=b"413 Too Large"))
    assert response(b"no", status=b"413 Too Large") == client.response()
    client.send(b"defghij" + request("/up/next"))
    second = upstream.accept()

    assert second.request().startswith(b"POST /next ")


def test_a_large_body_reaches_slow_readers_completely(pair: Pair) -> None:
    """Neither side buffers it: reading pauses until the other side has taken what came."""
    upstream, proxy = pair
    body = bytes(range(256)) * 20_000
    client = proxy.connect()
    import threading

    sender = threading.Thread(target=client.send, args=(request("/up/x", body),), daemon=True)
    sender.start()
    server = upstream.accept()
    head = server.read_head()
    assert body == server.read_exactly(len(body))
    sender.join()
    assert b"Content-Length: %d\r\n" % len(body) in head
    sender = threading.Thread(target=server.send, args=(response(body),), daemon=True)
    sender.start()
    client.read_head()

    assert body == client.read_exactly(len(body))
    (exchange,) = proxy.sink.wait()
    assert body == exchange.request_body == b"".join(chunk.data for chunk in exchange.chunks)


def test_with_recording_off_calls_are_only_forwarded() -> None:
    """TraceForge headers still do not reach the upstream, and none is sent back."""
    with proxy_and_upstream(sink=False) as (upstream, proxy):
        client = proxy.post(headers=b"X-TraceForge-Session-ID: s\r\nX-TraceForge-Other: 1\r\n")
        server = upstream.accept()
        assert b"traceforge" not in server.request().lower()
        server.send(response())

        assert response() == client.response()


@pytest.mark.parametrize("spoken", [True, False])
def test_traceforge_headers_are_removed_and_returned_only_to_clients_that_sent_some(pair: Pair, spoken: bool) -> None:
    """The upstream gets none; a client that sent none gets the upstream's response and nothing else."""
    upstream, proxy = pair
    client = proxy.post(headers=b"x-TRACEFORGE-session-id: s1\r\n" if spoken else b"")
    server = upstream.accept()
    assert b"traceforge" not in server.request().lower()
    server.send(response())
    response_bytes = client.response()

    (exchange,) = proxy.sink.wait()
    trace_header = f"X-TraceForge-Trace-ID: {exchange.id}\r\n".encode()
    assert (spoken, spoken) == (trace_header in response_bytes, b"X-TraceForge-Next-Step: 1\r\n" in response_bytes)
    assert spoken or response() == response_bytes


@pytest.mark.parametrize("cut", [5, 40, 1000])
def test_a_repeated_response_head_is_read_like_the_first(pair: Pair, cut: int) -> None:
    """After the same head, after another, in two reads, with another body, and in response to HEAD."""
    upstream, proxy = pair
    plain = b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nContent-Length: 3\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    responses = [plain + b"one", plain + b"two", chunked + CHUNKS, chunked + CHUNKS, plain + b"six"]
    client = proxy.post()
    server = upstream.accept()
    for number, wire in enumerate(responses):
        server.request()
        server.send(wire[:cut])
        if wire[cut:]:
            server.send(wire[cut:])
        assert wire == client.read_exactly(len(wire))
        client.send(request() if number < len(responses) - 1 else request().replace(b"POST", b"HEAD"))
    server.request()
    server.send(plain)

    assert plain == client.read_exactly(len(plain))
    client.send(request())
    server.request()
    server.send(plain + b"end")
    assert plain + b"end" == client.read_exactly(len(plain) + 3)
    bodies = [b"".join(chunk.data for chunk in exchange.chunks) for exchange in proxy.sink.wait(7)]
    assert [b"one", b"two", b"hello!", b"hello!", b"six", b"", b"end"] == bodies
    assert [("Set-Cookie", "a"), ("Content-Length", "3")] == [*proxy.sink.exchanges[1].response_headers]
