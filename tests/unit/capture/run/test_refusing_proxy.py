"""The refusing proxy: 403 for every request, and the names of the hosts."""

from __future__ import annotations

import socket

import pytest

from traceforge.capture.run.process_origins import ConnectionOrigin
from traceforge.capture.run.refusing_proxy import RefusingProxy, requested_host


@pytest.mark.parametrize(
    ("line", "host"),
    [
        (b"CONNECT api.example.com:443 HTTP/1.1", "api.example.com:443"),
        (b"CONNECT [2001:db8::1]:8443 HTTP/1.1", "[2001:db8::1]:8443"),
        (b"GET http://example.com/path?key=secret HTTP/1.1", "example.com:80"),
        (b"POST http://user:secret@example.com:8080/ HTTP/1.0", "example.com:8080"),
        (b"GET /path HTTP/1.1", ""),
        (b"CONNECT host:99999 HTTP/1.1", ""),
        (b"\x16\x03\x01", ""),
        (b"", ""),
    ],
)
def test_only_the_host_of_a_request_is_remembered(line: bytes, host: str) -> None:
    """No path, no user, no password."""
    assert host == requested_host(line)


def test_every_request_is_answered_with_403_and_counted() -> None:
    """Until it is closed."""
    proxy = RefusingProxy()
    try:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", proxy.port)) as client:
                client.sendall(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
                response = client.makefile("rb").read()
    finally:
        proxy.close()

    assert response.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"a connection to api.example.com:443 was refused" in response
    assert {("api.example.com:443", ConnectionOrigin()): 2} == dict(proxy.requested_hosts)
