"""A model call in flight: one class for the hook, for child processes and for the proxy.

In: what the hook, a child process or the proxy sees of a call, in order. Out: the finished call, handed to `on_end`
at most once. Never: does I/O, waits, or raises on account of what a call holds.

    call = InFlightCall(on_end, "POST", url, headers, call_id=new_id)
    call.add_request_chunk(b"…")          any number of times
    call.start_response(200, headers)     of the final response; interim responses (1xx) are left out
    call.add_response_chunk(b"…")         any number of times
    call.end(ANSWERED)                    in every case, also where the application left; a second end is ignored
    call.abandon()                        instead of `end`, after an error in TraceForge itself

Chunks are immutable bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

# The values of `exchange.CallOutcome`.
ANSWERED, CUT, CLIENT_LEFT, TIMED_OUT, FAILED = "answered", "cut", "left", "timed_out", "failed"
# CLIENT_LEFT: the application (for the proxy, its client) closed, dropped or cancelled the call.
BODY_BYTES_MAX = 64 << 20  # A larger body is forwarded and not kept: the largest legal request is 20 MB.
CHUNKS_MAX = 1 << 20  # Each takes a hundred bytes, however small it is; a model's answer has thousands.
_TOO_MANY_CHUNKS = f"a body of more than {CHUNKS_MAX} chunks is not kept"

HeaderPairs = tuple[tuple[str, str], ...]


class Conversation(NamedTuple):
    """The WebSocket whose frames a request has. While it is open, they are those so far, from the `start`-th on."""

    id: str
    is_open: bool
    start: int = 0  # frames that were looked up before, and are left out


NO_CONVERSATION = Conversation("", is_open=False)


class InFlightCall:
    """What was seen of one call so far."""

    __slots__ = (
        "_began", "_body_end", "_on_abandon", "_on_end", "_request_bytes", "_response_bytes", "caller",
        "client_headers", "conversation", "duration_ms", "error", "extra_response_headers", "id", "method", "outcome",
        "prefers_upstream", "provider", "request_chunks", "request_headers", "response_chunks", "response_headers",
        "started_at", "status", "url",
    )  # fmt: skip

    def __init__(
        self,
        on_end: Callable[[InFlightCall], object],
        method: str,
        url: str,
        headers: HeaderPairs,
        *,
        call_id: str = "",
        client_headers: HeaderPairs | None = None,
        caller: Any = None,
        started_at: str = "",
        provider: str = "",
        on_abandon: Callable[[InFlightCall], object] | None = None,
    ) -> None:
        self._on_abandon = on_abandon
        self._on_end: Callable[[InFlightCall], object] | None = on_end  # None: the call has ended
        self.id = call_id  # of the trace that it becomes
        self.method = method
        self.url = url
        self.request_headers = headers  # as they go upstream
        self.client_headers = (
            headers if client_headers is None else client_headers
        )  # as the client sent them, X-TraceForge-* included
        self.extra_response_headers: HeaderPairs = ()  # added to the response that the client gets
        self.caller = caller  # what `on_end` knows about the calling code; its type is the creator's choice
        self.started_at = started_at  # the timestamp of the trace
        self.provider = provider
        self.prefers_upstream = False  # its upstream answers, wherever calls may go there
        self.conversation = NO_CONVERSATION
        self.request_chunks: list[bytes] = []
        self._request_bytes = 0
        self._body_end = b""
        self.status = 0
        self.response_headers: HeaderPairs = ()
        self.response_chunks: list[tuple[float, bytes]] = []  # milliseconds since the call began, and the bytes
        self._response_bytes = 0
        self.duration_ms = 0.0
        self.outcome = ""
        self.error = ""
        self._began = time.perf_counter()

    def restart_clock(self) -> None:
        """Measure times from now on: for a call that goes to its upstream only after a replay had no response."""
        self._began = time.perf_counter()

    def add_request_chunk(self, data: bytes) -> None:
        self._request_bytes += len(data)
        if len(self.request_chunks) == CHUNKS_MAX:
            self._request_bytes = BODY_BYTES_MAX + 1
            self.error = _TOO_MANY_CHUNKS
        if self._request_bytes <= BODY_BYTES_MAX:
            self.request_chunks.append(data)
        else:
            self.request_chunks.clear()

    def start_response(self, status: int, headers: HeaderPairs) -> None:
        self.status = status
        self.response_headers = headers

    def add_response_chunk(self, data: bytes) -> None:
        self._response_bytes += len(data)
        if len(self.response_chunks) == CHUNKS_MAX:
            self._response_bytes = BODY_BYTES_MAX + 1
            self.error = _TOO_MANY_CHUNKS
        if self._response_bytes <= BODY_BYTES_MAX:
            self.response_chunks.append((self._elapsed_ms(), data))
        else:
            self.response_chunks.clear()

    def finish_bodies_with(self, data: bytes) -> None:
        """Append these bytes to both bodies at the end, whichever side ends the call."""
        self._body_end = data

    def drop_bodies(self) -> None:
        """Keep no body, as if it were too large: it has too many parts."""
        self._request_bytes = self._response_bytes = BODY_BYTES_MAX + 1
        self.request_chunks.clear()
        self.response_chunks.clear()

    def end(self, outcome: str, error: str = "") -> None:
        """The call is over, now."""
        self.end_with_duration(self._elapsed_ms(), outcome, error)

    def end_with_duration(self, duration_ms: float, outcome: str, error: str = "") -> None:
        """The call is over; another process has measured how long it took."""
        on_end, self._on_end = self._on_end, None
        if on_end is None:
            return
        if self._body_end:
            self._finish_bodies()
        if self.is_too_large:
            error = error or self.error or f"a body of more than {BODY_BYTES_MAX} bytes is not kept"
        self.duration_ms, self.outcome, self.error = duration_ms, outcome, error
        on_end(self)

    def _finish_bodies(self) -> None:
        if self.request_chunks:
            self.add_request_chunk(self._body_end)
        if self.response_chunks:
            self.add_response_chunk(self._body_end)

    def abandon(self) -> None:
        """Drop the call after an error in TraceForge itself: the call was captured only in part, so it never ends."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None and self._on_abandon is not None:
            self._on_abandon(self)

    @property
    def is_too_large(self) -> bool:
        """Whether one of its bodies was not kept because of its size or the number of its chunks."""
        return self._request_bytes > BODY_BYTES_MAX or self._response_bytes > BODY_BYTES_MAX

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000
