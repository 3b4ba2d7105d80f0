"""A plain HTTP client for model calls of our own.

In: a URL, a body and headers; a `CallControl`, where a call has a time limit or may be cancelled. Out:
the response with any status, to be read as it comes. Never: follows a redirect (the key would go with it), asks
for a compressed answer, or tries twice. `HTTPS_PROXY` and `NO_PROXY` are heeded; what is on this machine is asked
directly.

Every call has a connection of its own: a response takes seconds, and an idle connection may have been closed by the
server meanwhile. Two calls with equal bodies are equal on the wire, head and body.
"""

from __future__ import annotations

import base64
import http.client
import io
import re
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

from traceforge.addresses import is_host
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.run.environment import LOOPBACK
from traceforge.exchange import Headers

TIMEOUT_S = 300.0  # For each read: a model may think for minutes before its first byte.
CHUNK_BYTES = 1 << 16
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # A colon in a name would make it another header.


# Takes a method, a URL and headers; returns the call that an engine records.
BeginRecording = Callable[[str, str, Headers], InFlightCall]


class CallCancelled(ConnectionAbortedError):
    """The call was cancelled on this side."""


class MalformedResponse(http.client.HTTPException):
    """The response is not valid HTTP; the message says why."""


class CallControl:
    """One call: how long it may take as a whole, how to cancel it, and the id of its trace.

    `cancel` may be called from any thread, any number of times; the rest is for the thread that makes the call.
    """

    def __init__(self, timeout_s: float | None = None, begin_recording: BeginRecording | None = None) -> None:
        self._timeout_s = timeout_s
        self.begin_recording = begin_recording  # used where no watcher of this process records the call
        self._deadline: float | None = None
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.was_cancelled = False
        self.was_connected = False
        self.trace_id = ""  # set where the call is recorded

    def start_timer(self) -> None:
        self._deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s

    def seconds_left(self) -> float:
        """Seconds for the next step.

        Raises:
            CallCancelled: the call was cancelled.
            TimeoutError: there are none.
        """
        if self.was_cancelled:
            raise CallCancelled("the call was cancelled")
        seconds_left = TIMEOUT_S if self._deadline is None else min(TIMEOUT_S, self._deadline - time.monotonic())
        if seconds_left <= 0:
            raise TimeoutError("timed out")
        return seconds_left

    def cancel(self) -> None:
        """End the call now; a thread that waits for it is woken."""
        with self._lock:
            self.was_cancelled = True
            if self._socket is not None:
                with suppress(OSError):  # It is closed already.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # Below TLS, which another thread reads.

    def attach(self, was_connected: socket.socket) -> None:
        """The call has this connection now."""
        with self._lock:
            self._socket = was_connected
        self.was_connected = True
        was_connected.settimeout(self.seconds_left())

    def release(self, raw: io.RawIOBase) -> None:
        """Close the connection, but not during `cancel`: its descriptor may then be another connection's."""
        with self._lock:
            self._socket = None
            raw.close()


class HttpClient:
    """Posts bodies; safe to use from several threads."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._proxies = {name.lower(): url for name, url in getproxies().items()}

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], control: CallControl | None = None
    ) -> http.client.HTTPResponse:
        """Send one request; the body of the response is read by the caller.

        Raises:
            OSError, http.client.HTTPException: no response came; `explain_failure` says why.
        """
        control = control or CallControl()
        control.start_timer()
        parts = urlsplit(url)
        connection, target, proxy_headers = self._open_connection(parts, control)
        request = _format_head(target, self._headers(parts, len(body), {**headers, **proxy_headers})) + body
        with closing(connection):  # The response keeps the socket until it is read.
            connected = _connect(connection)
            control.attach(connected)
            connected.sendall(request)
            response = _ControlledResponse(control, connected, method="POST")
            try:
                response.begin()
            except BaseException:
                response.close()
                raise
            return response

    def _headers(self, parts: SplitResult, length: int, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        custom = {name.title(): value for name, value in headers.items()}
        standard = {
            "Host": parts.netloc.rpartition("@")[2].lower(),
            "User-Agent": self._agent,
            "Accept": custom.pop("Accept", "application/json"),
            "Accept-Encoding": "identity",
            "Content-Type": custom.pop("Content-Type", "application/json"),
            "Content-Length": str(length),
            "Connection": "close",
        }
        return [*standard.items(), *((name, value) for name, value in custom.items() if name not in standard)]

    def _open_connection(
        self, parts: SplitResult, control: CallControl
    ) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        """The connection, the request target on it, and headers for the proxy."""
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host, tls = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        proxy = self._find_proxy(parts)
        if proxy is None:
            return self._make_connection(host, port, tls, control), target, {}
        credentials = _proxy_credentials(proxy)
        secure = tls or proxy.scheme == "https"
        connection = self._make_connection(
            proxy.hostname or "", proxy.port or (443 if secure else 80), secure, control
        )
        if tls:
            connection.set_tunnel(host, port, credentials)
            return connection, target, {}
        return connection, parts.geturl(), credentials

    def _make_connection(self, host: str, port: int, tls: bool, control: CallControl) -> http.client.HTTPConnection:
        if tls:
            return http.client.HTTPSConnection(host, port, timeout=control.seconds_left(), context=self._tls_context)
        return http.client.HTTPConnection(host, port, timeout=control.seconds_left())

    def _find_proxy(self, parts: SplitResult) -> SplitResult | None:
        host = parts.hostname or ""
        proxy_url = self._proxies.get(parts.scheme, "")
        if not proxy_url or host in LOOPBACK or proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        try:
            proxy = urlsplit(proxy_url if "://" in proxy_url else f"http://{proxy_url}")
            is_usable = is_host(proxy.hostname or "") and proxy.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            raise http.client.InvalidURL(f"the address of the proxy in {parts.scheme.upper()}_PROXY cannot be read")
        return proxy

    @cached_property
    def _tls_context(self) -> ssl.SSLContext:
        """The trust of the system, `SSL_CERT_FILE` included; read once, because that takes long."""
        return ssl.create_default_context()


class _ControlledResponse(http.client.HTTPResponse):
    """A response that is read within the time limit of its call; interim responses (1xx) are skipped."""

    def __init__(self, control: CallControl, sock: socket.socket, method: str) -> None:
        super().__init__(sock, method=method)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(control, sock), CHUNK_BYTES)

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = cast("tuple[str, int, str]", super()._read_status())  # type: ignore[misc]
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                raise MalformedResponse("it switched protocols without being asked to")
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
            raise MalformedResponse("a chunk without a size")
        return size


class _TimedReader(io.RawIOBase):
    """Reads from a socket, as long as there is time."""

    def __init__(self, control: CallControl, sock: socket.socket) -> None:
        self._control = control
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 (as its base has it)
        self._sock.settimeout(self._control.seconds_left())
        try:
            count = self._raw.readinto(buffer)
        except OSError:
            self._control.seconds_left()  # Raises where the call was cancelled.
            raise
        if not count:
            self._control.seconds_left()
        return count

    def close(self) -> None:
        if not self.closed:
            self._control.release(self._raw)
            super().close()


def _connect(connection: http.client.HTTPConnection) -> socket.socket:
    try:
        connection.connect()
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "no such name") from None
    return cast("socket.socket", connection.sock)


def _format_head(target: str, headers: list[tuple[str, str]]) -> bytes:
    """The head of a request.

    Raises:
        ValueError: a header would end its line; it is not repeated in the message, because it may be a key.
    """
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if (
        " " in target
        or not all(_HEADER_NAME.fullmatch(name) for name, _ in headers)
        or any(ord(char) < 0x20 or char == "\x7f" for line in lines for char in line)
    ):
        raise ValueError("a URL or a header has a character that HTTP does not allow there")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _proxy_credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(credentials).decode()}"}


def explain_failure(exc: OSError | http.client.HTTPException) -> tuple[str, bool]:
    """What went wrong, for a person; and whether trying again is pointless."""
    reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    match reason:
        case ConnectionRefusedError():
            return "nothing listens at that address", True
        case socket.gaierror():
            return "the host name cannot be resolved", True
        case ssl.SSLCertVerificationError():
            return f"its certificate cannot be trusted: {reason.verify_message}", True
        case ssl.SSLError():
            return f"no secure connection: {reason.reason or reason.strerror}".lower(), True
        case TimeoutError():
            return "no response came in time", False
        case http.client.RemoteDisconnected():
            return "the connection was closed before a response came", False
        case http.client.IncompleteRead():
            return "the connection was closed within the response", False
        case MalformedResponse():
            return f"the response is not valid HTTP: {reason}", False
        case http.client.HTTPException():
            return f"the response is not valid HTTP: {type(reason).__name__}", False
        case OSError() if reason.strerror:
            return reason.strerror.lower(), False
    return f"the connection broke: {type(reason).__name__}", False
