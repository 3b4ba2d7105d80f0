"""A scripted provider on loopback, which controls every piece of its responses.

It stores every byte it receives and sends the next response of its script for each request; the last response is
repeated. If `choose` is set, that function picks the response instead.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from support.closed_listener import close_listener

WAIT_S = 10  # longer than any step of a test takes; beyond it, something hangs


class ReceivedRequest(NamedTuple):
    """One request as it was received."""

    head: bytes
    body: bytes  # without transfer framing

    @property
    def line(self) -> bytes:
        """The request line."""
        return self.head.split(b"\r\n", 1)[0]


@dataclass
class ScriptedResponse:
    """Each piece but the first waits for one of `permits`; `reset` resets the connection after the pieces."""

    pieces: list[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    chunked: bool = False
    permits: threading.Semaphore | None = None
    reset: bool = False
    silent: bool = False  # reads the request and resets without a word
    waits_first: bool = False  # waits at the gate before it says anything
    wait_s: float = WAIT_S  # for one of `permits`

    def head(self) -> bytes:
        framing = {"transfer-encoding": "chunked"} if self.chunked else {"content-length": str(self.length)}
        lines = [f"HTTP/1.1 {self.status} OK", *(f"{k}: {v}" for k, v in {**self.headers, **framing}.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    @property
    def length(self) -> int:
        """The announced length; a response that is reset announces more than it sends."""
        return sum(map(len, self.pieces)) + 100 * self.reset


class Upstream:
    """The server."""

    def __init__(self) -> None:
        self.received: list[ReceivedRequest] = []
        self.script: list[ScriptedResponse] = [ScriptedResponse([b"{}"])]
        self.choose: Callable[[ReceivedRequest], ScriptedResponse] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def respond_with(self, *respond_with: ScriptedResponse) -> None:
        """Use these responses from now on, and forget the received requests."""
        with self._lock:
            self.received = []
            self.script = list(respond_with)

    def close(self) -> None:
        close_listener(self._listener, self._acceptor)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while (request := _read_request(stream)) is not None:
                with self._lock:
                    self.received.append(request)
                    answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if self.choose is not None:
                    answer = self.choose(request)
                if not _send(connection, answer):
                    return


def _read_request(stream: object) -> ReceivedRequest | None:
    lines = []
    for line in iter(stream.readline, b""):  # type: ignore[attr-defined]
        lines.append(line)
        if line == b"\r\n":
            break
    else:
        return None
    head = b"".join(lines)
    lowered = head.lower()
    if b"transfer-encoding: chunked" in lowered:
        return ReceivedRequest(head, b"".join(_chunks(stream)))
    marker = lowered.find(b"content-length:")
    length = int(head[marker + 15 :].split(b"\r\n", 1)[0]) if marker >= 0 else 0
    return ReceivedRequest(head, stream.read(length))  # type: ignore[attr-defined]


def _chunks(stream: object) -> Iterator[bytes]:
    while size := int(stream.readline(), 16):  # type: ignore[attr-defined]
        yield stream.read(size)  # type: ignore[attr-defined]
        stream.readline()  # type: ignore[attr-defined]
    stream.readline()  # type: ignore[attr-defined]


def _send(connection: socket.socket, answer: ScriptedResponse) -> bool:
    """Send a response; False if the connection is closed."""
    if answer.silent:
        _reset(connection)
        return False
    if answer.waits_first and answer.permits is not None:
        answer.permits.acquire(timeout=answer.wait_s)
    first, *other_pieces = answer.pieces or [b""]
    connection.sendall(answer.head() + _framed(answer, first))
    for piece in other_pieces:
        if answer.permits is not None and not answer.permits.acquire(timeout=answer.wait_s):
            _reset(connection)
            return False
        connection.sendall(_framed(answer, piece))
    if answer.reset:
        if answer.permits is not None:
            answer.permits.acquire(timeout=answer.wait_s)
        _reset(connection)
        return False
    if answer.chunked:
        connection.sendall(b"0\r\n\r\n")
    return True


def _framed(answer: ScriptedResponse, piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if answer.chunked and piece else piece


def _reset(connection: socket.socket) -> None:
    """Make closing the connection send a reset, as after a crash."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """Run a server for the duration of a test."""
    server = Upstream()
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def uncalled_upstream() -> Iterator[Upstream]:
    """A provider that must not be called; the test fails if it receives a request."""
    with upstream() as server:
        server.respond_with(ScriptedResponse([b'{"error": "nobody should have asked"}'], 500))
        yield server
        assert [] == server.received
