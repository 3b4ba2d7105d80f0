"""The engine: turns calls in flight into exchanges, whichever edge they come from.

In: calls as they begin. Out: an `InFlightCall` for the edge, which says what to send upstream; once it has ended, its
exchange in the sink. Never: does I/O, waits, or raises on account of what a call holds: recording must not make the
call worse.

    call = engine.begin("POST", url, headers)     # call.request_headers go upstream
    call.add_request_chunk(…) … call.end(…)       # see `hook/in_flight_call.py`
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import starmap
from typing import Protocol

from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.traceforge_headers import make_response_headers, read_headers
from traceforge.clock import now_text
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange, Headers
from traceforge.ids import new_uuid

SESSIONS_MAX = 10_000  # Sessions whose steps are counted; the one that was used least recently is forgotten.
_UNKNOWN_CALLER = Caller()
_OUTCOMES = {outcome.value: outcome for outcome in CallOutcome}  # A third of the time of `CallOutcome(value)`.


class Sink(Protocol):
    """Receives the exchanges that an engine has recorded."""

    def take(self, exchange: Exchange) -> None:
        """Accept an exchange at once, or count it as lost; never waits and never raises."""
        ...


class Engine:
    """Records the calls of one process. Safe to use from several threads."""

    def __init__(self, sink: Sink, *, session_id: str = "", source: str = "") -> None:
        self._sink = sink
        self._source = source  # of calls whose call site is not known
        self._session_id = session_id  # of a run or a test: of calls that name none
        self._steps: OrderedDict[str, int] = OrderedDict()
        self._counting = threading.Lock()
        self.header_problems: dict[str, int] = {}  # a sentence, and how often it was true
        self.too_large = 0

    def begin(
        self,
        method: str,
        url: str,
        headers: Headers,
        caller: Caller | None = None,
        *,
        provider: str = "",
        has_traceforge_headers: bool = True,
        call_id: str = "",
        started_at: str = "",
        on_end: Callable[[InFlightCall], object] | None = None,
    ) -> InFlightCall:
        """A call begins; `caller` is what the edge knows about it, and TraceForge's headers add to that.

        With `has_traceforge_headers=False`, the headers are not searched for TraceForge's. A call of another process
        has its id and its start from there. `on_end` takes the place of `complete`, and has to call it later.
        """
        caller = caller or _UNKNOWN_CALLER
        claims = read_headers(headers, caller) if has_traceforge_headers else None
        if claims is None:
            upstream, caller = headers, self._number(caller)
        else:
            for problem in claims.problems:
                self.header_problems[problem] = self.header_problems.get(problem, 0) + 1
            upstream, caller = claims.upstream, self._number(claims.caller)
        call = InFlightCall(
            on_end or self.complete,
            method,
            url,
            upstream,
            call_id=call_id or new_uuid(),
            client_headers=headers,
            caller=caller,
            started_at=started_at or now_text(),
            provider=provider,
        )
        if claims is not None and claims.wants_headers:
            call.extra_response_headers = make_response_headers(call.id, caller.session_id, caller.step_index)
        return call

    def complete(self, call: InFlightCall) -> None:
        """A call has ended: hand its exchange to the sink."""
        self.too_large += call.is_too_large
        self._sink.take(
            Exchange(
                call.id,
                call.started_at,
                call.method,
                call.url,
                call.request_headers,
                b"".join(call.request_chunks),
                call.status,
                call.response_headers,
                tuple(starmap(Chunk, call.response_chunks)),
                call.duration_ms,
                _OUTCOMES[call.outcome],
                call.error,
                call.caller,
                call.provider,
            )
        )

    def _number(self, caller: Caller) -> Caller:
        """Give the call its step in its session."""
        session = caller.session_id or self._session_id
        if not session and not self._source:
            return caller
        source = caller.source or self._source
        if not session:
            return Caller(source, caller.scope, "", caller.step_index, caller.parent_trace_id, caller.state)
        step = caller.step_index
        with self._counting:
            next_step = self._steps.pop(session, 0)
            if step is None:
                step = next_step
            self._steps[session] = max(next_step, step + 1)
            if len(self._steps) > SESSIONS_MAX:
                self._steps.popitem(last=False)
        return Caller(source, caller.scope, session, step, caller.parent_trace_id, caller.state)
