"""Heads of requests and responses: read, validated, parsed."""

from __future__ import annotations

import pytest
from httptools import HttpParserError, HttpRequestParser, HttpResponseParser
from hypothesis import given
from hypothesis import strategies as st

from traceforge.http.body_framing import CHUNKED, UNTIL_CLOSE
from traceforge.http.message_head import HOP_BY_HOP, HeadReader, InvalidHead, RequestHead, ResponseHead

HOST = b"Host: a\r\n"


def read_head(data: bytes, pieces: int = 1) -> RequestHead:
    """Read the head of a request that comes in pieces."""
    reader = HeadReader(HttpRequestParser(object()), 65536)
    size = -(-len(data) // pieces)
    for at in range(0, len(data), size):
        head_bytes = reader.feed(data[at : at + size])
        if head_bytes is not None:
            return RequestHead(head_bytes)
    raise AssertionError("no head")


def answer(data: bytes, method: str = "POST") -> ResponseHead:
    """Read the head of a response."""
    head_bytes = HeadReader(HttpResponseParser(object()), 65536).feed(data)
    assert head_bytes is not None
    return ResponseHead(head_bytes, method)


def test_header_lines_keep_their_order_case_and_duplicates() -> None:
    """The forwarded lines are the received ones."""
    lines = [b"b: 1", b"HOST: x", b"A:2", b"a:  3 ", b"Content-Length: 0"]
    head = read_head(b"POST /x HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n")

    assert lines == head.lines
    assert [("b", "1"), ("HOST", "x"), ("A", "2"), ("a", "3"), ("Content-Length", "0")] == head.headers
    assert ("POST", "/x", 1, 0, 1, True) == (
        head.method, head.target, head.http_minor, head.length, head.host_index, head.keep_alive,
    )  # fmt: skip


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 1000])
def test_a_head_may_arrive_in_several_reads(pieces: int) -> None:
    """The parsed head is the same."""
    head = read_head(b"GET /a HTTP/1.1\r\nHost: b\r\nX: y\r\n\r\n", pieces)

    assert ("GET", [b"Host: b", b"X: y"]) == (head.method, head.lines)


def test_hop_by_hop_headers_are_not_forwarded() -> None:
    """Nor are the headers that Connection names, and our token; the framing headers always are."""
    head = read_head(
        b"POST / HTTP/1.1\r\nX-Hop: 1\r\nHost: a\r\nConnection: keep-alive, X-Hop, Host, Content-Length\r\n"
        b"Keep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: b\r\nX-TraceForge-Token: t\r\nContent-Length: 3\r\n"
        b"Z: 1\r\n\r\n"
    )

    assert [b"Host: a", b"Content-Length: 3", b"Z: 1"] == head.lines
    assert (0, "t") == (head.host_index, head.inspected["x-traceforge-token"])


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", 400),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        (b"Content-Length: 1\r\nContent-Length: 1\r\n", 400),
        (b"Content-Length: 1, 1\r\n", 400),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length: +1\r\n", 400),
        (b"Content-Length: 0x1\r\n", 400),
        (b"Content-Length: 99999999999999999999\r\n", 400),
        (b"Transfer-Encoding: gzip\r\n", 400),
        (b"Transfer-Encoding: chunked, gzip\r\n", 400),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400),
        (b"Transfer-Encoding: xchunked\r\n", 400),
        (b"Transfer-Encoding : chunked\r\n", 400),
        (b"A: b\r\n folded\r\n", 400),
        (b"A: b\n", 400),
        (b"A\r\n", 400),
        (b"A: \0\r\n", 400),
        (b": x\r\n", 400),
        (b"Host: b\r\n", 400),
        (b"A: b\r\n" * 201, 431),
        (b"A: " + b"x" * 65536 + b"\r\n", 431),
    ],
)
def test_an_ambiguous_head_is_refused(head: bytes, status: int) -> None:
    """Lengths, chunks, line ends and hosts must be unique and well-formed."""
    with pytest.raises(InvalidHead) as caught:
        read_head(b"POST / HTTP/1.1\r\n" + HOST + head + b"\r\n")

    assert status == caught.value.status


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 505),
        (b"NONSENSE / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ],
)
def test_a_head_that_is_no_http_1_request_is_refused(data: bytes, status: int) -> None:
    """TLS on a plain port, another version, no host."""
    with pytest.raises(InvalidHead) as caught:
        read_head(data)

    assert status == caught.value.status


@given(st.binary(max_size=60))
def test_we_see_the_same_headers_as_llhttp(noise: bytes) -> None:
    """Nothing hides between two readings of a head that llhttp accepts."""
    data = b"POST /x HTTP/1.1\r\nHost: a\r\n" + noise + b"\r\n\r\n"
    parsed: list[tuple[bytes, bytes]] = []

    class Listener:
        def on_header(self, name: bytes, value: bytes) -> None:
            parsed.append((name, value.strip(b" \t")))

    parser = HttpRequestParser(Listener())
    try:
        parser.feed_data(data[: data.index(b"\r\n\r\n") + 4])
        head = read_head(data)
    except (HttpParserError, InvalidHead):
        return
    ours = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
    if "connection" not in head.inspected:
        assert ours == [header for header in parsed if header[0].decode().lower() not in HOP_BY_HOP]


@pytest.mark.parametrize(
    ("head", "method", "length", "keep"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "POST", 5, True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n", "POST", 5, False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "HEAD", 0, True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n", "GET", 0, True),
        (b"HTTP/1.1 204 No Content\r\n", "GET", 0, True),
        (b"HTTP/1.1 100 Continue\r\n", "POST", 0, True),
        (b"HTTP/1.1 200\r\nTransfer-Encoding: gzip, chunked\r\n", "POST", CHUNKED, True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", "POST", UNTIL_CLOSE, True),
        (b"HTTP/1.1 200 OK\r\n", "POST", UNTIL_CLOSE, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n", "POST", 5, False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n", "POST", 5, True),
    ],
)
def test_the_length_of_a_response_follows_from_method_status_and_headers(
    head: bytes, method: str, length: int, keep: bool
) -> None:
    """As HTTP defines it."""
    read_head = answer(head + b"\r\n", method)

    assert (length, keep) == (read_head.length, read_head.keep_alive)


@pytest.mark.parametrize(
    ("head", "forwarded"),
    [
        (b"HTTP/1.1 200 OK\r\nB: 1\r\na:2\r\n", b"HTTP/1.1 200 OK\r\nB: 1\r\na:2\r\n"),
        (b"HTTP/1.0 404 Not Found\r\nB: 1\r\n", b"HTTP/1.1 404 Not Found\r\nB: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nB: 1\r\n", b"HTTP/1.1 200 OK\r\nB: 1\r\n"),
        (b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 204 No Content\r\n"),
    ],
)
def test_a_response_head_is_forwarded_as_http_1_1_without_hop_by_hop_headers(head: bytes, forwarded: bytes) -> None:
    """The lines are the received ones, and the headers that are recorded are those that are forwarded."""
    read_head = answer(head + b"\r\n")

    assert forwarded == read_head.forwarded
    assert forwarded.count(b"\r\n") - 1 == len(read_head.header_pairs)
