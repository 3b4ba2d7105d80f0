"""A proxy that refuses every request: programs that use `HTTPS_PROXY` learn that a test has no network, and name the
host that they wanted.

In: requests of HTTP proxies. Out: 403 with a sentence, and the requested hosts with who asked for them. Never:
connects anywhere.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from traceforge.capture.run.process_origins import ConnectionOrigin

HEAD_BYTES_MAX = 64 << 10
HEAD_S = 10.0  # How long a client may take to send its request.
HOST_LENGTH_MAX = 255

# Both spellings: curl reads one, Java's and Go's clients the other; gRPC has one of its own.
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class RefusingProxy:
    """One proxy, for one run, on loopback."""

    def __init__(self, find_origin: Callable[[int, int], ConnectionOrigin] | None = None) -> None:
        self.requested_hosts: Counter[tuple[str, ConnectionOrigin]] = Counter()
        self.find_origin = find_origin or (lambda port, server_port: ConnectionOrigin())
        self._server = _Server(("127.0.0.1", 0), _Client)
        self._server.proxy = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="traceforge refuses", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The value of the proxy variables."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: RefusingProxy


class _Client(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        connection: socket.socket = self.request
        connection.settimeout(HEAD_S)
        try:
            head = connection.recv(HEAD_BYTES_MAX)
            while head and b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
                more = connection.recv(HEAD_BYTES_MAX)
                if not more:
                    break
                head += more
            host = requested_host(head.split(b"\r\n", 1)[0])
            assert isinstance(self.server, _Server)
            if host:
                proxy = self.server.proxy  # Who asks must be found while the connection is there.
                proxy.requested_hosts[host, proxy.find_origin(self.client_address[1], proxy.port)] += 1
            connection.sendall(_refusal(host))
        except OSError:
            pass  # the client went away; its request is known


def requested_host(line: bytes) -> str:
    """The host and port of `CONNECT host:port HTTP/1.1` or `GET http://host/path HTTP/1.1`; "" where it has none."""
    words = line.decode("latin-1").split(" ")
    if len(words) != 3:
        return ""
    method, target, _ = words
    try:
        place = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = place.port or (443 if method == "CONNECT" or place.scheme == "https" else 80)
    except ValueError:
        return ""
    name = place.hostname or ""
    name = f"[{name}]" if ":" in name else name
    return f"{name}:{port}"[:HOST_LENGTH_MAX] if name and name.isprintable() else ""


def _refusal(host: str) -> bytes:
    text = f"TraceForge test: a connection to {host or 'another host'} was refused: a test has no network.\n".encode()
    head = (
        f"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n"
    )
    return f"{head}\r\n".encode() + text
