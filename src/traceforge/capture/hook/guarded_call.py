"""A call in flight, guarded: nothing that its recording does can reach the application.

In: what a client hook, or the proxy, sees of a call. Out: the same events for the `InFlightCall`, each at most once;
for a call that is replayed, its response. Never: raises, and never reports another event of a call whose recording
has failed.

In a replay the opposite holds: a call that cannot be answered is refused and counted, because nothing may reach the
network when TraceForge fails.

A response that the application drops without closing it ends inside the garbage collector, where no lock may be
taken. Such calls wait in `dropped_calls` until the next call begins (`end_dropped_calls`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from .in_flight_call import CLIENT_LEFT, CUT, FAILED, HeaderPairs, InFlightCall
from .replayed_response import ReplayedResponse, make_refusal
from .watcher import Watcher

ERROR_LENGTH_MAX = 500


class RecordingFaults:
    """How often recording failed in this process, and how it failed first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, exc: BaseException, stage: str = "") -> None:
        self.count += 1
        self.first = self.first or describe_error(exc)


faults = RecordingFaults()
dropped_calls: deque[InFlightCall] = deque()


class GuardedCall:
    """One call in flight. Without an `InFlightCall`, nothing is recorded."""

    __slots__ = (
        "_call",
        "_on_fault",
        "_watcher",
        "extra_response_headers",
        "is_replay",
        "request_headers",
        "trace_id",
    )

    def __init__(
        self,
        call: InFlightCall | None,
        replayed_by: Watcher | None = None,
        on_fault: Callable[[BaseException, str], object] = faults.add,
    ) -> None:
        self._call = call  # None: it has ended, or its recording failed
        self._watcher = replayed_by
        self._on_fault = on_fault  # receives the error and the stage of the call
        self.is_replay = replayed_by is not None
        self.request_headers: HeaderPairs = call.request_headers if call is not None else ()
        self.extra_response_headers: HeaderPairs = call.extra_response_headers if call is not None else ()
        self.trace_id = call.id if call is not None else ""  # unless it is answered from a recording

    def replay(self, body: bytes) -> Any:
        """The response to the whole request; None: there is none, and the call goes upstream."""
        call, watcher = self._call, self._watcher
        try:
            if call is None or watcher is None:
                raise RuntimeError("there is nothing to replay")
            response = watcher.replay_call(call, body)
            if response is None and watcher.is_strict:
                raise RuntimeError("there is no response")
        except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
            return self.refuse(exc)
        if response is not None:
            self._call = None
        return response

    def refuse(self, exc: BaseException) -> ReplayedResponse:
        """The response that says that the call could not be replayed."""
        self._call = None
        return refuse_call(self._watcher, f"the call could not be replayed ({describe_error(exc)})")

    @property
    def is_open(self) -> bool:
        return self._call is not None

    def add_request_chunk(self, data: bytes) -> None:
        try:
            if self._call is not None:
                self._call.add_request_chunk(data)
        except Exception as exc:  # noqa: BLE001 (nothing of ours may reach the application)
            self._fail(exc, "request")

    def start_response(self, status: int, headers: HeaderPairs) -> None:
        try:
            if self._call is not None:
                self._call.start_response(status, headers)
        except Exception as exc:  # noqa: BLE001
            self._fail(exc, "response")

    def add_response_chunk(self, data: bytes) -> None:
        try:
            if self._call is not None:
                self._call.add_response_chunk(data)
        except Exception as exc:  # noqa: BLE001
            self._fail(exc, "chunk")

    def end(self, outcome: str, error: str = "") -> None:
        """The call is over; only the first end counts."""
        call, self._call = self._call, None
        try:
            if call is not None:
                call.end(outcome, error)
        except Exception as exc:  # noqa: BLE001
            self._on_fault(exc, "end")

    def end_reading(self, exc: BaseException) -> None:
        """Reading the response raised: the upstream broke off, or the application was cancelled."""
        self.end(CUT if isinstance(exc, Exception) else CLIENT_LEFT, describe_error(exc))

    def end_cancelled(self, exc: BaseException) -> None:
        """The application cancelled the call, and that is why it raised."""
        self.end(CLIENT_LEFT, describe_error(exc))

    def end_unanswered(self, exc: BaseException) -> None:
        """The call failed before a response came."""
        self.end(FAILED, describe_error(exc))

    def end_dropped(self) -> None:
        """The response is being garbage-collected before its end: the call ends at the next chance."""
        call, self._call = self._call, None
        if call is not None:
            dropped_calls.append(call)

    def _fail(self, exc: BaseException, stage: str) -> None:
        self._call = None
        self._on_fault(exc, stage)


class RefusedCall(GuardedCall):
    """A call that is refused for a reason that is known before it begins; without a watcher, it is not counted."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str, watcher: Watcher | None = None) -> None:
        super().__init__(None, watcher)
        self.is_replay = True
        self._reason = reason

    def replay(self, body: bytes) -> Any:
        return refuse_call(self._watcher, self._reason)


def end_dropped_calls() -> None:
    """End the calls whose responses were dropped."""
    while dropped_calls:
        try:
            dropped_calls.popleft().end(CLIENT_LEFT, "the response was dropped before its end")
        except IndexError:
            return  # another thread was first
        except Exception as exc:  # noqa: BLE001
            faults.add(exc)


def refuse_call(watcher: Watcher | None, reason: str) -> ReplayedResponse:
    """Count a call that was not replayed; the response that says so."""
    if watcher is not None:
        call_safely(None, watcher.count_refusal, reason)
    return make_refusal(reason)


def call_safely(default: Any, function: Callable[..., Any], *args: Any) -> Any:
    """What `function` returns, or `default` where it raises: it is ours, and must not reach the application."""
    try:
        return function(*args)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return default


def describe_error(exc: BaseException) -> str:
    """An exception in one line, cut to a length that a trace can hold."""
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 (an exception that cannot even say what it is)
        text = ""
    name = type(exc).__name__
    return (f"{name}: {text}" if text else name)[:ERROR_LENGTH_MAX]


def decode_headers(raw: Iterable[tuple[bytes, bytes]]) -> HeaderPairs:
    """Headers as text from which the same bytes can be made again."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])


def find_content_length(headers: HeaderPairs) -> str:
    """The value of `Content-Length`; "" where it is not there."""
    return next((value for name, value in headers if name.lower() == "content-length"), "")


def is_own_header(name: str) -> bool:
    """Whether a header is one of TraceForge's, which must not go upstream."""
    return name[:13].lower() == "x-traceforge-"
