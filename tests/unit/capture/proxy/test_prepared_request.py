"""A repeated head is forwarded as if it had been parsed."""

from __future__ import annotations

import pytest

from support.raw_sockets import Proxy, Upstream, response
from traceforge.capture.proxy.prepared_request import PreparedRequest, RepeatedHead, prepare_request, remember_head
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.http.message_head import RequestHead

HEAD = (
    b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Length: 3\r\n"
    b"Authorization: Bearer k\r\n\r\n"
)
ROUTES = UpstreamRoutes({"up": "http://there:1"})


def prepare(head: bytes) -> PreparedRequest:
    """The request of a head."""
    read = RequestHead(head)
    route = ROUTES.find_route(read.method, read.target, is_anthropic=False)
    assert route is not None
    return prepare_request(read, route)


def remembered(head: bytes = HEAD) -> RepeatedHead:
    """A head that is remembered."""
    repeated_head = remember_head(head, prepare(head))
    assert repeated_head is not None
    return repeated_head


@pytest.mark.parametrize("length", [b"3", b"0", b"1048576"])
def test_a_repeated_head_with_another_length_equals_a_parsed_one(length: bytes) -> None:
    """In every field, and it ends where the body begins."""
    head = HEAD.replace(b"Length: 3", b"Length: " + length)

    assert (prepare(head), len(head)) == remembered().match(head + b"body")


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"Bearer k", b"Bearer l"),
        HEAD.replace(b"localhost", b"evil.example"),
        HEAD.replace(b"/up/v1/x", b"/up/v1/y"),
        HEAD.replace(b": 3", b": 3 "),
        HEAD.replace(b": 3", b": +3"),
        HEAD.replace(b": 3", b": 3, 3"),
        HEAD.replace(b": 3", b": "),
        HEAD.replace(b": 3", b": " + b"9" * 16),
        HEAD.replace(b": 3", ": ٣".encode()),
        HEAD.replace(b": 3\r\n", b": 3\n"),
        HEAD.replace(b": 3\r\n", b": 3\r\nTransfer-Encoding: chunked\r\n"),
        HEAD[:-2],
        b"\r\n" + HEAD,
        b"",
    ],
)
def test_any_other_head_is_parsed_again(head: bytes) -> None:
    """Only the length may differ."""
    assert None is remembered().match(head)


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"Content-Length: 3\r\n", b""),
        HEAD.replace(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"),
        HEAD.replace(b"Length: 3", b"Length:3"),
        HEAD.replace(b"Length: 3", b"Length: 3 "),
        HEAD.replace(b"Authorization: Bearer k", b"X-TraceForge-Session-ID: s"),
    ],
)
def test_some_heads_are_not_remembered(head: bytes) -> None:
    """One without a length, one in an odd spelling, and one with a TraceForge header."""
    assert None is remember_head(head, prepare(head))


def test_repeated_requests_are_forwarded_byte_for_byte(pair: tuple[Upstream, Proxy]) -> None:
    """Pipelined ones too, and each exchange has the length that was sent."""
    upstream, proxy = pair
    client = proxy.connect()
    bodies = [b"abc", b"", b"x" * 100_000, b"abcd"]
    sent = [HEAD.replace(b": 3", b": %d" % len(body)) + body for body in bodies]
    client.send(sent[0] + sent[1])
    server = upstream.accept()
    for number, body in enumerate(bodies):
        if number > 1:
            client.send(sent[number])
        received = server.request()
        assert received == (
            b"POST /v1/x HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nAuthorization: Bearer k\r\n\r\n"
            % (upstream.url.removeprefix("http://").encode(), len(body))
            + body
        )
        server.send(response(b"answer %d" % number))
        assert client.response().endswith(b"answer %d" % number)

    exchanges = proxy.sink.wait(len(bodies))
    assert bodies == [exchange.request_body for exchange in exchanges]
    assert [str(len(body)) for body in bodies] == [
        dict(exchange.request_headers)["Content-Length"] for exchange in exchanges
    ]
