"""Access to the proxy, size limits and timeouts."""

from __future__ import annotations

import json

import pytest

from support.raw_sockets import SECONDS_MAX, Peer, Proxy, Upstream, request, response
from traceforge.capture.proxy import client_connection as client_module
from traceforge.http.server_limits import PROXY_LIMITS

Pair = tuple[Upstream, Proxy]


def send_until_full(client: Peer, data: bytes) -> None:
    """Send the same data until the peer accepts no more."""
    client.sock.settimeout(0.3)
    sent = 0
    try:
        while sent < 200 << 20:
            sent += client.sock.send(data[sent % len(data) :])
    except TimeoutError:
        client.sock.settimeout(SECONDS_MAX)
        return
    raise AssertionError(f"{sent} bytes were taken")


def status_of(answer: bytes) -> int:
    """The status of an answer."""
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /up/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /up/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /up/x HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01", 400),
        (b"GET /up/x HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 66000, 431),
        (b"GET /up/x HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
        (b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ],
)
def test_an_ambiguous_request_is_refused_and_the_connection_closed(pair: Pair, sent: bytes, status: int) -> None:
    """Nothing of it, and nothing after it, reaches an upstream."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(sent)

    answer = client.read_to_end()
    assert status == status_of(answer)
    assert b"Connection: close\r\n" in answer
    assert upstream.has_no_other_connection()
    assert [] == proxy.sink.exchanges


def test_malformed_chunks_within_a_request_end_the_call(pair: Pair) -> None:
    """The upstream gets a request that breaks off, the client a 400."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
    server = upstream.accept()
    server.read_until(b"ab\r\n")
    client.send(b"2\r\nabcd\r\n")

    assert 400 == status_of(client.read_to_end())
    assert server.is_closed_by_peer()
    assert "malformed" in proxy.sink.wait()[0].error


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Host: localhost\r\n", 404),
        (b"Host: LOCALHOST:8787\r\n", 404),
        (b"Host: app.localhost\r\n", 404),
        (b"Host: 127.0.0.1\r\n", 404),
        (b"Host: 127.9.9.9:1\r\n", 404),
        (b"Host: [::1]:8787\r\n", 404),
        (b"Host: evil.example.com\r\n", 421),
        (b"Host: localhost.evil.example.com\r\n", 421),
        (b"Host: 192.168.1.1\r\n", 421),
        (b"Host: localhost@evil.example.com\r\n", 400),
        (b"Host: localhost\r\nOrigin: http://localhost:3000\r\n", 404),
        (b"Host: localhost\r\nOrigin: https://evil.example.com\r\n", 403),
        (b"Host: localhost\r\nOrigin: null\r\n", 403),
        (b"Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
        (b"Host: localhost\r\nSec-Fetch-Site: same-origin\r\n", 404),
    ],
)
def test_on_loopback_host_and_origin_must_be_of_this_machine(pair: Pair, headers: bytes, status: int) -> None:
    """A page of another site, or a name that was resolved to loopback (DNS rebinding), is refused."""
    _, proxy = pair
    client = proxy.connect()
    client.send(b"GET /nowhere HTTP/1.1\r\n" + headers + b"\r\n")

    assert status == status_of(client.response())


def test_a_target_that_names_another_host_is_refused(pair: Pair) -> None:
    """This is not a forward proxy."""
    _, proxy = pair
    client = proxy.connect()
    client.send(b"GET http://example.com/up/x HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert 421 == status_of(client.response())


def test_an_unknown_path_is_a_404_that_names_the_prefixes(pair: Pair) -> None:
    """The connection stays open, even after a request with a body."""
    _, proxy = pair
    client = proxy.connect()
    for _ in range(2):
        client.send(request("/nowhere/v1/messages", b"x" * 100_000))
        answer = client.response()
        assert 404 == status_of(answer)
        message = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
        assert message.endswith("/anthropic, /gemini, /ollama, /openai, /up")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /up/v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
        b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
    ],
)
def test_upgrades_and_tunnels_are_refused_and_counted(pair: Pair, sent: bytes) -> None:
    """The proxy could not record them."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(sent)

    assert 501 == status_of(client.response())
    assert 1 == proxy.state.metrics.unseen
    assert upstream.has_no_other_connection()


def test_healthz_and_metrics_are_never_forwarded(pair: Pair) -> None:
    """The metrics count the calls before."""
    upstream, proxy = pair
    client = proxy.post(body=b"12345")
    server = upstream.accept()
    server.request()
    server.send(response(b"123"))
    client.response()
    client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert client.response().endswith(b'\r\n\r\n{"status":"ok"}')
    assert b"Content-Length: 15\r\n" in client.read_head()
    client.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    text = client.response().decode()

    for line in (
        'calls_total{provider="up",status="2xx",worker="0"} 1',
        'outcomes_total{outcome="answered",worker="0"} 1',
        'in_flight{worker="0"} 0',
        'request_bytes_total{worker="0"} 5',
        'response_bytes_total{worker="0"} 3',
        'response_chunks_total{worker="0"} 1',
        'exchanges_total{result="recorded",worker="0"} 1',
    ):
        assert f"traceforge_proxy_{line}\n" in text
    assert upstream.has_no_other_connection()


@pytest.mark.parametrize("sent", [b"", b"GET /up/x HTTP/1.1\r\nHost: loc", b"\r\n"])
def test_a_head_must_arrive_in_time(pair: Pair, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a head gets a 408; a connection without a byte is just closed."""
    _, proxy = pair
    head_seconds = 0.3 if sent else 0.0  # Bytes that are not read before the proxy closes reset the connection.
    monkeypatch.setattr(proxy.state, "limits", PROXY_LIMITS._replace(head_seconds=head_seconds))
    client = proxy.connect()
    if sent:
        client.send(sent)
    answer = client.read_to_end()

    assert answer.startswith(b"HTTP/1.1 408 ") if b"GET" in sent else answer == b""


def test_an_idle_connection_is_closed_and_a_slow_response_is_not(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models may take their time; connections without a call may not."""
    upstream, proxy = pair
    monkeypatch.setattr(proxy.state, "limits", PROXY_LIMITS._replace(head_seconds=0.0, idle_seconds=0.0))
    slow = proxy.post()
    server = upstream.accept()
    server.request()
    idle = proxy.connect()
    idle.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    idle.response()
    assert b"" == idle.read_to_end()
    server.send(response())

    assert response() == slow.response()


def test_the_rest_of_an_answered_request_is_read_up_to_a_limit(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the connection is closed."""
    _, proxy = pair
    monkeypatch.setattr(client_module, "DISCARDED_BYTES_MAX", 1000)
    client = proxy.connect()
    client.send(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
    assert 404 == status_of(client.response())
    client.send(b"x" * 2000)

    assert client.is_closed_by_peer()


def test_pipelined_requests_are_read_up_to_a_limit(pair: Pair) -> None:
    """A client that does not wait for its responses is not read any further."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    send_until_full(client, request("/healthz", b"x" * 60_000))
    (connection,) = proxy.state.connections

    assert len(connection._pipelined) < 1 << 20


def test_a_client_that_reads_nothing_is_not_served_more(pair: Pair) -> None:
    """Its responses do not pile up here."""
    _, proxy = pair
    client = proxy.connect()
    client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.response()
    send_until_full(client, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
    (connection,) = proxy.state.connections

    assert connection.transport.get_write_buffer_size() < 1 << 20
    for _ in range(500):
        assert 200 == status_of(client.response())
