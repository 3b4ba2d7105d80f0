"""The limits of `docs/reference/server-limits.md`, on the real proxy, context server, chat and web view.

Every test runs on each of the servers, over loopback sockets. Deadlines are short here, and a test waits for
what the server does about them, never for a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.raw_sockets import Peer
from support.three_servers import (
    ALL_KINDS,
    HEALTH,
    KINDS,
    SECONDS_MAX,
    AttackedServer,
    attacked_server,
    is_answered,
    read_refusal,
    status_of,
)
from traceforge.capture.proxy import proxy_server
from traceforge.http.server_limits import HEAD_BYTES_MAX, HEADERS_MAX
from traceforge.ui.page_renderer import StaticFiles

OpenServer = Callable[..., AttackedServer]
SHORT = 0.2  # Seconds.


@pytest.fixture(params=ALL_KINDS)
def open_server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenServer]:
    """Start one of the servers with these limits."""
    monkeypatch.setattr(proxy_server, "EXPIRY_CHECK_SECONDS", 0.05)
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(attacked_server(request.param, tmp_path, **limits))


@pytest.fixture(params=KINDS)
def open_keyless_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenServer]:
    """Start one of the servers on which a client without a key can have a call in flight."""
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(attacked_server(request.param, tmp_path, **limits))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def send_until_cut(peer: Peer, data: bytes) -> bool:
    """Send the same data until the server closes the connection, or stops reading for the timeout of the socket."""
    try:
        for _ in range((100 << 20) // len(data)):
            peer.sock.send(data)
    except OSError:
        return True
    return False


def test_half_a_head_and_half_a_body_get_408(open_server: OpenServer) -> None:
    """A connection without a byte is just closed, and a drip of bytes does not extend the time."""
    server = open_server(head_seconds=SHORT, body_seconds=SHORT)
    half_head = server.send(HEALTH[:-3])
    half_body = server.send(server.post_head + b"Content-Length: 9\r\n\r\n{")
    half_chunk = server.send(server.post_head + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{")
    silent = server.connect()

    assert [408, 408, 408, 0] == [read_refusal(peer) for peer in (half_head, half_body, half_chunk, silent)]
    for start in (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
        server.post_head + b"Content-Length: 99999\r\n\r\n",
    ):
        assert drip(server.send(start)) == 408


def drip(peer: Peer) -> int:
    """Send a byte at a time until the server responds and closes; its status."""
    peer.sock.settimeout(0.02)
    received = b""
    for _ in range(2000):
        try:
            peer.send(b"x")
            data = peer.sock.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            break
        if not data:
            break
        received += data
    else:
        raise AssertionError("the server takes one byte after the other")
    return status_of(received) if received else 408  # The reset may come before the response is read.


def test_an_idle_connection_is_closed_and_a_call_in_flight_is_not(open_server: OpenServer) -> None:
    """The call waits longer than every deadline, and is answered."""
    server = open_server(head_seconds=SHORT, body_seconds=SHORT, idle_seconds=SHORT, write_seconds=SHORT)
    slow = server.send(server.slow_request)
    idle = server.send(HEALTH)
    assert is_answered(idle)
    assert 0 == read_refusal(idle)
    assert 0 == read_refusal(server.connect())
    server.finish_slow()

    assert is_answered(slow)


@pytest.mark.parametrize(
    "headers",
    [b"X: " + b"x" * HEAD_BYTES_MAX, b"X: y\r\n" * (HEADERS_MAX + 1) + b"\r\n", b"X" * HEAD_BYTES_MAX],
    ids=["size", "count", "name"],
)
def test_a_large_head_gets_431(open_server: OpenServer, headers: bytes) -> None:
    """By its size, complete or not, and by the number of its headers."""
    server = open_server()

    assert 431 == read_refusal(server.send(HEALTH[:-2] + headers))
    assert server.is_healthy()


@pytest.mark.slow
def test_a_head_of_a_hundred_megabytes_is_not_taken(open_server: OpenServer) -> None:
    """The server closes after a few megabytes at most."""
    server = open_server()
    peer = server.send(HEALTH[:-2])

    assert send_until_cut(peer, b"X: " + b"x" * (1 << 16))
    assert server.is_healthy()


def test_half_open_heads_never_keep_an_honest_client_out(open_server: OpenServer) -> None:
    """They make room for newcomers, and there are never more connections than the limit allows."""
    server = open_server(connections=8)
    honest = server.send(HEALTH)
    assert is_answered(honest)
    for _ in range(60):
        server.send(HEALTH[:-3])
    wait_for(lambda: server.count_connections() == 8)

    assert server.is_healthy()
    honest.send(HEALTH)  # It has been idle for a shorter time than it may, and a head may take less.
    assert is_answered(honest)
    assert server.count_connections() <= 8


def test_a_call_in_flight_never_makes_room(open_server: OpenServer) -> None:
    """An idle connection does; an eighth of the connections is left for clients that make no call."""
    server = open_server(connections=4)
    calls = [server.send(server.slow_request) for _ in range(3)]
    idle = server.send(HEALTH)
    assert is_answered(idle)
    assert 503 == read_refusal(server.send(server.slow_request))
    assert 0 == read_refusal(idle)
    assert all(server.is_healthy() for _ in range(5))
    for _ in range(3):
        server.finish_slow()

    assert all(is_answered(peer) for peer in calls)


def test_an_address_with_its_share_of_calls_waits_and_the_others_are_served(open_keyless_server: OpenServer) -> None:
    """Its pages are, too; the refusal says when to come again, except that of the proxy, which invites no retry."""
    server = open_keyless_server(connections=32, calls_per_address=3)
    greedy = [server.send(server.slow_request) for _ in range(3)]
    assert server.is_healthy()  # So the server has read all that came before.
    refusal = server.send(server.slow_request).response()
    assert 429 == status_of(refusal)
    assert (server.kind != "proxy") is (b"\r\nretry-after: 5\r\n" in refusal.lower())
    other = server.send(server.slow_request, "127.0.0.2")
    assert server.is_healthy()
    for _ in range(4):
        server.finish_slow()

    assert all(is_answered(peer) for peer in (*greedy, other))


def test_a_body_that_ends_after_the_share_is_taken_gets_429(open_keyless_server: OpenServer) -> None:
    """Otherwise bodies that are held back would go around the limit."""
    server = open_keyless_server(connections=32, calls_per_address=2)
    late = server.send(server.post_head + b"Content-Length: 2\r\n\r\n{")
    for _ in range(2):
        server.send(server.slow_request)
    wait_for(lambda: server.count_connections() == 3)
    wait_for(lambda: status_of(server.send(server.slow_request).response()) == 429)
    late.send(b"}")

    assert 429 == status_of(late.response())


@pytest.mark.slow
def test_two_hundred_idle_connections_of_an_application_stay_open(open_server: OpenServer) -> None:
    """With the limits of a user."""
    server = open_server()
    peers = [server.send(HEALTH) for _ in range(200)]
    assert all(is_answered(peer) for peer in peers)
    for peer in peers:
        peer.send(HEALTH)

    assert all(is_answered(peer) for peer in peers)


def test_a_client_that_reads_nothing_is_cut_and_fills_no_memory(open_server: OpenServer) -> None:
    """It sends requests ahead until the server stops reading, and then its time is over."""
    server = open_server(write_seconds=SHORT, idle_seconds=SHORT)
    peer = server.connect()
    peer.sock.settimeout(1)
    style = f"/static/{StaticFiles().version}/ui.css".encode()
    large = {"proxy": b"/metrics", "serve": b"/v2/openapi.json", "chat": b"/chat.js", "ui": style}[server.kind]
    data = HEALTH.replace(b"/healthz", large) * 500
    assert send_until_cut(peer, data)
    wait_for(lambda: server.count_connections() == 0)

    assert server.is_healthy()


@pytest.mark.slow
def test_requests_sent_ahead_are_read_up_to_a_limit(open_server: OpenServer) -> None:
    """While a call is in flight; afterwards each of them is answered."""
    server = open_server()
    peer = server.send(server.slow_request)
    peer.send(HEALTH * 200)
    peer.sock.settimeout(0.5)
    assert send_until_cut(peer, b"\r\n" * 500_000)  # Empty lines between requests; the client is not read.
    peer.sock.settimeout(SECONDS_MAX)
    server.finish_slow()

    assert all(is_answered(peer) for _ in range(201))


@pytest.mark.slow
def test_the_rest_of_a_refused_request_is_read_up_to_a_limit(open_server: OpenServer) -> None:
    """Without end, it would cost bandwidth and time."""
    server = open_server()
    start = server.post_head.replace(b" /", b" /nowhere/", 1) + b"Content-Length: 999999999\r\n\r\n"
    peer = server.send(start)

    assert send_until_cut(peer, b"x" * (1 << 16))
    assert server.is_healthy()
