"""The head of a request or a response: the first line and the headers.

In: bytes of a connection. Out: the first line, the header lines as they were sent, and the values that forwarding
needs. Never: accepts what llhttp refuses in its strict mode (two lengths, a length and chunks, a folded line, a bare
newline), or changes a line that is forwarded.

llhttp only validates heads. It is not used for bodies, because it does not report where one ended.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

from traceforge.http.body_framing import CHUNKED, UNTIL_CLOSE
from traceforge.http.server_limits import HEAD_BYTES_MAX, HEADERS_MAX

RESPONSE_BYTES_MAX = 256 << 10

TOKEN_HEADER = "x-traceforge-token"  # noqa: S105 (the name of a header)

# These describe one connection, and the next connection has its own. `Trailer` is not here: trailers are forwarded.
HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "upgrade",
     "http2-settings")
)  # fmt: skip
_NEVER_FORWARDED = HOP_BY_HOP | {TOKEN_HEADER}
_INSPECTED = frozenset(
    ("host", "content-length", "transfer-encoding", "expect", "origin", "sec-fetch-site", "anthropic-version",
     TOKEN_HEADER)
)  # fmt: skip
_ALWAYS_FORWARDED = frozenset(("host", "content-length", "transfer-encoding"))  # Even if `Connection` names them.
_TRACEFORGE_PREFIX = "x-traceforge-"

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

_NO_CALLBACKS = object()  # llhttp calls back what its argument defines: nothing.

Header = tuple[str, str]


class InvalidHead(Exception):
    """A head that is refused, with the HTTP status of the refusal."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HeadReader:
    """Collects one head that arrives in several reads; malformed bytes are refused as soon as they arrive."""

    __slots__ = ("_bytes_max", "_parser", "_received", "remainder")

    def __init__(self, parser: HttpRequestParser | HttpResponseParser, bytes_max: int) -> None:
        self._parser = parser
        self._bytes_max = bytes_max
        self._received = bytearray()
        self.remainder = b""  # The bytes after the head.

    @classmethod
    def for_request(cls) -> HeadReader:
        """A reader for the head of a request."""
        return cls(HttpRequestParser(_NO_CALLBACKS), HEAD_BYTES_MAX)

    @classmethod
    def for_response(cls) -> HeadReader:
        """A reader for the head of a response."""
        return cls(HttpResponseParser(_NO_CALLBACKS), RESPONSE_BYTES_MAX)

    def feed(self, data: bytes) -> bytes | None:
        """The whole head with its empty line, or None while more must come.

        Raises:
            InvalidHead: the head is malformed or too large.
        """
        received = self._received
        before = len(received)
        received += data
        end = received.find(b"\r\n\r\n", max(0, before - 3)) + 4
        if end == 3:
            self._validate(data, len(received))
            return None
        self._validate(data[: end - before], end)
        self.remainder = bytes(received[end:])
        return bytes(received[:end])

    @property
    def received(self) -> bytes:
        """All bytes so far, those after the head included."""
        return bytes(self._received)

    def _validate(self, data: bytes, length: int) -> None:
        if length > self._bytes_max:
            raise InvalidHead(431, f"the head is larger than {self._bytes_max} bytes")
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            pass  # The head is complete; its headers say whether an upgrade is wanted.
        except HttpParserError as exc:
            raise InvalidHead(400, f"malformed HTTP: {exc}") from None


class MessageHead:
    """A parsed head. `lines[i]` are the bytes of `headers[i]`; hop-by-hop headers are in neither list."""

    __slots__ = ("first_line", "has_traceforge_headers", "headers", "host_index", "inspected", "lines")

    def __init__(self, data: bytes) -> None:
        self.first_line, *lines = data.split(b"\r\n")[:-2]
        if len(lines) > HEADERS_MAX:
            raise InvalidHead(431, f"more than {HEADERS_MAX} headers")
        self.inspected: dict[str, str] = {}  # By lower-case name, repeated ones joined: only what decides forwarding.
        self.host_index = -1
        self.has_traceforge_headers = False
        self.lines: list[bytes] = []
        self.headers: list[Header] = []
        for line in lines:
            name, _, value = str(line, "latin-1").partition(":")
            value = value.strip(" \t")
            if self._inspect(name.lower(), value):
                self.lines.append(line)
                self.headers.append((name, value))
        connection = self.inspected.get("connection")
        if connection is not None and connection.lower() not in ("keep-alive", "close"):
            self._drop_connection_headers(connection)

    def _inspect(self, key: str, value: str) -> bool:
        """Remember a header that decides something; return whether it is forwarded."""
        if key in _INSPECTED or key in HOP_BY_HOP:
            if key in self.inspected:
                if key == "host":
                    raise InvalidHead(400, "more than one Host")
                value = f"{self.inspected[key]}, {value}"
            self.inspected[key] = value
            if key == "host":
                self.host_index = len(self.lines)
            return key not in _NEVER_FORWARDED
        if key.startswith(_TRACEFORGE_PREFIX):
            self.has_traceforge_headers = True
        return True

    def _drop_connection_headers(self, connection: str) -> None:
        """Drop the headers that `Connection` declares to be hop-by-hop."""
        declared = set(split_list(connection)) - _ALWAYS_FORWARDED
        indexes = [index for index, header in enumerate(self.headers) if header[0].lower() not in declared]
        if self.host_index >= 0:
            self.host_index = indexes.index(self.host_index)
        self.lines = [self.lines[index] for index in indexes]
        self.headers = [self.headers[index] for index in indexes]

    def replace_host(self, host: str) -> None:
        """Put another value into `Host`, with its position and spelling unchanged."""
        if self.host_index < 0:
            self.host_index = 0
            self.lines.insert(0, b"")
            self.headers.insert(0, ("Host", ""))
        name = self.headers[self.host_index][0]
        self.lines[self.host_index] = f"{name}: {host}".encode("latin-1")
        self.headers[self.host_index] = (name, host)

    def lines_to_forward(self) -> list[bytes]:
        """The header lines without those of TraceForge."""
        if not self.has_traceforge_headers:
            return self.lines
        return [line for line in self.lines if not line.lower().startswith(_TRACEFORGE_PREFIX.encode())]


class RequestHead(MessageHead):
    """The head of a request."""

    __slots__ = ("http_minor", "keep_alive", "length", "method", "target")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        parts = str(self.first_line, "latin-1").split(" ")
        if len(parts) != 3:
            raise InvalidHead(400, "the request line must be: method, target, version")
        self.method, self.target, version = parts
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise InvalidHead(505, "only HTTP/1.1 and HTTP/1.0 are supported")
        self.http_minor = 1 if version == "HTTP/1.1" else 0
        if self.http_minor and self.host_index < 0:
            raise InvalidHead(400, "the Host header is missing")
        if self.host_index >= 0 and not is_authority(self.inspected["host"]):
            raise InvalidHead(400, "Host must be a host, or a host and a port")
        self.length = self._body_length()
        self.keep_alive = self.http_minor == 1 and "close" not in split_list(self.inspected.get("connection"))

    @property
    def opens_websocket(self) -> bool:
        """Whether the request asks for a WebSocket; the server judges its other headers."""
        is_bare_get = self.method == "GET" and self.http_minor == 1 and self.length == 0
        wants_upgrade = "upgrade" in split_list(self.inspected.get("connection"))
        return is_bare_get and wants_upgrade and split_list(self.inspected.get("upgrade")) == ["websocket"]

    def _body_length(self) -> int:
        coding = self.inspected.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or not self.http_minor:
                raise InvalidHead(400, "Transfer-Encoding must be chunked, once")
            return CHUNKED
        length = self.inspected.get("content-length")
        return 0 if length is None else _parse_length(length)


class ResponseHead(MessageHead):
    """The head of a response to a request of `method`.

    `forwarded` are its bytes without hop-by-hop headers, up to the empty line, and always as HTTP/1.1. They and
    `header_pairs` are made once, because a server repeats its head for a second.
    """

    __slots__ = ("forwarded", "header_pairs", "keep_alive", "length", "status")

    def __init__(self, data: bytes, method: str) -> None:
        super().__init__(data)
        self.status = int(self.first_line[9:12])
        if self.status < 100:  # Not an interim response, after which another one would be waited for.
            raise InvalidHead(502, "the status is not one of HTTP")
        self.length = self._body_length(method)
        options = split_list(self.inspected.get("connection"))
        is_current = self.first_line.startswith(b"HTTP/1.1")
        self.keep_alive = "close" not in options if is_current else "keep-alive" in options
        first_line = self.first_line if is_current else b"HTTP/1.1" + self.first_line[8:]
        self.forwarded = b"\r\n".join((first_line, *self.lines, b""))
        self.header_pairs = tuple(self.headers)

    def _body_length(self, method: str) -> int:
        if method == "HEAD" or self.status in (204, 304) or self.status < 200:
            return 0
        coding = self.inspected.get("transfer-encoding")
        if coding is not None:
            codings = split_list(coding)
            if codings.count("chunked") > 1:
                raise InvalidHead(502, "Transfer-Encoding names chunked more than once")
            return CHUNKED if codings[-1:] == ["chunked"] else UNTIL_CLOSE
        length = self.inspected.get("content-length")
        return UNTIL_CLOSE if length is None else _parse_length(length)


def split_target(target: str) -> tuple[str, str]:
    """A request target as authority and path; the authority is "" in the usual origin form.

    Raises:
        InvalidHead: the target is a malformed URL.
    """
    if not target.lower().startswith(("http://", "https://")):
        return "", target
    try:
        authority = urlsplit(target).netloc
    except ValueError:
        raise InvalidHead(400, "the request target is not a URL") from None
    if not is_authority(authority):
        raise InvalidHead(400, "the request target must name a host, or a host and a port")
    path = target[target.index("//") + 2 + len(authority) :]
    return authority, path if path.startswith("/") else f"/{path}"


def is_authority(text: str) -> bool:
    """Whether a text is a host, or a host and a port: nothing in it is read in two ways."""
    return _AUTHORITY.fullmatch(text) is not None


def split_list(value: str | None) -> list[str]:
    """The items of a comma-separated header, in lower case."""
    if not value:
        return []
    items = [item.strip(" \t").lower() for item in value.split(",")]  # Other spaces are part of a word in HTTP.
    return [item for item in items if item]


def _parse_length(text: str) -> int:
    if not text.isdecimal() or len(text) > 19:  # Latin-1 has no decimals but ASCII's.
        raise InvalidHead(400, "Content-Length is not a number")
    return int(text)
