"""Raw sockets on loopback: a scripted upstream, a client that sends exact bytes, and the proxy between them.

Everything is threads and blocking sockets with a deadline, so that a test reads as a transcript. The proxy runs on
its real event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

from traceforge.capture.proxy.proxy_server import ProxyServer
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.capture.proxy.worker_state import WorkerState
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.exchange import Exchange
from traceforge.http.access import AccessPolicy
from traceforge.http.bound_socket import bind_socket
from traceforge.http.server_limits import PROXY_LIMITS, ServerLimits

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
SECONDS_MAX = 10.0  # Beyond this a test hangs.


class CollectingSink:
    """A sink that collects exchanges, and lets a test wait for them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._changed = threading.Condition()

    def take(self, exchange: Exchange) -> None:
        with self._changed:
            self.exchanges.append(exchange)
            self._changed.notify_all()

    @property
    def counts(self) -> RecordingCounts:
        return RecordingCounts(accepted=len(self.exchanges), recorded=len(self.exchanges))

    def close(self, seconds: float = 0) -> RecordingCounts:
        return self.counts

    def wait(self, count: int = 1) -> list[Exchange]:
        """Wait until there are this many exchanges."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.exchanges) >= count, SECONDS_MAX), self.exchanges
        return self.exchanges


class Peer:
    """One end of a connection, with a deadline on everything."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(SECONDS_MAX)
        self._read = b""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def read_until(self, mark: bytes) -> bytes:
        """Read up to a mark, including it."""
        while mark not in self._read:
            self._receive(mark)
        end = self._read.index(mark) + len(mark)
        data, self._read = self._read[:end], self._read[end:]
        return data

    def read_exactly(self, count: int) -> bytes:
        while len(self._read) < count:
            self._receive(count)
        data, self._read = self._read[:count], self._read[count:]
        return data

    def _receive(self, wanted: object) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise EOFError(f"wanted {wanted!r}, had {self._read!r}")
        self._read += data

    def read_to_end(self) -> bytes:
        while data := self.sock.recv(65536):
            self._read += data
        data, self._read = self._read, b""
        return data

    def read_head(self) -> bytes:
        """Read up to the end of a message head."""
        return self.read_until(b"\r\n\r\n")

    def request(self) -> bytes:
        """Read a request with a Content-Length; its head and its body."""
        read_head = self.read_head()
        return read_head + self.read_exactly(content_length(read_head))

    response = request

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self) -> None:
        self.sock.close()

    def is_closed_by_peer(self) -> bool:
        """Wait until the other end has closed or reset the connection."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        return True


def content_length(head: bytes) -> int:
    """The Content-Length of a head, or 0."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


class Upstream:
    """A listening socket; the test accepts its connections and writes the responses."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(SECONDS_MAX)
        self._peers: list[Peer] = []
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def accept(self) -> Peer:
        self._peers.append(Peer(self._listener.accept()[0]))
        return self._peers[-1]

    def has_no_other_connection(self) -> bool:
        """Whether no other connection is waiting."""
        self._listener.settimeout(0)
        try:
            self._listener.accept()
        except BlockingIOError:
            return True
        finally:
            self._listener.settimeout(SECONDS_MAX)
        return False

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()


class Proxy:
    """A proxy on its own loop, in a thread."""

    def __init__(
        self,
        upstreams: Mapping[str, str],
        *,
        host: str = "127.0.0.1",
        token: str = "",
        sink: Any = None,
        loop: str = "uvloop",
        replay: ReplayResponder | None = None,
        limits: ServerLimits = PROXY_LIMITS,
    ) -> None:
        self._replay = replay
        self._limits = limits
        self.sink = CollectingSink() if sink is None else sink  # False: nothing is recorded
        self._factory = LOOPS[loop]
        self.state: WorkerState
        self.port = 0
        self._upstreams, self._host, self._token = upstreams, host, token
        self._clients: list[Peer] = []
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(SECONDS_MAX)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._factory) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        sock = bind_socket(self._host, 0)
        self.port = sock.getsockname()[1]
        self.state = WorkerState(
            UpstreamRoutes(self._upstreams),
            AccessPolicy(self._host, self._token),
            self.sink or None,
            replay=self._replay,
            limits=self._limits,
        )
        self._server = ProxyServer(self.state)
        await self._server.start(sock)
        self._up.set()
        await self._stop.wait()
        await self._server.drain(0, self._hurry)

    def call(self, work: Callable[[], object]) -> Any:
        """Run `work` on the proxy's event loop."""

        async def run() -> object:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(SECONDS_MAX)

    def connect(self) -> Peer:
        self._clients.append(Peer(socket.create_connection((self._host, self.port), SECONDS_MAX)))
        return self._clients[-1]

    def post(self, path: str = "/up/v1/chat/completions", body: bytes = b"{}", headers: bytes = b"") -> Peer:
        """Connect a client and send a request."""
        client = self.connect()
        client.send(request(path, body, headers))
        return client

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()
        for client in self._clients:
            client.close()


def read_chunks(peer: Peer) -> list[bytes]:
    """Read a chunked body and return its chunks."""
    chunks = []
    while size := int(peer.read_until(b"\r\n"), 16):
        chunks.append(peer.read_exactly(size))
        assert b"\r\n" == peer.read_exactly(2)
    assert b"\r\n" == peer.read_exactly(2)
    return chunks


def request(path: str = "/up/v1/chat/completions", body: bytes = b"{}", headers: bytes = b"") -> bytes:
    """A request with a Content-Length."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode()
    return head + headers + b"\r\n" + body


def response(body: bytes = b"{}", headers: bytes = b"", status: bytes = b"200 OK") -> bytes:
    """A response with a Content-Length."""
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body)


@contextmanager
def proxy_and_upstream(**options: Any) -> Iterator[tuple[Upstream, Proxy]]:
    """An upstream named `up`, and a proxy in front of it."""
    upstream = Upstream()
    proxy = Proxy({"up": upstream.url}, **options)
    try:
        yield upstream, proxy
    finally:
        proxy.stop()
        upstream.close()


def read_until_broken(client: Peer, how: str) -> bytes:
    """What the client gets before its connection ends, which must be in this way."""
    if how == "reset":
        with pytest.raises(ConnectionResetError):
            client.read_to_end()
        return b""
    return client.read_to_end()
