"""A head that comes again is forwarded as if it had been read."""

from __future__ import annotations

import pytest

from support.sockets import Proxy, Upstream, response
from traceforge.capture.proxy.prepared_request import PreparedRequest, RepeatedHead, prepare_request, remember_head
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.http.message_head import RequestHead

HEAD = (
    b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Length: 3\r\n"
    b"Authorization: Bearer k\r\n\r\n"
)
ROUTES = UpstreamRoutes({"up": "http://there:1"})


def ask(head: bytes) -> PreparedRequest:
    """What a head asks for."""
    read = RequestHead(head)
    route = ROUTES.find_route(read.method, read.target, is_anthropic=False)
    assert route is not None
    return prepare_request(read, route)


def again(head: bytes = HEAD) -> RepeatedHead:
    """A head that is remembered."""
    found = remember_head(head, ask(head))
    assert found is not None
    return found


@pytest.mark.parametrize("length", [b"3", b"0", b"1048576"])
def test_the_same_head_with_another_length_is_what_reading_it_would_give(length: bytes) -> None:
    """In every part, and it ends where the body begins."""
    head = HEAD.replace(b"Length: 3", b"Length: " + length)

    assert (ask(head), len(head)) == again().match(head + b"body")


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
def test_any_other_head_is_read(head: bytes) -> None:
    """Only a number may differ: everything else is judged anew."""
    assert None is again().match(head)


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
def test_a_head_that_says_more_than_a_length_is_not_remembered(head: bytes) -> None:
    """One without a length, one in an odd spelling, and one that speaks to us."""
    assert None is remember_head(head, ask(head))


def test_requests_of_one_connection_go_on_byte_for_byte(pair: tuple[Upstream, Proxy]) -> None:
    """Also those sent ahead, and each exchange has the length that was sent."""
    upstream, proxy = pair
    client = proxy.connect()
    bodies = [b"abc", b"", b"x" * 100_000, b"abcd"]
    sent = [HEAD.replace(b": 3", b": %d" % len(body)) + body for body in bodies]
    client.send(sent[0] + sent[1])
    server = upstream.accept()
    for number, body in enumerate(bodies):
        if number > 1:
            client.send(sent[number])
        asked = server.request()
        assert asked == (
            b"POST /v1/x HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nAuthorization: Bearer k\r\n\r\n"
            % (upstream.url.removeprefix("http://").encode(), len(body))
            + body
        )
        server.send(response(b"answer %d" % number))
        assert client.response().endswith(b"answer %d" % number)

    kept = proxy.sink.wait(len(bodies))
    assert bodies == [one.request_body for one in kept]
    assert [str(len(body)) for body in bodies] == [dict(one.request_headers)["Content-Length"] for one in kept]
