"""What a request asks for: everything that forwarding and recording need of its head.

In: a head and its route. Out: the bytes that go upstream, and the headers that are recorded; and, for a connection
whose next request has the same head, the same without reading it again. Never: remembers a head beyond its
connection: it may hold a key.

A client sends the same head with every request, but for the length of the body. `Again` compares the bytes in front
of and behind that number; where both are equal, what was judged once is judged.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.capture.proxy.upstream_routes import Route
from traceforge.exchange import Headers
from traceforge.http.message_head import RequestHead

DIGITS_MAX = 15


class Ask(NamedTuple):
    """One request, without its body."""

    method: str
    minor: int  # of HTTP/1
    length: int
    keep_alive: bool
    route: Route
    head: bytes  # as it goes upstream, with its empty line
    headers: Headers  # as they are recorded
    spoken: bool  # is one of them ours?


def ask_of(head: RequestHead, route: Route) -> Ask:
    """What a head asks for, when it takes this route."""
    head.name_host(route.upstream.authority)
    sent = b"\r\n".join((route.first, *head.without_ours(), b"", b""))
    return Ask(head.method, head.minor, head.length, head.keep_alive, route, sent, tuple(head.headers), head.spoken)


class Again:
    """A head that may come again."""

    __slots__ = ("_after", "_ask", "_before", "_header_at", "_sent_after", "_sent_before")

    def __init__(self, came: tuple[bytes, bytes], sent: tuple[bytes, bytes], ask: Ask, header_at: int) -> None:
        self._before, self._after = came
        self._sent_before, self._sent_after = sent
        self._ask = ask
        self._header_at = header_at

    def match(self, data: bytes) -> tuple[Ask, int] | None:
        """What `data` asks for, and where its head ends; None where it begins with another head."""
        if not data.startswith(self._before):
            return None
        start = len(self._before)
        end = data.find(b"\r", start, start + DIGITS_MAX + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self._after, end):
            return None
        ask, at = self._ask, self._header_at
        headers = ask.headers
        if headers[at][1].encode() == digits:
            return ask, end + len(self._after)
        header = (headers[at][0], digits.decode())
        return (
            Ask(
                ask.method,
                ask.minor,
                int(digits),
                ask.keep_alive,
                ask.route,
                b"".join((self._sent_before, digits, self._sent_after)),
                (*headers[:at], header, *headers[at + 1 :]),
                False,
            ),
            end + len(self._after),
        )


def find_again(came: bytes, ask: Ask) -> Again | None:
    """Remember a head; None where it has no length, or says something to us that counts once."""
    places = [at for at, (name, _) in enumerate(ask.headers) if name.lower() == "content-length"]
    if ask.spoken or len(places) != 1:
        return None
    name, value = ask.headers[places[0]]
    line = f"\r\n{name}: {value}\r\n".encode("latin-1")
    found, sent = _around(came, line), _around(ask.head, line)
    if found is None or sent is None or not 0 < len(value) <= DIGITS_MAX:
        return None
    return Again(found, sent, ask, places[0])


def _around(head: bytes, line: bytes) -> tuple[bytes, bytes] | None:
    """What stands before and behind the number in a line that a head has once."""
    before, found, after = head.partition(line)
    if not found or line in after:
        return None
    return before + line[: line.index(b": ") + 2], b"\r\n" + after
