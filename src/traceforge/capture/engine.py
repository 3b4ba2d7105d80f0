"""The engine: what happens to a call, told by an edge, and nothing of how bytes travel.

In: events of one call, in order: it began, a piece of the request went out, the response began, a piece of it came,
it ended. Out: what to send upstream, and, once a call has ended, its exchange in the sink. Never: does I/O, waits,
or raises on account of what a call holds: recording is beside the call, and must not make it worse.

    call = engine.begin("POST", url, headers)      # call.headers go upstream, call.reply_headers to the client
    call.sent(piece) …                             # the request's body
    call.answered(200, response_headers)
    call.came(piece) …                             # the response's body, as it comes
    call.ended(Outcome.ANSWERED)                   # exactly one exchange

An edge calls `ended` once in every case, also where the client left or the upstream failed; a second time is ignored.
Pieces are bytes that nobody changes afterwards.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple, Protocol

from traceforge.capture.traceforge_headers import HeaderClaims, read_headers, reply_headers
from traceforge.clock import now_text
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange, Headers
from traceforge.ids import new_uuid

BODY_BYTES_MAX = 64 << 20  # A body beyond this is forwarded and not kept: the largest legal request is 20 MB.
SESSIONS_MAX = 10_000  # Sessions whose steps are counted; the one that was used least recently is forgotten.


class Sink(Protocol):
    """Where exchanges go."""

    def take(self, exchange: Exchange) -> None:
        """Accept an exchange at once, or count it as lost; never waits and never raises."""
        ...


class Moment(NamedTuple):
    """When something happened: as it is written, and on the clock that measures."""

    text: str
    seconds: float


def this_moment() -> Moment:
    """Now."""
    return Moment(now_text(), time.perf_counter())


class Engine:
    """Watches the calls of one process. Safe to use from several threads."""

    def __init__(self, sink: Sink, *, session_id: str = "", source: str = "") -> None:
        self._sink = sink
        self._source = source  # of calls that say nothing about where they come from
        self._session_id = session_id  # of a run or a test: calls that name none belong to it
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
        ours: bool = True,
        moment: Moment | None = None,
    ) -> Call:
        """A call begins; `caller` is what the edge knows about it, and our headers say the rest.

        `ours` is False where the edge has seen that none of the headers is ours; `moment` is when it began, where
        that is not now.
        """
        moment = moment or this_moment()
        if not ours:
            return Call(self, method, url, headers, self._number(caller or _NOBODY), provider, moment)
        placed = self.place(headers, caller or _NOBODY)
        call = Call(self, method, url, placed.upstream, placed.caller, provider, moment)
        if placed.has_own_headers:
            call.reply_headers = reply_headers(call.id, placed.caller.session_id, placed.caller.step_index)
        return call

    def whole(
        self, method: str, url: str, headers: Headers, request: bytes, status: int, response_headers: Headers,
        chunks: tuple[Chunk, ...], began: Moment, ended: float, outcome: CallOutcome, error: str, provider: str,
    ) -> None:  # fmt: skip
        """A call that is over: all of `begin` to `ended` for one of few pieces, and with none of our headers."""
        self.close_call(
            Exchange(
                new_uuid(), began.text, method, url, headers, request, status, response_headers, chunks,
                (ended - began.seconds) * 1000, outcome, error, self._number(_NOBODY), provider,
            )
        )  # fmt: skip

    def place(self, headers: Headers, caller: Caller) -> HeaderClaims:
        """Read our headers, and give a call its place in its session: all of `begin` for a call that is watched in
        another process, whose exchange then comes whole to `close_call`.
        """
        said = read_headers(headers, caller)
        for problem in said.problems:
            self.header_problems[problem] = self.header_problems.get(problem, 0) + 1
        return said._replace(caller=self._number(said.caller))

    @property
    def numbers(self) -> bool:
        """Does every call get a place in a session, so that it counts which began first?"""
        return bool(self._session_id)

    def _number(self, caller: Caller) -> Caller:
        """Give the call its place in its session."""
        session = caller.session_id or self._session_id
        if not session and not self._source:
            return caller
        source = caller.source or self._source
        if not session:
            return Caller(source, caller.scope, "", caller.step_index, caller.parent_trace_id, caller.state)
        step = caller.step_index
        with self._counting:
            following = self._steps.pop(session, 0)
            if step is None:
                step = following
            self._steps[session] = max(following, step + 1)
            if len(self._steps) > SESSIONS_MAX:
                self._steps.popitem(last=False)
        return Caller(source, caller.scope, session, step, caller.parent_trace_id, caller.state)

    def close_call(self, exchange: Exchange) -> None:
        """A call has ended: for `Call`, and for an edge that watched it in another process."""
        self._sink.take(exchange)


class Call:
    """One call in flight."""

    __slots__ = (
        "_began", "_caller", "_chunks", "_engine", "_method", "_provider", "_request", "_request_bytes",
        "_response_bytes", "_response_headers", "_started_at", "_status", "_url", "headers", "id", "reply_headers",
    )  # fmt: skip

    def __init__(
        self, engine: Engine, method: str, url: str, headers: Headers, caller: Caller, provider: str, moment: Moment
    ) -> None:
        self._engine: Engine | None = engine  # None: it has ended
        self.id = new_uuid()
        self.headers = headers  # to be sent upstream
        self.reply_headers: Headers = ()  # to be added to the response
        self._started_at, self._began = moment
        self._method = method
        self._url = url
        self._caller = caller
        self._provider = provider
        self._request: list[bytes] = []
        self._request_bytes = 0
        self._status = 0
        self._response_headers: Headers = ()
        self._chunks: list[Chunk] = []
        self._response_bytes = 0

    def sent(self, data: bytes) -> None:
        """A piece of the request's body."""
        self._request_bytes += len(data)
        if self._request_bytes <= BODY_BYTES_MAX:
            self._request.append(data)
        else:
            self._request.clear()

    def answered(self, status: int, headers: Headers) -> None:
        """The response begins. Heads that only say to go on (1xx) are not told."""
        self._status = status
        self._response_headers = headers

    def came(self, data: bytes, at: float | None = None) -> None:
        """A piece of the response's body; `at` is when, on `perf_counter`, where that is not now."""
        self._response_bytes += len(data)
        if self._response_bytes <= BODY_BYTES_MAX:
            at = time.perf_counter() if at is None else at
            self._chunks.append(_new(Chunk, ((at - self._began) * 1000, data)))
        else:
            self._chunks.clear()

    def ended(self, outcome: CallOutcome, error: str = "", at: float | None = None) -> None:
        """The call is over, one way or another; `at` is when, where that is not now."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if self._request_bytes > BODY_BYTES_MAX or self._response_bytes > BODY_BYTES_MAX:
            engine.too_large += 1
            error = error or f"a body of more than {BODY_BYTES_MAX} bytes is not kept"
        engine.close_call(
            Exchange(
                self.id,
                self._started_at,
                self._method,
                self._url,
                self.headers,
                b"".join(self._request),
                self._status,
                self._response_headers,
                tuple(self._chunks),
                ((time.perf_counter() if at is None else at) - self._began) * 1000,
                CallOutcome(outcome),
                error,
                self._caller,
                self._provider,
            )
        )


_NOBODY = Caller()
_new = tuple.__new__  # A stream has many pieces, and a named tuple's own constructor takes twice as long.
