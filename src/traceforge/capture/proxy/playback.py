"""One call that is answered from what was recorded.

In: a request, as it comes. Out: the recorded answer with its chunks, one HTTP chunk each, at once or at the pace at
which they came. Never: opens a connection, except in `auto` mode, where a request that nothing answers is relayed and
recorded; or leaves a client without an answer because looking for one failed.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from traceforge.capture.headers import Said, read_headers
from traceforge.capture.hook.played import BODILESS
from traceforge.capture.proxy.ask import Ask
from traceforge.capture.proxy.metrics import add
from traceforge.capture.proxy.relay import Relay
from traceforge.capture.replay import NAME_HEADER, Replay
from traceforge.exchange import Caller, Headers, Outcome, find_header
from traceforge.replay.answer import RecordedAnswer

if TYPE_CHECKING:
    from traceforge.capture.proxy.client import ClientConnection
    from traceforge.capture.proxy.site import Site

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Playback:
    """A call from the moment its request's head is known; the same to a client as a `Relay`."""

    def __init__(self, site: Site, client: ClientConnection, ask: Ask, replay: Replay) -> None:
        self._site = site
        self._client = client
        self._ask = ask
        self._route = ask.route
        self._replay = replay
        self._raw: list[bytes] = []
        self._payload: list[bytes] = []
        self._waiting: asyncio.TimerHandle | None = None  # for the time of the next chunk
        self._chunked = False
        self.over = False
        site.metrics.in_flight += 1

    def begin(self, ask: Ask, raw: bytes, payload: list[bytes], done: bool) -> None:
        """The head, and as much of the body as came with it."""
        if not done and ask.minor and find_header(ask.headers, "expect").lower() == "100-continue":
            self._client.transport.write(CONTINUE)
        self.request_piece(raw, payload, done)

    def request_piece(self, raw: bytes, payload: list[bytes], done: bool) -> None:
        """More of the request's body."""
        self._raw.append(raw)
        self._payload += payload
        self._site.metrics.request_bytes += sum(map(len, payload))
        if done:
            self._play()

    def client_left(self, why: str = "") -> None:
        """Nobody is there any more."""
        self._end(0, Outcome.LEFT)

    def client_full(self) -> None:
        """What was written waits in the transport: a recorded answer is no larger than what was kept."""

    def client_ready(self) -> None:
        """It can take more."""

    def stopped(self) -> None:
        """The proxy stops now."""
        self._end(0, Outcome.CUT)

    def _play(self) -> None:
        said = read_headers(self._ask.headers, Caller())
        if said.problems:
            self._refuse(said)
            return
        played = self._replay.find(self._ask.method, self._route.url, said, b"".join(self._payload))
        if played.is_new:
            self._relay()
            return
        spoken: Headers = ((NAME_HEADER, played.name),) if said.spoken and played.name else ()
        self._answer(played.answer, spoken)

    def _refuse(self, said: Said) -> None:
        """A header of ours that cannot be used would make this another call than the one that was meant."""
        why = "; ".join(said.problems)
        self._replay.refused(why)
        add(self._site.metrics.refused, "400")
        self._end(400, Outcome.ANSWERED)
        self._client.call_failed(400, "bad_header", why)

    def _relay(self) -> None:
        """Nothing answers it: it goes to the upstream, and is recorded."""
        self._site.metrics.in_flight -= 1
        self.over = True
        relay = Relay(self._site, self._client, self._ask)
        self._client.call_goes_on(relay)
        relay.begin(self._ask, b"".join(self._raw), self._payload, True)

    def _answer(self, answer: RecordedAnswer, added: Headers) -> None:
        bodiless = self._ask.method == "HEAD" or answer.status in BODILESS
        unsized = answer.streamed or answer.cut
        self._chunked = unsized and self._ask.minor > 0 and not bodiless
        close = self._client.closes(unsized and not self._chunked and not bodiless)
        framing = self._framing(answer, unsized=unsized, bodiless=bodiless)
        self._client.transport.write(_head(answer, (*added, *framing), close=close))
        if bodiless:
            self._finish(answer)
        elif self._site.pace and answer.streamed:
            self._write_on(answer, 0, self._site.loop.time())
        else:
            for chunk in answer.chunks:
                self._write(chunk.data)
            self._finish(answer)

    def _framing(self, answer: RecordedAnswer, *, unsized: bool, bodiless: bool) -> Headers:
        if self._chunked:
            return (("Transfer-Encoding", "chunked"),)
        if unsized or bodiless:
            return ()
        return (("Content-Length", str(sum(len(chunk.data) for chunk in answer.chunks))),)

    def _write_on(self, answer: RecordedAnswer, place: int, began: float) -> None:
        """Write every chunk whose time has come, and wait for the next; so their order never depends on a timer."""
        loop = self._site.loop
        for number in range(place, len(answer.chunks)):
            due = began + answer.chunks[number].t_ms / 1000 / self._site.pace
            if due > loop.time():
                self._waiting = loop.call_at(due, self._write_on, answer, number, began)
                return
            self._write(answer.chunks[number].data)
        self._finish(answer)

    def _write(self, data: bytes) -> None:
        if self.over or not data:
            return
        self._site.metrics.response_bytes += len(data)
        self._site.metrics.response_chunks += 1
        self._client.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def _finish(self, answer: RecordedAnswer) -> None:
        if self.over:
            return
        if answer.cut:
            self._end(answer.status, Outcome.CUT)
            self._client.cut(reset=not self._chunked)
            return
        if self._chunked:
            self._client.transport.write(b"0\r\n\r\n")
        self._end(answer.status, Outcome.ANSWERED)
        self._client.call_over()

    def _end(self, status: int, outcome: Outcome) -> None:
        if self.over:
            return
        self.over = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._site.metrics.in_flight -= 1
        self._site.metrics.call_ended(self._route.upstream.name, status, outcome)


def _head(answer: RecordedAnswer, added: Headers, *, close: bool) -> bytes:
    ending: Headers = (("Connection", "close"),) if close else ()
    lines = [f"{name}: {value}" for name, value in (*answer.headers, *added, *ending)]
    return "\r\n".join([f"HTTP/1.1 {answer.status} {_phrase(answer.status)}", *lines, "", ""]).encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
