"""Connections to an upstream that are kept after a call: when they are used again, and when they are closed."""

from __future__ import annotations

import pytest

from support.raw_sockets import Peer, Proxy, Upstream, read_until_broken, response
from traceforge.capture.proxy import relayed_call as relay_module
from traceforge.capture.proxy import upstream_pool as pool_module

Pair = tuple[Upstream, Proxy]


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
    """It is known to be closed before the next call."""
    upstream, proxy = pair
    stale(upstream, proxy).close()
    client = proxy.post(body=b"again")
    server = upstream.accept()
    assert server.request().endswith(b"again")
    server.send(response())

    assert response() == client.response()


def test_a_stale_connection_is_replaced_once(pair: Pair) -> None:
    """It took the request and closed without a byte: the whole request is sent again over a new connection."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.post(body=b"again")
    old.request()
    old.reset()
    server = upstream.accept()
    assert server.request().endswith(b"again")
    server.close()

    assert b"" == client.read_to_end()
    assert upstream.has_no_other_connection()
    assert (2, 1) == (len(proxy.sink.wait(2)), proxy.state.metrics.upstream_retries)


def test_an_incomplete_request_continues_over_the_new_connection(pair: Pair) -> None:
    """What had come is sent again, and the rest follows."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.connect()
    client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc")
    old.read_until(b"abc")
    old.close()
    server = upstream.accept()
    server.read_until(b"abc")
    client.send(b"def")

    assert b"def" == server.read_exactly(3)


def test_a_request_is_not_sent_again_after_a_byte_of_the_response(pair: Pair) -> None:
    """One byte shows that the upstream was there."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.post()
    old.request()
    old.send(b"H")
    old.close()

    assert b"H" == client.read_to_end()
    assert upstream.has_no_other_connection()


def test_a_request_beyond_the_resend_limit_is_not_sent_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was too large to keep."""
    monkeypatch.setattr(relay_module, "RESEND_BYTES_MAX", 100)
    upstream, proxy = pair
    old = stale(upstream, proxy)
    client = proxy.post(body=b"x" * 200)
    old.request()
    old.reset()

    assert b"" == read_until_broken(client, "reset")
    assert upstream.has_no_other_connection()


def test_bytes_without_a_request_close_a_kept_connection(pair: Pair) -> None:
    """They could be taken for the response to the next call."""
    upstream, proxy = pair
    old = stale(upstream, proxy)
    old.send(response(b"poison"))

    assert old.is_closed_by_peer()
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response())
    assert response() == client.response()


def test_bytes_after_a_response_close_the_connection(pair: Pair) -> None:
    """They could be taken for the response to the next call."""
    upstream, proxy = pair
    client = proxy.post()
    server = upstream.accept()
    server.request()
    server.send(response() + b"x")

    assert response() == client.response()
    assert server.is_closed_by_peer()


def test_idle_connections_are_bounded_in_number_and_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """One beyond the limit is closed after its call; one that is idle for too long is closed then."""
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

    assert all(server.is_closed_by_peer() for server in servers)
