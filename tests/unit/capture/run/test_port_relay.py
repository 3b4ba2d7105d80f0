"""The relay between programs without a hook and allowed ports."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator

import pytest

from traceforge.capture.run.port_relay import PortRelay, RequestLines
from traceforge.capture.run.socket_addresses import Destination

HEAD = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n"


class Relayed:
    """A relay, and what it reported."""

    def __init__(self) -> None:
        self.model_requests: list[Destination] = []
        self.unreadable: list[int] = []
        self.relay = PortRelay(
            lambda _, destination: self.model_requests.append(destination),
            lambda _, port: self.unreadable.append(port),
        )


@pytest.fixture
def relayed() -> Iterator[Relayed]:
    made = Relayed()
    yield made
    made.relay.close()


@pytest.mark.parametrize(
    ("chunks", "requests", "is_unreadable"),
    [
        ([HEAD], [("POST", "/v1/messages")], False),
        ([HEAD[:9], HEAD[9:20], HEAD[20:]], [("POST", "/v1/messages")], False),
        ([HEAD + b"GET /a HTTP/1.1\r\n\r\n"], [("POST", "/v1/messages"), ("GET", "/a")], False),
        ([b"\r", b"\n" + HEAD], [("POST", "/v1/messages")], False),
        ([b"\0\0\0\x08\x04\xd2\x16\x2f", b"Q\0\0\0\x0dselect 1"], [], False),
        ([b"\x16", b"\x03\x01\0"], [], True),
        ([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], [], True),
    ],
    ids=["whole", "in parts", "two", "empty line", "database", "TLS", "HTTP/2"],
)
def test_request_lines_are_read(chunks: list[bytes], requests: list[tuple[str, str]], is_unreadable: bool) -> None:
    lines = RequestLines()
    fed = [lines.feed(chunk) for chunk in chunks]

    assert requests == [request for found, _ in fed for request in found]
    assert is_unreadable == any(unreadable for _, unreadable in fed)


@pytest.mark.parametrize("is_blocking", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_pass_both_ways_until_each_side_has_ended(relayed: Relayed, host: str, is_blocking: bool) -> None:
    """Whether the program waits for the connection or not; a megabyte does not block either direction."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    payload = b"x" * 1_000_000
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("no such loopback here")

    def echo() -> None:
        with server, server.accept()[0] as connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    def send(connection: socket.socket) -> None:
        connection.sendall(payload)
        connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=echo, daemon=True).start()
    with socket.socket(family) as client:
        client.setblocking(is_blocking)
        result = relayed.relay.redirect(1, client, Destination(host, server.getsockname()[1]))
        client.setblocking(True)
        threading.Thread(target=send, args=(client,), daemon=True).start()
        received = client.makefile("rb").read()

    assert result == 0 if is_blocking else result in (0, errno.EINPROGRESS)
    assert (payload, [], []) == (received, relayed.model_requests, relayed.unreadable)


def test_a_request_to_a_model_does_not_arrive(relayed: Relayed) -> None:
    """Both ends are closed; an unused port is the program's own to find."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client, socket.socket() as other:
        destination = Destination("127.0.0.1", server.getsockname()[1])
        relayed.relay.redirect(1, client, destination)
        accepted = server.accept()[0]
        client.sendall(HEAD)

        assert (b"", b"") == (accepted.recv(10), client.recv(10))
        assert [destination] == relayed.model_requests
        accepted.close()
        server.close()
        assert None is relayed.relay.redirect(1, other, destination)
