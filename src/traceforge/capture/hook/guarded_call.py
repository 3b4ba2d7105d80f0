"""A call in flight, guarded: no fault (a failure of TraceForge's own code) reaches the application.

In: what a client hook, `watched_post` or the proxy (which only records with it) sees of a call. Out: the same events
for the `InFlightCall`, in the same order, up to the first fault or the end; in a replay, the response. Never: raises,
or passes on an event after a fault: the call is abandoned, and no trace is made of it.

In every replay, a call whose replay fails is refused; where the watcher `is_strict`, one without a response is, too.
Nothing of a refused call reaches the network. It is counted, unless it is an SDK's telemetry.

A response that the application drops without closing it ends inside the garbage collector, where no lock may be
taken. Such calls wait in `dropped_calls` until the next call begins (`end_dropped_calls`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .in_flight_call import CLIENT_LEFT, CUT, FAILED, TIMED_OUT, Conversation, HeaderPairs, InFlightCall
from .pytest_scopes import current_scope
from .redacted_json import can_be_same_json, is_equal_json
from .replayed_response import WAITS_ON, ReplayedResponse, make_refusal
from .watcher import Watcher
from .worker_thread import run_in_worker, submit_to_worker

ERROR_LENGTH_MAX = 500
READ_ON = "the application reads on in a stream that it left early when it was recorded"
UNLIKE_RECORDING = "two recordings begin alike, and a WebSocket was answered from the one that does not fit"
HEADER_PREFIX = "x-traceforge-"  # in lower case


class HookFaults:
    """How many faults the hook had in this process, and which was the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, exc: BaseException, stage: str = "") -> None:
        """Count a fault; `stage` is the part of a call that was being watched, where there is one."""
        self.count += 1
        self.first = self.first or describe_error(exc) + (f" (stage: {stage})" if stage else "")


faults = HookFaults()
dropped_calls: deque[InFlightCall] = deque()
open_conversations: set[Any] = set()  # of WebSockets that are replayed: `ReplayedConversation`


class GuardedCall:
    """One call in flight. Without an `InFlightCall`, nothing is recorded."""

    __slots__ = (
        "_call",
        "_on_fault",
        "_replayer",
        "extra_response_headers",
        "replays_first",
        "request_headers",
        "trace_id",
    )

    def __init__(
        self,
        call: InFlightCall | None,
        replayed_by: Watcher | None = None,
        on_fault: Callable[[BaseException, str], object] = faults.add,
    ) -> None:
        self._call = call  # None: it has ended, or there was a fault
        self._replayer = replayed_by
        self._on_fault = on_fault  # receives the error and the stage of the call
        self.replays_first = replayed_by is not None  # ask `replay` first; the call may still go upstream
        self.request_headers: HeaderPairs = call.request_headers if call is not None else ()
        self.extra_response_headers: HeaderPairs = call.extra_response_headers if call is not None else ()
        # Unused where a recording answers, because such a call leaves no trace.
        self.trace_id = call.id if call is not None else ""

    def replay(self, body: bytes) -> Any:
        """The response to the whole request; None if the call goes upstream."""
        call, replayer = self._call, self._replayer
        try:
            if call is None or replayer is None:
                raise RuntimeError("there is nothing to replay")
            response = replayer.replay_call(call, body)
            if response is None and replayer.is_strict:
                raise RuntimeError("there is no response")
        except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
            return self.refuse(exc)
        if response is not None:
            self._call = None
        return response

    def replay_part(self, body: bytes, conversation_id: str, start: int) -> Any:
        """As `replay`, of what was sent so far on a WebSocket, from its `start`-th frame on; the call goes on."""
        call, replayer = self._call, self._replayer
        try:
            if call is None or replayer is None:
                raise RuntimeError("there is nothing to replay")
            call.conversation = Conversation(conversation_id, is_open=True, start=start)
            try:
                response = replayer.replay_call(call, body)
            finally:
                call.conversation = Conversation(conversation_id, is_open=False)
            if response is None:
                raise RuntimeError("there is no response")
        except Exception as exc:  # noqa: BLE001
            return self.refuse(exc)
        return response

    def prefer_upstream(self) -> None:
        """Answer the call from its recording only where nothing may go upstream: asking again has no effect there."""
        if self._call is not None:
            self._call.prefers_upstream = True

    def is_replayed_by(self, watcher: Watcher) -> bool:
        """Whether this watcher answers it from recordings."""
        return self._replayer is watcher

    def set_headers(self, headers: HeaderPairs) -> None:
        """The headers of a request that began before they were known."""
        if self._call is not None:
            self._call.request_headers = self._call.client_headers = headers

    def count_unlike_recording(self) -> None:
        """What a conversation was told is not what its recording holds: another recording began in the same way."""
        self.count_deviation(UNLIKE_RECORDING)

    def let_upstream(self) -> None:
        """Let a call go upstream without a look for its recording.

        Raises:
            ConnectionRefusedError: nothing may go upstream.
        """
        self.prefer_upstream()
        if self.replay(b"") is not None:
            raise ConnectionRefusedError("TraceForge replay: nothing may be sent")

    async def replay_async(self, body: bytes) -> Any:
        """As `replay`, while the event loop goes on. A call that is cancelled meanwhile is still looked up."""
        try:
            return await run_in_worker(self.replay, body)
        except (
            GeneratorExit
        ):  # Its loop was closed. This is the garbage collector, perhaps that of the end of Python,
            self.defer_end()  # where a thread would never start, and who starts it would wait for it forever.
            raise
        except BaseException as exc:
            submit_to_worker(partial(self.end_cancelled, exc))
            raise

    def refuse(self, exc: BaseException) -> ReplayedResponse:
        """The response that says that the call could not be replayed."""
        self._abandon()
        return refuse_call(self._replayer, f"the call could not be replayed ({describe_error(exc)})")

    def count_read_on(self) -> None:
        """The application reads on where it left the stream when it was recorded: that is not approved."""
        self.count_deviation(READ_ON)

    def count_wait_on(self) -> None:
        """The application waits for a response that it did not wait for when the call was recorded."""
        self.count_deviation(WAITS_ON)

    def count_deviation(self, reason: str) -> None:
        """The application does something else than in the approved call that this one replays."""
        if self._replayer is not None:
            call_safely(None, self._replayer.count_refusal, reason, True, current_scope())

    def compare_answer(self, recorded: Any, now: Any, reason: str) -> None:
        """What the application did itself must be what is approved: count the reason where it is not.

        `recorded` and `now` are JSON. Where something was redacted, the watcher decides, which can redact `now`, too.
        """
        if not can_be_same_json(recorded, now):
            self.count_deviation(reason)
        elif self._replayer is not None and not is_equal_json(recorded, now):
            answers = (json.dumps(recorded).encode(), json.dumps(now).encode())
            call_safely(None, self._replayer.compare_answers, answers, reason, current_scope())

    @property
    def is_open(self) -> bool:
        return self._call is not None

    @property
    def is_too_large(self) -> bool:
        """Whether a body is larger than is kept."""
        return self._call is not None and self._call.is_too_large

    def add_request_chunk(self, data: bytes) -> None:
        try:
            if self._call is not None:
                self._call.add_request_chunk(data)
        except Exception as exc:  # noqa: BLE001 (an error of our own code must not reach the application)
            self.fail(exc, "request")

    def finish_bodies_with(self, data: bytes) -> None:
        """Append these bytes to both bodies at the end, whichever side ends the call."""
        if self._call is not None:
            self._call.finish_bodies_with(data)

    def drop_bodies(self) -> None:
        """Keep no body of this call: it has too many parts."""
        if self._call is not None:
            self._call.drop_bodies()

    def start_response(self, status: int, headers: HeaderPairs) -> None:
        try:
            if self._call is not None:
                self._call.start_response(status, headers)
        except Exception as exc:  # noqa: BLE001
            self.fail(exc, "response")

    def add_response_chunk(self, data: bytes) -> None:
        try:
            if self._call is not None:
                self._call.add_response_chunk(data)
        except Exception as exc:  # noqa: BLE001
            self.fail(exc, "chunk")

    def end(self, outcome: str, error: str = "") -> None:
        """The call is over; only the first end counts."""
        call, self._call = self._call, None
        try:
            if call is not None:
                call.end(outcome, error)
        except Exception as exc:  # noqa: BLE001
            self._on_fault(exc, "end")

    def end_on_read_error(self, exc: BaseException) -> None:
        """Reading the response raised: the upstream broke off, or the application cancelled the call."""
        self.end(CUT if isinstance(exc, Exception) else CLIENT_LEFT, describe_error(exc))

    def end_cancelled(self, exc: BaseException) -> None:
        """The application cancelled the call, and that is why it raised."""
        self.end(CLIENT_LEFT, describe_error(exc))

    def end_unanswered(self, exc: BaseException, read_timeout: type[BaseException] | None = None) -> None:
        """No response came: the call failed, or the application cancelled it, or its `read_timeout` passed."""
        if read_timeout is not None and isinstance(exc, read_timeout):
            self.end(TIMED_OUT, describe_error(exc))
        else:
            self.end(FAILED if isinstance(exc, Exception) else CLIENT_LEFT, describe_error(exc))

    def defer_end(self) -> None:
        """The response is being garbage-collected before its end. A destructor runs in any thread and must wait for
        nothing, so the call only joins the queue that `end_dropped_calls` empties.
        """
        call, self._call = self._call, None
        if call is not None:
            dropped_calls.append(call)

    def fail(self, exc: BaseException, stage: str) -> None:
        """A fault: no trace is made of this call."""
        self._abandon()
        self._on_fault(exc, stage)

    def _abandon(self) -> None:
        call, self._call = self._call, None
        try:
            if call is not None:
                call.abandon()
        except Exception as exc:  # noqa: BLE001
            self._on_fault(exc, "abandon")


class RefusedCall(GuardedCall):
    """A call that is refused for a reason that is known before it begins; without a watcher, it is not counted."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str, watcher: Watcher | None = None) -> None:
        super().__init__(None, watcher)
        self.replays_first = True
        self._reason = reason

    def replay(self, body: bytes) -> Any:
        return refuse_call(self._replayer, self._reason)


def end_dropped_calls() -> None:
    """End the calls whose responses were dropped."""
    while dropped_calls:
        try:
            dropped_calls.popleft().end(CLIENT_LEFT, "the response was dropped before its end")
        except IndexError:
            return  # another thread was first
        except Exception as exc:  # noqa: BLE001
            faults.add(exc)


def stop_conversations(watcher: Watcher) -> None:
    """Look up the conversations that this watcher replays and that are still open, as far as they went."""
    for conversation in list(open_conversations):
        if conversation.is_of(watcher):
            call_safely(None, conversation.stop)


def refuse_call(watcher: Watcher | None, reason: str) -> ReplayedResponse:
    """Count a refused call and return the response that tells the client."""
    if watcher is not None:
        call_safely(None, watcher.count_refusal, reason)
    return make_refusal(reason)


def call_safely(default: Any, function: Callable[..., Any], *args: Any) -> Any:
    """What `function` returns, or `default` where it raises: an error of our own must not reach the application."""
    try:
        return function(*args)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return default


def describe_error(exc: BaseException) -> str:
    """An exception in one line, cut to a length that a trace can hold."""
    try:
        text = " ".join(str(exc).split())
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


def is_traceforge_header(name: str) -> bool:
    """Whether a header is one of TraceForge's, which must not go upstream."""
    return name.lower().startswith(HEADER_PREFIX)
