"""What a Python process may connect to in a test."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from typing import Any

import pytest

from traceforge.capture.hook import tripwire
from traceforge.capture.hook.tripwire import MODEL, PORT, REMOTE, Tripwire, is_loopback

LOOPBACK = ["localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", b"127.0.0.1", "127.1", "0.0.0.0", "::1", "::",
            "::ffff:127.0.0.1", "::1%lo", ""]  # fmt: skip
ELSEWHERE = ["example.com", "127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "2001:db8::1", "::2",
             "::ffff:10.0.0.1", "1270.0.0.1"]  # fmt: skip


class QuietTripwire(Tripwire):
    """A tripwire that does not report to a parent."""

    def refuse(self, host: Any, port: Any, why: str) -> None:
        """Raise with the reason only."""
        raise ConnectionRefusedError(why)


def verdict(wire: Tripwire, event: str, *args: Any) -> str:
    """Why an event is refused; "" where it is not."""
    try:
        wire.audit(event, args)
    except ConnectionRefusedError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_recognised_in_every_spelling(host: Any) -> None:
    """Also as bytes."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_other_hosts_are_not_loopback(host: str) -> None:
    """Also those that look like it."""
    assert not is_loopback(host)


def test_a_connection_is_checked_by_its_host_then_by_its_port() -> None:
    """A datagram socket may be connected anywhere, and a Unix socket is not checked."""
    wire = QuietTripwire("5000-5001|5001", "unix:/nowhere", "t")
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        judged = [
            verdict(wire, "socket.connect", tcp, ("127.0.0.1", 5000)),
            verdict(wire, "socket.connect", tcp, ("127.0.0.1", 5001)),
            verdict(wire, "socket.connect", tcp, ("127.0.0.1", 5002)),
            verdict(wire, "socket.connect", tcp, ("192.0.2.1", 5000)),
            verdict(wire, "socket.connect", udp, ("192.0.2.1", 5000)),
            verdict(wire, "socket.sendto", udp, ("192.0.2.1", 53)),
            verdict(wire, "socket.sendto", udp, ("127.0.0.1", 53)),
            verdict(wire, "socket.sendmsg", udp, None),
            verdict(wire, "socket.getaddrinfo", "example.com", 443, 0, 0, 0),
            verdict(wire, "socket.getaddrinfo", "192.0.2.1", 443, 0, 0, 0),
            verdict(wire, "socket.getaddrinfo", None, 80, 0, 0, 0),
            verdict(wire, "socket.gethostbyname", socket.gethostname()),
            verdict(wire, "open", "file", "r", 0),
        ]

    assert ["", MODEL, PORT, REMOTE, "", REMOTE, "", "", REMOTE, "", "", "", ""] == judged


def test_without_a_seal_every_port_of_loopback_is_open_except_a_models() -> None:
    """A star means all of them."""
    wire = QuietTripwire("*|11434", "unix:/nowhere", "t")
    with socket.socket() as tcp:
        assert ["", MODEL] == [verdict(wire, "socket.connect", tcp, ("::1", port)) for port in (9, 11434)]


def test_a_refusal_names_the_address_and_the_reason() -> None:
    """Also where the parent is gone."""
    wire = Tripwire("*|", "unix:/nowhere", "t")

    with pytest.raises(
        ConnectionRefusedError, match=r"a connection to \[2001:db8::1\]:443 was refused: a test has no"
    ):
        wire.check("2001:db8::1", 443)
    assert tripwire.current() is None


def test_a_request_is_checked_by_its_path() -> None:
    """That of a model is refused, except at the proxy that replays."""
    wire = QuietTripwire("*||5000", "unix:/nowhere", "t")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n"

    def judge(port: int, data: object) -> str:
        return verdict(wire, "http.client.send", HTTPConnection("127.0.0.1", port), data)

    assert [MODEL, "", "", "", ""] == [
        judge(5001, head),
        judge(5000, head),
        judge(5001, head.replace(b"POST", b"GET")),
        judge(5001, b'{"model": "x"}'),
        judge(5001, iter([head])),
    ]
