"""A relay between programs without a hook and the allowed ports of loopback: it looks at what they send.

In: connections that the supervisor turned here, each with its real destination. Out: the same bytes on both sides;
requests whose path is a model's are refused and reported, and connections that cannot be read (TLS, HTTP/2) are
reported. Never: changes a byte, or connects anywhere itself.
"""

from __future__ import annotations

import errno
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from traceforge.capture.hook.model_call_rules import is_model_call
from traceforge.capture.run.socket_addresses import Destination

CONNECT_S = 0.02  # A server on loopback answers at once, or its queue is full; then the supervisor does not wait.
QUEUE_S = 120.0  # How long a connection then waits for its server, as it would by itself.
ARRIVAL_S = 10.0  # How long an accepted connection waits for its destination, which takes microseconds.
CHUNK_BYTES = 64 << 10
LINE_BYTES_MAX = 8 << 10  # of a request line
START_BYTES = 12  # that show what a client speaks
_REQUEST_LINE = re.compile(rb"(?:\A|\n)([A-Z]{3,10}) (\S+) HTTP/1\.[01]\r?\n")
_UNREADABLE = (b"\x16\x03", b"PRI * HTTP/2")  # the first bytes of TLS, and of HTTP/2

OnModelRequest = Callable[[int, Destination], object]  # process or thread, destination
OnUnreadable = Callable[[int, int], object]  # process or thread, port


class RelayedConnection(NamedTuple):
    """One connection: who made it, where it goes, and the connection to there."""

    thread: int
    destination: Destination
    server: socket.socket | None  # None: it did not answer at once


class RequestLines:
    """Finds request lines of HTTP/1 in what a client sends, wherever they stand."""

    def __init__(self) -> None:
        self._start = b""
        self._unread = b""
        self._is_unreadable = False

    def feed(self, data: bytes) -> tuple[list[tuple[str, str]], bool]:
        """The methods and targets in these bytes, and whether they first show TLS or HTTP/2, which cannot be read."""
        text = self._unread + data
        matches = list(_REQUEST_LINE.finditer(text))
        self._unread = text[matches[-1].end() - 1 if matches else 0 :][-LINE_BYTES_MAX:]
        requests = [(match[1].decode("ascii"), match[2].decode("latin-1")) for match in matches]
        self._start += data[: START_BYTES - len(self._start)]
        was_unreadable, self._is_unreadable = self._is_unreadable, self._start.startswith(_UNREADABLE)
        return requests, self._is_unreadable and not was_unreadable


class PortRelay:
    """Relays connections until it is closed."""

    def __init__(self, on_model_request: OnModelRequest, on_unreadable: OnUnreadable) -> None:
        self._on_model_request = on_model_request
        self._on_unreadable = on_unreadable
        self._has_changed = threading.Condition()
        self._expected: dict[tuple[int, int], RelayedConnection] = {}  # by family and port of the client
        self._listeners: dict[int, socket.socket] = {}
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with suppress(OSError):
                listener = socket.create_server((host, 0), family=family, backlog=128)
                self._listeners[family] = listener
                threading.Thread(target=self._accept, args=(listener,), name="traceforge relay", daemon=True).start()

    def close(self) -> None:
        for listener in self._listeners.values():
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def redirect(self, thread: int, client: socket.socket, destination: Destination) -> int | None:
        """Connect the socket of another process to the relay: the result of its call. None: it must connect itself.

        Raises:
            OSError: it could not be turned; nothing has changed.
        """
        is_mapped = destination.host.startswith("::ffff:")
        family = socket.AF_INET if is_mapped else client.family
        listener = self._listeners.get(family)
        if listener is None or client.type != socket.SOCK_STREAM:
            raise OSError(errno.EAFNOSUPPORT, "no relay for this family")
        server: socket.socket | None = None
        try:
            server = socket.create_connection(destination, CONNECT_S)
        except ConnectionRefusedError:
            return None  # as it will be told
        except TimeoutError:
            pass
        host, port = listener.getsockname()[:2]
        result = client.connect_ex((f"::ffff:{host}" if is_mapped else host, port))
        if result in (0, errno.EINPROGRESS):
            with self._has_changed:
                key = family, client.getsockname()[1]
                self._expected[key] = RelayedConnection(thread, destination, server)
                self._has_changed.notify_all()
            return result
        if server is not None:
            server.close()
        if result in (errno.EISCONN, errno.EALREADY):  # How some programs ask whether they are connected.
            return result
        raise OSError(result, "not connected")

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, address = listener.accept()
                arguments = client, (listener.family, address[1])
                threading.Thread(target=self._serve, args=arguments, name="traceforge relay", daemon=True).start()

    def _serve(self, client: socket.socket, key: tuple[int, int]) -> None:
        """Relay one connection; it may be accepted before `redirect` has said where it goes."""
        with self._has_changed:
            self._has_changed.wait_for(lambda: key in self._expected, ARRIVAL_S)
            connection = self._expected.pop(key, None)
        if connection is None:  # Nobody of the command can come here by itself.
            client.close()
            return
        with client, suppress(OSError), connection.server or _connect(connection.destination) as server:
            server.settimeout(None)
            answering = threading.Thread(target=_pump, args=(server, client), name="traceforge relay", daemon=True)
            answering.start()
            self._pump_requests(client, server, connection)
            answering.join()

    def _pump_requests(self, client: socket.socket, server: socket.socket, connection: RelayedConnection) -> None:
        lines = RequestLines()

        def check(data: bytes) -> bool:
            requests, is_unreadable = lines.feed(data)
            if is_unreadable:
                self._on_unreadable(connection.thread, connection.destination.port)
            for method, target in requests:
                url = target if "://" in target else f"http://{connection.destination}{target}"
                if is_model_call(method, url):
                    self._on_model_request(connection.thread, connection.destination)
                    return False
            return True

        _pump(client, server, check)


def _connect(destination: Destination) -> socket.socket:
    return socket.create_connection(destination, QUEUE_S)


def _pump(source: socket.socket, target: socket.socket, check: Callable[[bytes], bool] | None = None) -> None:
    """Pass bytes on until the source ends. Where `check` says no, both ends are closed."""
    try:
        while data := source.recv(CHUNK_BYTES):
            if check is not None and not check(data):
                for end in (source, target):
                    end.shutdown(socket.SHUT_RDWR)
                return
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # One side was reset: so is the other.
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
