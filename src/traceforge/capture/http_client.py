"""A plain HTTP client for calls of our own.

In: an address, a body and headers; a `Line`, where a call has a time or may be ended by somebody else. Out: the
response, whatever its status, to be read as it comes. Never: follows a redirect (the key would go with it), asks for
a compressed answer, or tries twice. `HTTPS_PROXY` and `NO_PROXY` are heeded; what is on this machine is asked
directly.

Every call has a connection of its own: an answer takes seconds, and of one that was kept nobody knows whether it
still stands. Two calls with equal bodies are equal on the wire, head and body.
"""

from __future__ import annotations

import base64
import http.client
import io
import socket
import ssl
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cached_property
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from traceforge.capture.engine import Call
from traceforge.capture.run.environment import LOOPBACK
from traceforge.exchange import Headers

TIMEOUT_S = 300.0  # For each read: a model may think for minutes before its first byte.
PIECE_BYTES = 1 << 16


Begin = Callable[[str, str, Headers], Call]  # A method, an address and headers: the call, for an engine to record.


class LeftError(ConnectionAbortedError):
    """Nobody wants the rest: the line was cut on this side."""


class MalformedError(http.client.HTTPException):
    """What came is not HTTP as it must be; the message says what."""


class Line:
    """One call: how long it may take as a whole, who may end it, and under which id it is recorded.

    `cut` may be called from any thread, and as often as one likes. Everything else is for who makes the call.
    """

    def __init__(self, timeout_s: float | None = None, begin: Begin | None = None) -> None:
        self._timeout_s = timeout_s
        self.begin = begin  # Who records it, where nobody else in this process does.
        self._until: float | None = None
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.was_cut = False
        self.connected = False
        self.trace_id = ""  # where somebody records it

    def start(self) -> None:
        """The time begins."""
        self._until = None if self._timeout_s is None else time.monotonic() + self._timeout_s

    def left(self) -> float:
        """Seconds for the next step.

        Raises:
            LeftError: nobody waits for it.
            TimeoutError: there are none.
        """
        if self.was_cut:
            raise LeftError("nobody wants the rest")
        left = TIMEOUT_S if self._until is None else min(TIMEOUT_S, self._until - time.monotonic())
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def cut(self) -> None:
        """End the call now; who waits for it is woken."""
        with self._lock:
            self.was_cut = True
            if self._socket is not None:
                with suppress(OSError):  # It is gone already.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # Below TLS, which another thread reads.

    def hold(self, connected: socket.socket) -> None:
        """This is its connection."""
        with self._lock:
            self._socket = connected
        self.connected = True
        connected.settimeout(self.left())

    def let_go(self, raw: io.RawIOBase) -> None:
        """Close it; not while somebody cuts it, whose number may then be another connection's."""
        with self._lock:
            self._socket = None
            raw.close()


class Client:
    """Posts bodies; safe to use from several threads."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._proxies = {name.lower(): url for name, url in getproxies().items()}

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], line: Line | None = None
    ) -> http.client.HTTPResponse:
        """Send one request; the response is open.

        Raises:
            OSError, http.client.HTTPException: there is no response; `explain` says why.
        """
        line = line or Line()
        line.start()
        parts = urlsplit(url)
        connection, target, more = self._connection(parts, line)
        sent = _head(target, self._headers(parts, len(body), {**headers, **more})) + body
        with closing(connection):  # The response holds its socket until it is read.
            connected = _connect(connection)
            line.hold(connected)
            connected.sendall(sent)
            response = _Response(line, connected, method="POST")
            try:
                response.begin()
            except BaseException:
                response.close()
                raise
            return response

    def _headers(self, parts: SplitResult, length: int, given: Mapping[str, str]) -> list[tuple[str, str]]:
        named = {name.title(): value for name, value in given.items()}
        first = {
            "Host": parts.netloc.rpartition("@")[2].lower(),
            "User-Agent": self._agent,
            "Accept": named.pop("Accept", "application/json"),
            "Accept-Encoding": "identity",
            "Content-Type": named.pop("Content-Type", "application/json"),
            "Content-Length": str(length),
            "Connection": "close",
        }
        return [*first.items(), *((name, value) for name, value in named.items() if name not in first)]

    def _connection(self, parts: SplitResult, line: Line) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        """What is connected to, what is asked for there, and what must be said beside."""
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host, tls = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        proxy = self._proxy(parts)
        if proxy is None:
            return self._open(host, port, tls, line), target, {}
        named = _credentials(proxy)
        secure = tls or proxy.scheme == "https"
        connection = self._open(proxy.hostname or "", proxy.port or (443 if secure else 80), secure, line)
        if tls:
            connection.set_tunnel(host, port, named)
            return connection, target, {}
        return connection, parts.geturl(), named

    def _open(self, host: str, port: int, tls: bool, line: Line) -> http.client.HTTPConnection:
        if tls:
            return http.client.HTTPSConnection(host, port, timeout=line.left(), context=self._context)
        return http.client.HTTPConnection(host, port, timeout=line.left())

    def _proxy(self, parts: SplitResult) -> SplitResult | None:
        host = parts.hostname or ""
        named = self._proxies.get(parts.scheme, "")
        if not named or host in LOOPBACK or proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        return urlsplit(named if "://" in named else f"http://{named}")

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Trust as the system has it, `SSL_CERT_FILE` included; read once, because that takes its time."""
        return ssl.create_default_context()


class _Response(http.client.HTTPResponse):
    """A response that is read within the time of its line, and whose announcements (1xx) are passed over."""

    def __init__(self, line: Line, sock: socket.socket, method: str) -> None:
        super().__init__(sock, method=method)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(line, sock), PIECE_BYTES)

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = cast("tuple[str, int, str]", super()._read_status())  # type: ignore[misc]
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                raise MalformedError("it switched protocols, and was not asked to")
            if status >= 200:
                return version, status, reason
            http.client.parse_headers(self.fp)

    def _read_next_chunk_size(self) -> int:
        if not self.fp.peek(1):
            raise http.client.IncompleteRead(b"")
        try:
            size = cast("int", super()._read_next_chunk_size())  # type: ignore[misc]
        except ValueError:
            size = -1
        if size < 0:
            raise MalformedError("a chunk without a size")
        return size


class _Timed(io.RawIOBase):
    """What comes over a socket, as long as there is time."""

    def __init__(self, line: Line, sock: socket.socket) -> None:
        self._line = line
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """As a buffer asks."""
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 (as its base has it)
        """The next bytes; 0 at the end."""
        self._sock.settimeout(self._line.left())
        try:
            count = self._raw.readinto(buffer)
        except OSError:
            self._line.left()  # Where it was cut here, that is why.
            raise
        if not count:
            self._line.left()
        return count

    def close(self) -> None:
        """No more of it is wanted."""
        if not self.closed:
            self._line.let_go(self._raw)
            super().close()


def _connect(connection: http.client.HTTPConnection) -> socket.socket:
    try:
        connection.connect()
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "no such name") from None
    return cast("socket.socket", connection.sock)


def _head(target: str, headers: list[tuple[str, str]]) -> bytes:
    """The head of a request.

    Raises:
        ValueError: something in it would end its line; it is not repeated, because it may be a key.
    """
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if " " in target or any(ord(char) < 0x20 or char == "\x7f" for line in lines for char in line):
        raise ValueError("an address or a header has a character that HTTP does not allow there")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(said).decode()}"}


def explain(exc: OSError | http.client.HTTPException) -> tuple[str, bool]:
    """What went wrong, for a person; and whether trying again is in vain."""
    reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    match reason:
        case ConnectionRefusedError():
            return "nobody listens there", True
        case socket.gaierror():
            return "the host's name is not known", True
        case ssl.SSLCertVerificationError():
            return f"its certificate cannot be trusted: {reason.verify_message}", True
        case ssl.SSLError():
            return f"no secure connection: {reason.reason or reason.strerror}".lower(), True
        case TimeoutError():
            return "no answer came in time", False
        case http.client.RemoteDisconnected():
            return "the connection was closed before an answer came", False
        case http.client.IncompleteRead():
            return "the connection was closed within the answer", False
        case MalformedError():
            return f"it speaks malformed HTTP: {reason}", False
        case http.client.HTTPException():
            return f"it speaks malformed HTTP: {type(reason).__name__}", False
        case OSError() if reason.strerror:
            return reason.strerror.lower(), False
    return f"the connection broke: {type(reason).__name__}", False
