"""Bytes that two programs could read differently, and addresses that are none, at every place that takes them."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from support.raw_sockets import Proxy, Upstream
from support.three_servers import ALL_KINDS, HEALTH, AttackedServer, attacked_server, is_answered, read_refusal
from traceforge.addresses import upstream_problem
from traceforge.capture.http_client import CallControl, HttpClient
from traceforge.capture.proxy.upstream_routes import PathLeavesUpstream, UpstreamRoutes, leaves_base_path
from traceforge.cli.main import main
from traceforge.context.api.http_transport import ServerAddress
from traceforge.context.storage.database import database_url
from traceforge.errors import CannotListen, InvalidStoreAddress
from traceforge.http.access import AccessDenied, AccessPolicy
from traceforge.http.body_framing import CHUNKED as CHUNKED_LENGTH
from traceforge.http.body_framing import UNTIL_CLOSE, InvalidBody, open_body
from traceforge.http.bound_socket import bind_socket
from traceforge.http.event_stream import EventStreamParser
from traceforge.http.message_head import HeadReader, InvalidHead, RequestHead, ResponseHead, split_target
from traceforge.snapshots.live.live_sender import retry_after

START = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
AMBIGUOUS = {
    "two codings": START + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "coding twice in a line": START + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "another coding": START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding with identity": START + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "coding and length": START + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "length and coding": START + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "coding in a list": START + b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
    "coding behind a space of Latin-1": START + b"Transfer-Encoding: \xa0chunked\r\n\r\n0\r\n\r\n",
    "coding and length of an upgrade": START + CHUNKED + b"Upgrade: h2c\r\nConnection: Upgrade\r\n"
    b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "coding of HTTP/1.0": START.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n0\r\n\r\n",
    "one length twice": START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
    "two lengths": START + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "list of lengths": START + b"Content-Length: 5, 5\r\n\r\nabcde",
    "negative length": START + b"Content-Length: -1\r\n\r\n",
    "length with a sign": START + b"Content-Length: +5\r\n\r\nabcde",
    "length beyond 64 bits": START + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two hosts": START + b"Host: localhost\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "bare LF": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "bare LF in headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    "bare CR": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    "folded line": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "NUL in a value": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "NUL in a name": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\0: a\r\n\r\n",
    "NUL in the target": b"GET /heal\0thz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "space before the colon": b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "space in a name": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX Y: a\r\n\r\n",
    "space before a name": b"GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "no name": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n: a\r\n\r\n",
    "two spaces": b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "another version": b"GET /healthz HTTP/3.7\r\nHost: localhost\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "TLS client hello": b"\x16\x03\x01\x02\0\1\0\1\xfc\x03\x03" + bytes(500),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "target that is no URL": b"GET http://[::1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
MALFORMED_CHUNKS = {
    "size with a sign": b"+1\r\nx\r\n0\r\n\r\n",
    "size in C": b"0x1\r\nx\r\n0\r\n\r\n",
    "size beyond 64 bits": b"fffffffffffffffff\r\nx",
    "size with a space": b"1 \r\nx\r\n0\r\n\r\n",
    "no size": b"\r\nx\r\n0\r\n\r\n",
    "chunk that is too long": b"1\r\nxy\r\n0\r\n\r\n",
    "bare LF": b"1\nx\n0\n\n",
    "NUL in an extension": b"1;a=\0\r\nx\r\n0\r\n\r\n",
    "extensions without end": b"1;" + b"a" * (20 << 10),
    "flood of extensions": (b"1;" + b"a" * 9000 + b"\r\nx\r\n") * 10,
    "flood of trailers": b"0\r\n" + b"X: y\r\n" * 20_000,
    "trailer without a colon": b"0\r\nhello\r\n\r\n",
}
HOSTS = [
    "127.0.0.1/.evil.example", "127.0.0.1?.evil.example", "127.0.0.1#.evil.example", "127.0.0.1\\.evil.example",
    "evil@127.0.0.1", "127.0.0.1\t.evil.example", "127.0.0.1 evil.example", "127.0.0.1:80:80", "127.0.0.1:x",
    "127.0.0.1,evil.example", "[::1", "[::1].evil.example", "[::1%eth0]", "http://127.0.0.1", "127.0.0.1:-1", "",
    "loc%61lhost", "127.0.0.1;evil",
]  # fmt: skip
OpenServer = Callable[..., AttackedServer]


@pytest.fixture(params=ALL_KINDS)
def open_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenServer]:
    """Start one of the four servers."""
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(attacked_server(request.param, tmp_path, **limits))


def test_a_request_that_can_be_read_in_two_ways_is_refused_by_every_server(open_server: OpenServer) -> None:
    """And its connection is closed, so that nothing after it is taken for a request."""
    server = open_server()
    statuses = {name: read_refusal(server.send(data + HEALTH)) for name, data in AMBIGUOUS.items()}

    assert {} == {name: status for name, status in statuses.items() if status not in (400, 505)}
    assert server.is_healthy()


def test_a_host_is_a_host_and_a_port_for_every_server(open_server: OpenServer) -> None:
    """Whatever else stands there, another program could take a different part of it for the host."""
    server = open_server()
    heads = {host: f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n" for host in HOSTS}
    statuses = {host: read_refusal(server.send(head.encode())) for host, head in heads.items()}

    assert {} == {host: status for host, status in statuses.items() if status != 400}
    # Any other port is another server; `ui`, which browsers open, serves none but its own and the names it was given.
    forwarded = () if server.kind == "ui" else (b"127.0.0.1:1", b"[::1]:80", b"localhost.")
    for host in (b"localhost", b"LOCALHOST:8080", b"127.0.0.1:%d" % server.port, *forwarded):
        assert is_answered(server.send(HEALTH.replace(b"localhost", host))), host


@pytest.mark.parametrize("host", HOSTS)
def test_an_origin_is_a_host_and_a_port(host: str) -> None:
    """The same holds for the page that a browser says a request comes from."""
    with pytest.raises(AccessDenied):
        AccessPolicy("127.0.0.1").check({"host": "127.0.0.1", "origin": f"http://{host}"})


def test_a_malformed_chunk_is_refused_by_every_server(open_server: OpenServer) -> None:
    """Sizes, ends, extensions and trailers; a flood of extensions as well."""
    server = open_server()
    head = server.post_head + CHUNKED + b"\r\n"
    statuses = {name: read_refusal(server.send(head + data)) for name, data in MALFORMED_CHUNKS.items()}

    assert {} == {name: status for name, status in statuses.items() if status != 400}
    assert server.is_healthy()


@pytest.mark.slow
def test_a_target_that_names_another_machine_is_refused(open_server: OpenServer) -> None:
    """Whatever Host says; one that names this machine is served."""
    server = open_server()
    path = b"/healthz" if server.kind != "proxy" else b"/metrics"  # The proxy's health is no secret.
    other = b"GET http://evil.example%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path
    own = b"GET http://localhost%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path

    assert 421 == read_refusal(server.send(other))
    assert is_answered(server.send(own))


@pytest.mark.slow
def test_an_expectation_without_a_body_does_not_hang_a_server(open_server: OpenServer) -> None:
    """`Expect: 100-continue` is for a body; without one there is nothing to wait for."""
    server = open_server()
    peer = server.send(HEALTH[:-2] + b"Expect: 100-continue\r\n\r\n")
    answer = peer.read_head()
    if answer.startswith(b"HTTP/1.1 100 "):
        answer = peer.read_head()

    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_an_offer_to_upgrade_is_ignored_or_refused(open_server: OpenServer) -> None:
    """No byte after it is taken for another protocol."""
    server = open_server()
    peer = server.send(HEALTH[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + HEALTH)

    assert is_answered(peer)
    assert is_answered(peer)


LEAVING = [
    "/..", "/../x", "/v1/../../x", "/%2e%2e/x", "/%2E./x", "/.%2e/x", "/%252e%252e/x", "/%25252e%25252e/x",
    "/..%2fx", "/..%5cx", "/..\\x", "/v1\\..\\..\\x", "/v1/%2e%2e%2f%2e%2e/x", "/a//../../x", "/./../x", "/..;a=b/x",
    "/a%2fb/../../x", "/%25%32%65%25%32%65/x", "/%252525252525252e/x", "/..#x", "/..%23", "/..%2523", "/..%3fx",
    "/..%00/x", "/.%09./x", "/..%0d%0a/x", "/%c0%ae%c0%ae/x", "/..%c0%af", "/..%c1%9cx", "/%e0%80%ae./x",
    "/%f0%80%80%ae./x", "/%u002e%u002e/x", "/%ef%bc%8e%ef%bc%8e/x", "/..%ef%bc%8fx", "/%e2%80%a5/x",
    # Read by servers that decode the dots, and not the sign between the names.
    "/a%2fb/%2e%2e/%2e%2e/x", "/a%2Fb/.%2e/%2E./x", "/a%c0%afb/%2e%2e/%2e%2e/x", "/a%u002fb/%2e%2e/%2e%2e/x",
    "/a%252fb/%2e%2e/%252e%252e/x", "/a%ef%bc%8fb/%2e%2e/%2e%2e/x",
]  # fmt: skip
STAYING = [
    "/v1/chat/completions",
    "/v1/../v1/x",
    "/v1/..x/y",
    "/v1/...",
    "/a/b/../../x",
    "/v1/x%20y",
    "/v1/100%25",
    "/v1/models/ft%3agpt%23a/b%3fc",
    "/v1/%c3%a9%e2%80%a6",
    "",
]


@pytest.mark.parametrize("path", LEAVING)
def test_a_path_that_leaves_the_base_path_of_its_upstream_is_refused(path: str) -> None:
    """Behind the name of an upstream, and without one; dots in the query are nobody's path."""
    routes = UpstreamRoutes({"team": "https://gateway.example/team-a", "openai": "https://gateway.example/team-b"})

    assert leaves_base_path(path)
    for target in (f"/team{path}", f"/team{path}?a=b", f"/v1/chat{path}/../..{path}"):
        with pytest.raises(PathLeavesUpstream):
            routes.find_route("POST", target, is_anthropic=False)


@pytest.mark.parametrize("path", STAYING)
def test_a_path_that_stays_within_its_upstream_is_forwarded_as_it_is(path: str) -> None:
    """`..` that leads back inside, and names with dots."""
    routes = UpstreamRoutes({"team": "https://gateway.example/team-a"})
    route = routes.find_route("POST", f"/team{path}?x=../../..", is_anthropic=False)

    assert route is not None
    assert f"/team-a{path or '/'}?x=../../.." == route.path


def test_no_byte_of_a_path_that_leaves_reaches_the_upstream() -> None:
    """The client's API key would go with it."""
    upstream = Upstream()
    proxy = Proxy({"up": f"{upstream.url}/base"}, sink=False)
    try:
        for path in ("/up/../admin", "/up/%2e%2e/admin", "/up/..%5cadmin"):
            peer = proxy.connect()
            peer.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\r\n".encode())
            assert b"path_outside" in peer.response()
        assert upstream.has_no_other_connection()
    finally:
        proxy.stop()
        upstream.close()


RESPONSES = {
    b"Transfer-Encoding: chunked": CHUNKED_LENGTH,
    b"Transfer-Encoding: gzip, chunked": CHUNKED_LENGTH,
    b"Transfer-Encoding: \xa0chunked": UNTIL_CLOSE,
    b"Transfer-Encoding: chunked\x85": UNTIL_CLOSE,
    b"Transfer-Encoding: gzip,\xa0chunked": UNTIL_CLOSE,
    b"Transfer-Encoding: xchunked": UNTIL_CLOSE,
}


@pytest.mark.parametrize("header", RESPONSES)
def test_the_body_of_a_response_is_chunked_only_where_every_client_reads_it_so(header: bytes) -> None:
    """A word with a space that only Latin-1 has is another coding: the response ends with its connection."""
    head = ResponseHead(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n", "POST")

    assert RESPONSES[header] == head.length


@pytest.mark.parametrize("status", ["000", "099"])
def test_a_status_that_http_does_not_have_announces_no_further_response(status: str) -> None:
    """As an interim response, it would make the next answer belong to it."""
    with pytest.raises(InvalidHead):
        ResponseHead(f"HTTP/1.1 {status} OK\r\n\r\n".encode(), "POST")


@pytest.mark.parametrize(
    "text",
    ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "1e400", "nan", "-1", "("],
)
def test_a_time_to_wait_that_is_none_ends_no_live_check(text: str) -> None:
    """A server may name a year beyond the calendar."""
    assert retry_after((("Retry-After", text),)) is None


BAD_URLS = [
    "http://[", "http://[::1/x", "https://[::1/x", "http://h:99999", "http://h:x/", "http://h:-1/", "http://",
    "http:///x", "http://a b/", "http://h:8 0/", "http://:80/", "http://a@:1/", "http://h\0/", "http://a..b/",
    "http://" + "a" * 300, "http://h:0/", "http://h|x/", "HTTP://[",
]  # fmt: skip
BAD_DATABASES = [
    "[::1/x", "//[::1/x", "[::1]:5432/db", "postgresql://[::1/x", "postgresql://h:99999/d", "postgresql://h:x/d",
    "postgresql://a b/d", "postgresql://h\0/d", "sqlite://[", "sqlite:///a\0b", "a\0b", "redis://h:1", "mysql://x",
    "postgresql+psycopg://[x",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_names_no_host_is_refused_wherever_one_is_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store, an upstream, a proxy of the environment, an address to listen on, a header."""
    with pytest.raises(InvalidStoreAddress):
        ServerAddress(url, None)
    assert upstream_problem("x", url)
    if "\0" not in url:
        monkeypatch.setenv("http_proxy", url)
        with pytest.raises(http.client.HTTPException):
            HttpClient("test").post("http://model.example/x", b"", {}, CallControl(1.0))
    with pytest.raises(CannotListen):
        bind_socket(url, 0)
    with pytest.raises(AccessDenied):
        AccessPolicy("127.0.0.1").check({"host": url.partition("//")[2] or "[", "origin": url})


@pytest.mark.parametrize("address", [*BAD_DATABASES, "http://[::1/x", "http://h:99999"])
def test_an_address_of_a_store_that_is_none_is_a_usage_error(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By option and by variable: exit code 2 with its own code, never an internal error."""
    monkeypatch.chdir(tmp_path)
    if not address.startswith("http"):
        with pytest.raises(InvalidStoreAddress):
            database_url(address)
    with pytest.raises(SystemExit) as ended:
        main(["context", "session", "list", "--db", address])

    assert (2, True) == (int(str(int(ended.value.code or 0))), "error TF806: " in capsys.readouterr().err)
    assert [] == list(tmp_path.iterdir())


HEAD_PIECES = st.sampled_from(
    [b"GET ", b"POST ", b"/healthz", b"/", b"..", b"%2e", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r",
     b"Host: a", b"Host: localhost", b"Content-Length: 3", b"Transfer-Encoding: chunked", b": ", b"X", b" ", b"\t",
     b"\0", b"\xff", b"Connection: close", b"Expect: 100-continue", b"Upgrade: h2c", b"abc", b"http://[",
     b"3\r\nabc\r\n0\r\n\r\n", b"\r\n\r\n"]
)  # fmt: skip
HEADS = st.one_of(st.lists(HEAD_PIECES, max_size=20).map(b"".join), st.binary(max_size=200))


def read_head(data: bytes, cuts: list[int]) -> RequestHead | str | None:
    """Feed a head in pieces; the head, "refused", or None while it is not complete."""
    reader = HeadReader.for_request()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    try:
        for start, end in pairwise(edges):
            if (head := reader.feed(data[start:end])) is not None:
                parsed = RequestHead(head)
                split_target(parsed.target)
                return parsed
    except InvalidHead:
        return "refused"
    return None


@pytest.mark.fuzzer(30)
@fuzz(500)
@given(HEADS, st.lists(st.integers(0, 300), max_size=5))
def test_a_request_head_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    """And whatever it holds, it is a head, refused, or incomplete; a head has one meaning only."""
    whole, pieces = read_head(data, []), read_head(data, cuts)

    assert type(whole) is type(pieces)
    if isinstance(whole, RequestHead) and isinstance(pieces, RequestHead):
        assert (whole.lines, whole.length, whole.target) == (pieces.lines, pieces.length, pieces.target)
        lengths = [
            line for line in whole.lines if line.lower().startswith((b"content-length:", b"transfer-encoding:"))
        ]
        assert len(lengths) <= 1 or len({line.partition(b":")[2].strip() for line in lengths}) == 1
        assert not any(mark in line for line in whole.lines for mark in (b"\0", b"\n", b"\r"))


@pytest.mark.fuzzer(15)
@fuzz(300)
@given(HEADS)
def test_a_response_head_is_read_or_refused(data: bytes) -> None:
    """No other exception comes out of bytes of an upstream."""
    reader = HeadReader.for_response()
    try:
        head = reader.feed(b"HTTP/1.1 200 OK\r\n" + data)
        if head is not None:
            ResponseHead(head, "POST")
    except InvalidHead:
        pass


BODY_PIECES = st.sampled_from(
    [b"0", b"1", b"5", b"a", b"\r\n", b"\n", b";a=b", b"xxxxx", b"X: y\r\n", b" ", b"\0", b"0\r\n\r\n",
     b"5\r\nabcde\r\n"]
)  # fmt: skip


@pytest.mark.fuzzer(60)
@fuzz(500)
@given(st.lists(BODY_PIECES, max_size=20).map(b"".join), st.lists(st.integers(0, 100), max_size=5))
def test_a_chunked_body_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    """Its payload, its end and whether it is refused; the raw bytes are forwarded unchanged."""

    def read(edges: list[int]) -> tuple[bytes, bytes, bool, bool]:
        body = open_body(-1)
        payload, raw, is_refused = b"", b"", False
        try:
            for start, end in pairwise(edges):
                if not body.is_complete and start < end:
                    body.feed(data[start:end])
                    payload, raw = payload + b"".join(body.payload), raw + body.raw
        except InvalidBody:
            is_refused = True
        return (b"", b"", False, True) if is_refused else (payload, raw, body.is_complete, False)

    whole = read([0, len(data)])
    assert whole == read(sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)}))
    assert data.startswith(whole[1])


EVENT_PIECES = st.sampled_from(
    [b"data: ", b"data", b":", b"event: x", b"id: 1", b"retry: 2", b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf",
     b"\xff", b"\0", b"[DONE]", b'{"a":1}', b" "]
)  # fmt: skip


@pytest.mark.fuzzer(60)
@fuzz(500)
@given(st.lists(EVENT_PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=6))
def test_an_event_stream_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    """The same events, and none of them holds more bytes than came."""

    def read(edges: list[int]) -> list[tuple[str, bytes]]:
        parser = EventStreamParser()
        events = [event for start, end in pairwise(edges) for event in parser.feed(data[start:end])]
        return [tuple(event) for event in events + parser.finish()]  # type: ignore[misc]

    whole = read([0, len(data)])
    assert whole == read(sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)}))
    assert sum(len(event_data) for _, event_data in whole) <= len(data)


@pytest.fixture(scope="module")
def fuzzed_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AttackedServer]]:
    """All four servers, for all examples."""
    with ExitStack() as stack:
        yield [stack.enter_context(attacked_server(kind, tmp_path_factory.mktemp(kind))) for kind in ALL_KINDS]


@pytest.mark.fuzzer(15)
@fuzz(60)
@given(HEADS)
def test_no_request_head_takes_a_server_away(fuzzed_servers: list[AttackedServer], data: bytes) -> None:
    """Each server answers the next client, on a connection of its own."""
    for server in fuzzed_servers:
        peer = server.send(data)
        assert server.is_healthy()
        peer.close()
