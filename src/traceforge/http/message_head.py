"""The head of a request or of a response: found, checked, and taken apart once.

In: bytes of a connection. Out: its first line, its header lines as they were sent, and the few facts that forwarding
needs. Never: accepts what llhttp, in its strict mode, does not: two lengths, a length and chunks, a folded line, a
bare newline; or changes a line that is passed on.

llhttp judges a head and is not asked about bodies: it does not say where one ended.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

from traceforge.http.body_framing import CHUNKED, UNTIL_CLOSE

REQUEST_BYTES_MAX = 64 << 10
RESPONSE_BYTES_MAX = 256 << 10
HEADERS_MAX = 200  # The largest real request has about 40.

# These speak about one connection, and the next has others. `Trailer` stays: trailers are passed on.
HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "upgrade",
     "http2-settings")
)  # fmt: skip
_FACTS = frozenset(
    ("host", "content-length", "transfer-encoding", "expect", "origin", "sec-fetch-site", "anthropic-version",
     "x-traceforge-token")
)  # fmt: skip
_SPECIAL = HOP_BY_HOP | _FACTS
_KEPT_ALWAYS = frozenset(("host", "content-length", "transfer-encoding"))
_OURS = "x-traceforge-"
TOKEN = "x-traceforge-token"  # noqa: S105 (the name of a header)

_NOT_PASSED_ON = HOP_BY_HOP | {TOKEN}

# What comes with the same value again and again. Nothing here is a secret.
_REMEMBERED = (_SPECIAL - {TOKEN, "proxy-authorization"}) | frozenset(
    ("accept", "accept-encoding", "accept-language", "content-type", "user-agent", "server", "vary", "date",
     "cache-control",
     "x-stainless-lang", "x-stainless-os", "x-stainless-arch", "x-stainless-async", "x-stainless-runtime",
     "x-stainless-runtime-version", "x-stainless-package-version", "x-stainless-retry-count", "x-stainless-timeout",
     "x-stainless-read-timeout", "anthropic-beta", "x-goog-api-client", "strict-transport-security", "alt-svc")
)  # fmt: skip
KNOWN_MAX = 2048  # Lines remembered; then all are forgotten.
KNOWN_BYTES_MAX = 256

Parser = HttpRequestParser | HttpResponseParser
Header = tuple[str, str]
Known = tuple[str, Header]  # The name in lower case where it matters, else ""; and the header.


class BadHead(Exception):
    """A head that is refused, with the status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def find_head(data: bytes, parser: Parser, bytes_max: int) -> bytes | None:
    """The head that `data` begins with, with its empty line; None where `HeadReader` must gather it.

    Raises:
        BadHead: it is malformed.
    """
    end = data.find(b"\r\n\r\n", 0, bytes_max)
    if end < 0:
        return None
    head = data[: end + 4]
    try:
        parser.feed_data(head)
    except HttpParserUpgrade:
        pass  # The head is whole; whether an upgrade is wanted, its headers say.
    except HttpParserError as exc:
        raise BadHead(400, f"malformed HTTP: {exc}") from None
    return head


class HeadReader:
    """Gathers one head that comes in pieces; malformed bytes are refused as soon as they are seen."""

    __slots__ = ("_bytes_max", "_gathered", "_parser", "rest")

    def __init__(self, parser: Parser, bytes_max: int) -> None:
        self._parser = parser
        self._bytes_max = bytes_max
        self._gathered = bytearray()
        self.rest = b""  # What came behind the head.

    def feed(self, data: bytes) -> bytes | None:
        """The whole head with its empty line, or None while more must come.

        Raises:
            BadHead: it is malformed or too large.
        """
        gathered = self._gathered
        before = len(gathered)
        gathered += data
        end = gathered.find(b"\r\n\r\n", max(0, before - 3)) + 4
        if end == 3:
            self._judge(data, len(gathered))
            return None
        self._judge(data[: end - before], end)
        self.rest = bytes(gathered[end:])
        return bytes(gathered[:end])

    @property
    def gathered(self) -> bytes:
        """Everything that came so far."""
        return bytes(self._gathered)

    def _judge(self, fresh: bytes, length: int) -> None:
        if length > self._bytes_max:
            raise BadHead(431, f"the head is larger than {self._bytes_max} bytes")
        try:
            self._parser.feed_data(fresh)
        except HttpParserUpgrade:
            pass  # The head is whole; whether an upgrade is wanted, its headers say.
        except HttpParserError as exc:
            raise BadHead(400, f"malformed HTTP: {exc}") from None


class Head:
    """A head taken apart. `lines[i]` is what was sent of `headers[i]`; neither has what belongs to one connection."""

    __slots__ = ("facts", "first", "headers", "host_at", "lines", "spoken")

    def __init__(self, data: bytes) -> None:
        lines = data.split(b"\r\n")
        del lines[-2:]
        if len(lines) > HEADERS_MAX + 1:
            raise BadHead(431, f"more than {HEADERS_MAX} headers")
        self.first = lines.pop(0)
        self.facts: dict[str, str] = {}
        self.host_at = -1
        self.spoken = False  # Is one of the headers ours?
        kept: list[bytes] = []
        headers: list[Header] = []
        self.lines, self.headers = kept, headers
        known = _known
        for line in lines:
            key, header = known.get(line) or _learn(line)
            if key and not self._note(key, header[1]):
                continue
            kept.append(line)
            headers.append(header)
        connection = self.facts.get("connection")
        if connection is not None and connection.lower() not in ("keep-alive", "close"):
            self._drop_named(connection)

    def _note(self, key: str, value: str) -> bool:
        """Remember what a header says; is it passed on?"""
        facts = self.facts
        if key in facts:
            if key == "host":
                raise BadHead(400, "more than one Host")
            value = f"{facts[key]}, {value}"
        facts[key] = value
        if key == "host":
            self.host_at = len(self.lines)
        elif key in _NOT_PASSED_ON:
            return False
        elif key not in _FACTS:
            self.spoken = True
        return True

    def _drop_named(self, connection: str) -> None:
        """`Connection` may name further headers that belong to one connection."""
        named = set(words(connection)) - _KEPT_ALWAYS
        kept = [at for at, header in enumerate(self.headers) if header[0].lower() not in named]
        if self.host_at >= 0:
            self.host_at = kept.index(self.host_at)
        self.lines = [self.lines[at] for at in kept]
        self.headers = [self.headers[at] for at in kept]

    def name_host(self, host: str) -> None:
        """Name another host, in the place and the spelling that Host has."""
        if self.host_at < 0:
            self.host_at = 0
            self.lines.insert(0, b"")
            self.headers.insert(0, ("Host", ""))
        name = self.headers[self.host_at][0]
        self.lines[self.host_at] = f"{name}: {host}".encode("latin-1")
        self.headers[self.host_at] = (name, host)

    def without_ours(self) -> list[bytes]:
        """The lines that go on: none of ours."""
        if not self.spoken:
            return self.lines
        return [line for line in self.lines if not line.lower().startswith(_OURS.encode())]


def _learn(line: bytes) -> Known:
    """Take a header's line apart. Most come again with the next request, so what is no secret is remembered."""
    name, _, value = str(line, "latin-1").partition(":")
    key = name.lower()
    known = (key if key in _SPECIAL or key.startswith(_OURS) else "", (name, value.strip(" \t")))
    if len(line) <= KNOWN_BYTES_MAX and key in _REMEMBERED:
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        _known[line] = known
    return known


_known: dict[bytes, Known] = {}


class RequestHead(Head):
    """The head of a request."""

    __slots__ = ("keep_alive", "length", "method", "minor", "target")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        parts = str(self.first, "latin-1").split(" ")
        if len(parts) != 3:
            raise BadHead(400, "a request line that is not method, target and version")
        self.method, self.target, version = parts
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadHead(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
        self.minor = 1 if version == "HTTP/1.1" else 0
        if self.minor and self.host_at < 0:
            raise BadHead(400, "there is no Host")
        self.length = self._length()
        connection = self.facts.get("connection")
        self.keep_alive = self.minor == 1 and (connection in (None, "keep-alive") or "close" not in words(connection))

    def _length(self) -> int:
        coding = self.facts.get("transfer-encoding")
        if coding is not None:
            if words(coding)[-1:] != ["chunked"] or not self.minor:
                raise BadHead(400, "a Transfer-Encoding that does not say where the body ends")
            return CHUNKED
        length = self.facts.get("content-length")
        return 0 if length is None else _number(length)


class ResponseHead(Head):
    """The head of a response to a request of `method`."""

    __slots__ = ("keep_alive", "length", "status")

    def __init__(self, data: bytes, method: str) -> None:
        super().__init__(data)
        self.status = int(self.first[9:12])
        self.length = self._length(method)
        connection = self.facts.get("connection")
        if self.first.startswith(b"HTTP/1.1"):
            self.keep_alive = connection in (None, "keep-alive") or "close" not in words(connection)
        else:
            self.keep_alive = connection is not None and "keep-alive" in words(connection)

    def _length(self, method: str) -> int:
        if method == "HEAD" or self.status in (204, 304) or self.status < 200:
            return 0
        coding = self.facts.get("transfer-encoding")
        if coding is not None:
            return CHUNKED if words(coding)[-1:] == ["chunked"] else UNTIL_CLOSE
        length = self.facts.get("content-length")
        return UNTIL_CLOSE if length is None else _number(length)


def origin_form(target: str) -> tuple[str, str]:
    """A target as an authority and a path; most have no authority."""
    if target.startswith("/"):
        return "", target
    if target[:7].lower() != "http://" and target[:8].lower() != "https://":
        return "", target
    try:
        parts = urlsplit(target)
    except ValueError:
        raise BadHead(400, "a target that is no URL") from None
    rest = target[target.index("//") + 2 + len(parts.netloc) :]
    return parts.netloc, rest if rest.startswith("/") else f"/{rest}"


def words(value: str | None) -> list[str]:
    """The items of a comma-separated header, in lower case."""
    if not value:
        return []
    return [item.strip().lower() for item in value.split(",") if item.strip()]


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 19:  # Latin-1 has no decimals but ASCII's.
        raise BadHead(400, "a Content-Length that is no number")
    return int(text)
