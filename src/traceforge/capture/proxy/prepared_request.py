"""A request that is ready to be forwarded: its head as it goes upstream, and its headers as they are recorded.

Most clients send the same head with every request of a connection, except for the length of the body. `RepeatedHead`
recognises such a head by comparing bytes, so that it need not be validated, parsed, admitted and rewritten again. It
shows in the benchmark row "calls/s at 16 connections".

Never: remembers a head beyond its connection, because it may hold an API key.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.capture.hook.websocket_frames import DEFLATE
from traceforge.capture.proxy.upstream_routes import Route
from traceforge.exchange import Headers
from traceforge.http.message_head import RequestHead

DIGITS_MAX = 15


class PreparedRequest(NamedTuple):
    """One request without its body."""

    method: str
    http_minor: int
    length: int  # Of the body; or CHUNKED
    keep_alive: bool
    route: Route
    head: bytes  # As it goes upstream, with the empty line.
    headers: Headers  # As they are recorded.
    has_traceforge_headers: bool
    opens_websocket: bool = False


_EXTENSIONS = b"sec-websocket-extensions:"
_UPGRADE = (b"Connection: Upgrade", b"Upgrade: websocket")


def prepare_request(head: RequestHead, route: Route) -> PreparedRequest:
    """Rewrite a head for its route."""
    head.replace_host(route.upstream.authority)
    lines = head.lines_to_forward()
    if head.opens_websocket:
        lines = [*filter(None, map(_known_extensions, lines)), *_UPGRADE]
    return PreparedRequest(
        head.method,
        head.http_minor,
        head.length,
        head.keep_alive,
        route,
        b"\r\n".join((route.request_line, *lines, b"", b"")),
        tuple(head.headers),
        head.has_traceforge_headers,
        head.opens_websocket,
    )


def _known_extensions(line: bytes) -> bytes:
    """The line; one that offers extensions of WebSocket without those that could not be read. Empty: none is left.

    An offer may be declined, so that the client notices nothing.
    """
    name, _, offers = line.partition(b":")
    if name.lower() + b":" != _EXTENSIONS:
        return line
    deflate = [offer for offer in offers.split(b",") if offer.partition(b";")[0].strip().lower() == DEFLATE.encode()]
    return name + b":" + b",".join(deflate) if deflate else b""


class RepeatedHead:
    """A head that may come again with another Content-Length."""

    __slots__ = ("_after", "_before", "_forwarded_after", "_forwarded_before", "_length_index", "_request")

    def __init__(
        self,
        received: tuple[bytes, bytes],
        forwarded: tuple[bytes, bytes],
        request: PreparedRequest,
        length_index: int,
    ) -> None:
        """`received` and `forwarded` are the bytes before and after the number, in either head."""
        self._before, self._after = received
        self._forwarded_before, self._forwarded_after = forwarded
        self._request = request
        self._length_index = length_index

    def match(self, data: bytes) -> tuple[PreparedRequest, int] | None:
        """The request that `data` starts with and where its head ends; None for a different head."""
        if not data.startswith(self._before):
            return None
        start = len(self._before)
        end = data.find(b"\r", start, start + DIGITS_MAX + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self._after, end):
            return None
        head_end = end + len(self._after)
        request, index = self._request, self._length_index
        name, length = request.headers[index]
        if length.encode() == digits:
            return request, head_end
        headers = (*request.headers[:index], (name, digits.decode()), *request.headers[index + 1 :])
        head = b"".join((self._forwarded_before, digits, self._forwarded_after))
        return request._replace(length=int(digits), head=head, headers=headers), head_end


def remember_head(received: bytes, request: PreparedRequest) -> RepeatedHead | None:
    """Remember a head; None if it has no length, or a TraceForge header, which counts for one request."""
    indexes = [index for index, (name, _) in enumerate(request.headers) if name.lower() == "content-length"]
    if request.has_traceforge_headers or len(indexes) != 1:
        return None
    name, value = request.headers[indexes[0]]
    line = f"\r\n{name}: {value}\r\n".encode("latin-1")
    received_parts, forwarded_parts = _split_at_number(received, line), _split_at_number(request.head, line)
    if received_parts is None or forwarded_parts is None or not 0 < len(value) <= DIGITS_MAX:
        return None
    return RepeatedHead(received_parts, forwarded_parts, request, indexes[0])


def _split_at_number(head: bytes, line: bytes) -> tuple[bytes, bytes] | None:
    """The bytes before and after the number in a line that the head must have exactly once."""
    before, separator, after = head.partition(line)
    if not separator or line in after:
        return None
    return before + line[: line.index(b": ") + 2], b"\r\n" + after
