"""One call that is answered from what was recorded.

In: a request, as it comes. Out: the recorded answer with its chunks, one HTTP chunk each, at once or at the pace at
which they came. Never: opens a connection, except in `auto` mode, where a request that nothing answers is relayed and
recorded; or leaves a client without an answer because looking for one failed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traceforge.capture.proxy.prepared_request import Ask
from traceforge.capture.proxy.proxy_metrics import add
from traceforge.capture.proxy.relayed_call import Relay
from traceforge.capture.proxy.response_writer import (
    CHUNKED,
    LAST_CHUNK,
    SIZED,
    Framing,
    frame_chunk,
    is_bodiless,
    write_head,
)
from traceforge.capture.replay_responder import NAME_HEADER, Replay
from traceforge.capture.traceforge_headers import HeaderClaims, read_headers
from traceforge.exchange import Caller, CallOutcome, Headers, find_header
from traceforge.replay.player import ReplayResult
from traceforge.replay.recorded_response import RecordedResponse

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.worker_state import Site

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NOBODY = Caller()


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
            self._client.write(CONTINUE)
        self.request_piece(raw, payload, done)

    def request_piece(self, raw: bytes, payload: list[bytes], done: bool) -> None:
        """More of the request's body."""
        self._raw.append(raw)
        self._payload += payload
        if done:
            body = self._payload[0] if len(self._payload) == 1 else b"".join(self._payload)
            self._site.metrics.request_bytes += len(body)
            self._play(body)

    def client_left(self, why: str = "") -> None:
        """Nobody is there any more."""
        self._end(0, CallOutcome.CLIENT_LEFT)

    def client_full(self) -> None:
        """What was written waits in the transport: a recorded answer is no larger than what was kept."""

    def client_ready(self) -> None:
        """It can take more."""

    def stopped(self) -> None:
        """The proxy stops now."""
        self._end(0, CallOutcome.CUT)

    def _play(self, body: bytes) -> None:
        ask = self._ask
        said = read_headers(ask.headers, _NOBODY) if ask.spoken else HeaderClaims(_NOBODY, ask.headers, False, [])
        if said.problems:
            self._refuse(said)
            return
        played = self._replay.find(ask.method, self._route.url, said, body)
        if played.is_new:
            self._relay()
            return
        spoken: Headers = (
            ((NAME_HEADER, played.recording_name),) if said.has_own_headers and played.recording_name else ()
        )
        self._answer(played, spoken)

    def _refuse(self, said: HeaderClaims) -> None:
        """A header of ours that cannot be used would make this another call than the one that was meant."""
        why = "; ".join(said.problems)
        self._replay.refused(why)
        add(self._site.metrics.refused, "400")
        self._end(400, CallOutcome.ANSWERED)
        self._client.call_failed(400, "bad_header", why)

    def _relay(self) -> None:
        """Nothing answers it: it goes to the upstream, and is recorded."""
        self._site.metrics.in_flight -= 1
        self.over = True
        relay = Relay(self._site, self._client, self._ask)
        self._client.call_goes_on(relay)
        relay.begin(self._ask, b"".join(self._raw), self._payload, True)

    def _answer(self, played: ReplayResult, added: Headers) -> None:
        answer = played.response
        framing = self._framing(answer, added)
        self._chunked = framing.chunked
        if not (self._site.pace and answer.streamed) or framing.bodiless:
            written = self._site.writer.whole(played.recording_name, answer, framing)
            self._count(written.body_bytes, written.chunks)
            self._client.write(written.data)
            self._finish(answer)
            return
        self._client.write(write_head(answer, framing))
        self._write_on(answer, 0, self._site.loop.time())

    def _framing(self, answer: RecordedResponse, added: Headers) -> Framing:
        bodiless = is_bodiless(self._ask.method, answer.status)
        unsized = (answer.streamed or answer.cut) and not bodiless
        chunked = unsized and self._ask.minor > 0
        close = self._client.closes(unsized and not chunked)
        if close or added or bodiless:
            return Framing(chunked, bodiless, close, added)
        return CHUNKED if chunked else SIZED

    def _write_on(self, answer: RecordedResponse, place: int, began: float) -> None:
        """Write every chunk whose time has come, and wait for the next; so their order never depends on a timer."""
        loop = self._site.loop
        for number in range(place, len(answer.chunks)):
            due = began + answer.chunks[number].t_ms / 1000 / self._site.pace
            if due > loop.time():
                self._waiting = loop.call_at(due, self._write_on, answer, number, began)
                return
            self._write(answer.chunks[number].data)
        if self._chunked and not answer.cut and not self.over:
            self._client.write(LAST_CHUNK)
        self._finish(answer)

    def _write(self, data: bytes) -> None:
        if self.over or not data:
            return
        self._count(len(data), 1)
        self._client.write(frame_chunk(data) if self._chunked else data)

    def _count(self, size: int, chunks: int) -> None:
        self._site.metrics.response_bytes += size
        self._site.metrics.response_chunks += chunks

    def _finish(self, answer: RecordedResponse) -> None:
        if self.over:
            return
        if answer.cut:
            self._end(answer.status, CallOutcome.CUT)
            self._client.cut(reset=not self._chunked)
            return
        self._end(answer.status, CallOutcome.ANSWERED)
        self._client.call_over()

    def _end(self, status: int, outcome: CallOutcome) -> None:
        if self.over:
            return
        self.over = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._site.metrics.in_flight -= 1
        self._site.metrics.call_ended(self._route.upstream.name, status, outcome)
