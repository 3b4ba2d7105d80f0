"""One call that is answered from a recording.

In: a request, as it comes. Out: the recorded response, one HTTP chunk for each recorded chunk, at once or at the
recorded pace. Never: opens a connection, except in `auto` mode, where an unmatched request is relayed and recorded;
or leaves a client without a response because the lookup failed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traceforge.capture.hook.in_flight_call import BODY_BYTES_MAX
from traceforge.capture.hook.replayed_response import REFUSED_STATUS, REFUSED_TYPE, WAITS_ON
from traceforge.capture.proxy.prepared_request import PreparedRequest
from traceforge.capture.proxy.proxy_metrics import increment
from traceforge.capture.proxy.relayed_call import RelayedCall
from traceforge.capture.proxy.response_writer import CHUNKED, SIZED, ResponseFraming, is_bodiless, write_head
from traceforge.capture.replay_responder import RECORDING_HEADER, ReplayResponder
from traceforge.capture.traceforge_headers import HeaderClaims, read_headers
from traceforge.exchange import Caller, CallOutcome, Headers, find_header
from traceforge.http.plain_response import CONTINUE, LAST_CHUNK, frame_chunk
from traceforge.replay.player import ReplayResult
from traceforge.replay.recorded_response import RecordedResponse

if TYPE_CHECKING:
    from traceforge.capture.proxy.client_connection import ClientConnection
    from traceforge.capture.proxy.worker_state import WorkerState

_UNKNOWN_CALLER = Caller()


class ReplayedCall:
    """A call, from the moment when the head of its request is known. A client uses it as a `RelayedCall`."""

    def __init__(
        self, state: WorkerState, client: ClientConnection, request: PreparedRequest, replay: ReplayResponder
    ) -> None:
        self._state = state
        self._client = client
        self._request = request
        self._route = request.route
        self._replay = replay
        self._raw: list[bytes] = []
        self._payload: list[bytes] = []
        self._payload_bytes = 0
        self._timer: asyncio.TimerHandle | None = None  # Of the next chunk.
        self._chunked = False
        self.is_finished = False
        self.has_response = False  # Only a complete request has one.
        state.metrics.in_flight += 1

    def start(self, request: PreparedRequest, raw: bytes, payload: list[bytes], is_complete: bool) -> None:
        """Take the head, and the part of the body that came with it."""
        wants_continue = find_header(request.headers, "expect").lower() == "100-continue"
        if wants_continue and not is_complete and request.http_minor:
            self._client.write(CONTINUE)
        self.receive_body(raw, payload, is_complete)

    def receive_body(self, raw: bytes, payload: list[bytes], is_complete: bool) -> None:
        """Take more of the request's body, and respond when it is complete."""
        self._raw.append(raw)
        chunk = payload[0] if len(payload) == 1 else b"".join(payload)
        self._payload.append(chunk)
        self._payload_bytes += len(chunk)
        if self._payload_bytes > BODY_BYTES_MAX:
            self._refuse_large_body(is_complete)
        elif is_complete:
            body = b"".join(self._payload)
            self._state.metrics.request_bytes += len(body)
            self._replay_response(body)

    def on_client_disconnected(self, reason: str = "") -> None:
        self._end(0, CallOutcome.CLIENT_LEFT)

    def on_client_full(self) -> None:
        """The transport buffers what the client does not take: a recorded response is small."""

    def on_client_ready(self) -> None:
        """Do nothing: a replayed response has no reader to resume."""

    def abort(self) -> None:
        self._end(0, CallOutcome.CUT)

    def _replay_response(self, body: bytes) -> None:
        request = self._request
        claims = HeaderClaims(_UNKNOWN_CALLER, request.headers, False, [])
        if request.has_traceforge_headers:
            claims = read_headers(request.headers, _UNKNOWN_CALLER)
        if claims.problems:
            self._refuse(claims)
            return
        result = self._replay.find(request.method, self._route.url, claims, body)
        if result.goes_upstream:
            self._relay()
            return
        added: Headers = (
            ((RECORDING_HEADER, result.source_name),) if claims.wants_headers and result.source_name else ()
        )
        self._respond(result, added, claims.caller.scope)

    def _refuse(self, claims: HeaderClaims) -> None:
        """Refuse a request with an unusable TraceForge header: without it, this would be another call."""
        reason = "; ".join(claims.problems)
        self._replay.count_refusal(reason)
        increment(self._state.metrics.refused, "400")
        self._end(400, CallOutcome.ANSWERED)
        self._client.on_call_failed(400, "bad_header", reason)

    def _refuse_large_body(self, is_complete: bool) -> None:
        """Collect no more of a body that no recording can have."""
        if self._replay.allow_upstream:
            self._relay(is_complete)
            return
        reason = f"a body of more than {BODY_BYTES_MAX} bytes is never recorded"
        self._replay.count_refusal(reason)
        increment(self._state.metrics.refused, "413")
        self._end(413, CallOutcome.ANSWERED)
        self._client.on_call_failed(413, "body_too_large", reason)

    def _relay(self, is_complete: bool = True) -> None:
        """Send an unmatched request to its upstream, and record it."""
        self._state.metrics.in_flight -= 1
        self.is_finished = True
        call = RelayedCall(self._state, self._client, self._request)
        self._client.replace_call(call)
        call.start(self._request, b"".join(self._raw), self._payload, is_complete)

    def _respond(self, result: ReplayResult, added: Headers, scope: str) -> None:
        response = result.response
        if response.cancellation is not None:
            hold_s = response.cancellation.hold_s
            self._timer = self._state.loop.call_later(hold_s, self._refuse_waiting_client, scope)
            return
        framing = self._framing(response, added)
        self._chunked = framing.chunked
        if not (self._state.pace and response.streamed) or framing.bodiless:
            written = self._state.writer.serialize(result.source_name, response, framing)
            self._count(written.body_bytes, written.chunks)
            self._client.write(written.data)
            self._finish(response)
            return
        self._client.write(write_head(response, framing))
        self._write_due_chunks(response, 0, self._state.loop.time())

    def _refuse_waiting_client(self, scope: str) -> None:
        """The client did not leave, as it did when the call was recorded."""
        self._replay.count_refusal(WAITS_ON, is_deviation=True, scope=scope)
        increment(self._state.metrics.refused, str(REFUSED_STATUS))
        self._end(REFUSED_STATUS, CallOutcome.ANSWERED)
        self._client.on_call_failed(REFUSED_STATUS, REFUSED_TYPE, WAITS_ON)

    def _framing(self, response: RecordedResponse, added: Headers) -> ResponseFraming:
        bodiless = is_bodiless(self._request.method, response.status)
        unsized = (response.streamed or response.cut) and not bodiless
        chunked = unsized and self._request.http_minor > 0
        close = self._client.decide_close(until_close=unsized and not chunked)
        if close or added or bodiless:
            return ResponseFraming(chunked, bodiless, close, added)
        return CHUNKED if chunked else SIZED

    def _write_due_chunks(self, response: RecordedResponse, index: int, start: float) -> None:
        """Write every chunk that is due and wait for the next one, so that one timer keeps their order."""
        loop = self._state.loop
        for number in range(index, len(response.chunks)):
            due = start + response.chunks[number].t_ms / 1000 / self._state.pace
            if due > loop.time():
                self._timer = loop.call_at(due, self._write_due_chunks, response, number, start)
                return
            self._write(response.chunks[number].data)
        if self._chunked and not response.cut and not self.is_finished:
            self._client.write(LAST_CHUNK)
        self._finish(response)

    def _write(self, data: bytes) -> None:
        if self.is_finished or not data:
            return
        self._count(len(data), 1)
        self._client.write(frame_chunk(data) if self._chunked else data)

    def _count(self, size: int, chunks: int) -> None:
        self._state.metrics.response_bytes += size
        self._state.metrics.response_chunks += chunks

    def _finish(self, response: RecordedResponse) -> None:
        if self.is_finished:
            return
        if response.cut:
            self._end(response.status, CallOutcome.CUT)
            self._client.break_off(reset=not self._chunked)
            return
        self._end(response.status, CallOutcome.ANSWERED)
        self._client.on_call_finished()

    def _end(self, status: int, outcome: CallOutcome) -> None:
        if self.is_finished:
            return
        self.is_finished = True
        if self._timer is not None:
            self._timer.cancel()
        self._state.metrics.in_flight -= 1
        self._state.metrics.call_ended(self._route.upstream.name, status, outcome)
