"""The traffic between one MCP client and one server, as calls.

In: the messages of both sides, in order. Out: calls, each with the messages of its answer; the recorded messages that
the client gets. Never: does I/O, waits, or sends anything itself.

A message of the server that belongs to no request (a log line, a changed list of tools) becomes a part of the answer
to the oldest open request, else to the next one. So a replay sends it at the same request.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from . import dispatch
from .guarded_call import GuardedCall, call_safely, describe_error, refuse_call
from .in_flight_call import ANSWERED, CLIENT_LEFT, CUT
from .mcp_messages import (
    CLOSED_LINE,
    COMPARED_QUESTIONS,
    DESCRIPTIONS,
    Message,
    decode_answer,
    encode_answer_line,
    encode_client_answer,
    encode_request,
    is_client_answer,
    is_closing,
    is_request,
    is_response,
    make_error,
    progress_token,
    read_client_answer,
    read_refusal,
    request_url,
)
from .replayed_response import WAITS_ON, ReplayedResponse, make_refusal

EARLY_BYTES_MAX = 1 << 20  # of messages that wait for the next request
QUESTIONS_MAX = 1000  # of a server that wait for the client's answer
QUESTION_ID_LENGTH_MAX = 1000
LEFT_HOLD_S = 30.0  # How long a request is held that the client left after a part of its answer, such as progress.
ANSWERS_OTHERWISE = "the client's answer to a question of the tool server differs from the recorded answer"
_ANSWERED_STATUS = 200
_REQUEST_HEADERS = ((b"content-type", b"application/json"),)
_RESPONSE_HEADERS = (("content-type", "application/x-ndjson"),)
_CANCELLED = "notifications/cancelled"
_LISTEN = "subscriptions/listen"  # is open until the client leaves


class _OpenRequest:
    """A request that its server has not answered yet."""

    def __init__(self, call: GuardedCall, message: Message, is_awaited: Callable[[], bool]) -> None:
        self.call = call
        self.is_awaited = is_awaited  # by the client
        self.token = progress_token(message)
        self._has_begun = False

    def add_line(self, line: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.call.start_response(_ANSWERED_STATUS, _RESPONSE_HEADERS)
        self.call.add_response_chunk(line)


class _HeldRequest(NamedTuple):
    """A request that the client left when it was recorded. It has until `until_s` to leave it again."""

    message: Message
    call: GuardedCall
    until_s: float
    is_awaited: Callable[[], bool]


class _ReplayedMessage(NamedTuple):
    """A message for the client, and the recorded call to whose answer it belongs; None for an error that we made."""

    message: Message
    call: GuardedCall | None


class McpTraffic:
    """One session of a client with a server."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: dict[Any, _OpenRequest] = {}  # by id
        self._held: dict[Any, _HeldRequest] = {}  # by id
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._questions: dict[Any, _OpenRequest] = {}  # of the server, by id, and during which request it asks
        self._replayed: deque[_ReplayedMessage] = deque()  # messages that the client has not got yet
        self._awaited: Any = None  # the id of a recorded request of the server that the client has not answered
        self.has_ended = False  # the recorded session ended here, before an answer was whole

    def begin(self, message: Message) -> GuardedCall | None:
        """A request of the client begins; None: no capture watches it."""
        call = dispatch.begin_tool_call(request_url(self._address, message["method"]), _REQUEST_HEADERS)
        if call is not None and call.replays_first and message["method"] in DESCRIPTIONS:
            call.prefer_upstream()
        return call

    def settle(
        self,
        message: Message,
        call: GuardedCall | None,
        response: Any,
        is_awaited: Callable[[], bool],
        *,
        is_offline: bool,
    ) -> bool:
        """Whether a request goes to its server: it does if `response` is None. Else, the client gets the response.

        `is_offline`: nothing may be sent, so a request without a response is refused.
        """
        if response is None and is_offline:
            response = make_refusal("the request is not watched, and nothing may be sent")
        if response is None:
            if call is not None:
                call_safely(None, self.send_live, message, call, is_awaited)
            return True
        replayed = ReplayedResponse(*response)
        if call is not None and replayed.hold_s:
            call_safely(None, self.hold, message, call, replayed.hold_s, is_awaited)
            return False
        call_safely(None, self.answer, message, replayed, call)
        if call is not None and replayed.is_left_early:  # after some progress
            call_safely(None, self.hold, message, call, LEFT_HOLD_S, is_awaited)
        return False

    def send_live(self, message: Message, call: GuardedCall, is_awaited: Callable[[], bool]) -> None:
        """The request goes to its server. `is_awaited` says whether the client waits for its response."""
        call.add_request_chunk(encode_request(message))
        reused = self._open.pop(message["id"], None)
        if reused is not None:
            reused.call.end(CUT, "the client used the id of the request again before the server answered")
        request = self._open[message["id"]] = _OpenRequest(call, message, is_awaited)
        for line in self._early:
            request.add_line(line)
        self._early.clear()
        self._early_bytes = 0

    def answer(self, message: Message, response: ReplayedResponse, call: GuardedCall | None) -> None:
        """The request is answered from a recording, or refused; an answer that cannot be read counts as a refusal."""
        if response.status != _ANSWERED_STATUS:
            self._queue_message(make_error(message, read_refusal(response.chunks)))
            return
        body = b"".join([data for _, data in response.chunks])
        try:
            self._replayed.extend([_ReplayedMessage(part, call) for part in decode_answer(body, message)])
        except (ValueError, RecursionError) as exc:
            refusal = refuse_call(None, describe_error(exc)) if call is None else call.refuse(exc)
            self._queue_message(make_error(message, read_refusal(refusal.chunks)))

    def _queue_message(self, message: Message) -> None:
        self._replayed.append(_ReplayedMessage(message, None))

    def hold(self, message: Message, call: GuardedCall, hold_s: float, is_awaited: Callable[[], bool]) -> None:
        """The client left this request when it was recorded: it gets no answer, and some time to leave it again."""
        until_s = math.inf if message["method"] == _LISTEN else time.monotonic() + hold_s
        self._held[message["id"]] = _HeldRequest(message, call, until_s, is_awaited)

    def seconds_to_hold(self) -> float:
        """After how many seconds a held request gets an error, because the client still waits for it."""
        return min([request.until_s for request in self._held.values()], default=math.inf) - time.monotonic()

    def _end_holds(self) -> None:
        for request in list(self._held.values()):
            if request.until_s <= time.monotonic():
                del self._held[request.message["id"]]
                if request.is_awaited():
                    request.call.count_wait_on()
                    self._queue_message(make_error(request.message, f"TraceForge replay: {WAITS_ON}"))

    def next_replayed(self) -> Message | None:
        """The next message that the client gets from a recording; None: none, until another message comes."""
        if self._held:
            self._end_holds()
        while self._replayed and self._awaited is None and is_client_answer(self._replayed[0].message):
            self._replayed.popleft()  # The client was compared already, or has not answered as the recording says.
        if self._awaited is not None or not self._replayed:
            return None
        message = self._replayed.popleft().message
        if is_closing(message):
            self.has_ended = True
            return None
        if is_request(message):
            self._awaited = message["id"]
        return message

    def take_client_message(self, message: Message) -> bool:
        """Take a message of the client other than a request; returns whether its server is to get it."""
        if is_response(message) and message["id"] == self._awaited:
            self._awaited = None
            self._compare_client_answer(message)
            return False
        if is_response(message):
            self._note_client_answer(message)
        if message.get("method") == _CANCELLED:
            request_id = (message.get("params") or {}).get("requestId")
            if self._held.pop(request_id, None) is not None:
                return False
            request = self._open.pop(request_id, None)
            if request is not None:
                request.call.end(CLIENT_LEFT, "the client cancelled the request")
        return True

    def _compare_client_answer(self, message: Message) -> None:
        """Count another answer than the recorded one: what the server did next belongs to the recorded one."""
        for replayed in self._replayed:
            if is_client_answer(replayed.message) and replayed.message.get("id") == message["id"]:
                if replayed.call is not None:
                    recorded = replayed.message["client"]
                    replayed.call.compare_answer(recorded, read_client_answer(message), ANSWERS_OTHERWISE)
                self._replayed.remove(replayed)
                return

    def _note_client_answer(self, message: Message) -> None:
        request = self._questions.pop(message["id"], None)
        if request is not None and request in self._open.values():
            request.add_line(encode_client_answer(message))

    def take_server_message(self, message: Message) -> None:
        """A message of the server, which the client gets."""
        if is_response(message):
            request = self._open.pop(message["id"], None)
            if request is not None and not request.is_awaited():
                request.call.end(CLIENT_LEFT, "the client had left the request when the server answered")
            elif request is not None:
                request.add_line(encode_answer_line(message))
                request.call.end(ANSWERED)
        elif "method" in message:
            self._add_unrequested(message)

    def _add_unrequested(self, message: Message) -> None:
        line = encode_answer_line(message)
        request = self._find_request((message.get("params") or {}).get("progressToken"))
        if request is not None:
            request.add_line(line)
            if is_request(message) and message["method"] in COMPARED_QUESTIONS:
                self._add_question(message["id"], request)
        elif self._early_bytes + len(line) <= EARLY_BYTES_MAX:
            self._early.append(line)
            self._early_bytes += len(line)
        else:
            dispatch.note_unseen("messages of an MCP server outside of requests, beyond 1 MiB")

    def _add_question(self, question_id: Any, request: _OpenRequest) -> None:
        """Remember which request the server asks during, until the client answers or the request ends."""
        if len(self._questions) >= QUESTIONS_MAX:
            is_open = set(self._open.values()).__contains__
            self._questions = {key: asked for key, asked in self._questions.items() if is_open(asked)}
        if len(self._questions) >= QUESTIONS_MAX or len(str(question_id)) > QUESTION_ID_LENGTH_MAX:
            dispatch.note_unseen("questions of an MCP server, beyond 1,000 or with an id of 1,000 characters")
        else:
            self._questions[question_id] = request

    def _find_request(self, token: Any) -> _OpenRequest | None:
        requests = list(self._open.values())
        if token is not None:
            requests = [request for request in requests if request.token == token]
        return requests[0] if requests else None

    def close(self) -> None:
        """The client has ended the session: requests that are still open are cancelled."""
        for request in self._open.values():
            request.call.end(CLIENT_LEFT, "the client ended the session before the server answered")
        self._open.clear()

    def close_by_server(self) -> None:
        """The server has ended the session, or cannot be reached: that is the answer to what is still open."""
        for request in self._open.values():
            request.add_line(CLOSED_LINE)
            request.call.end(ANSWERED)
        self._open.clear()

    def lose_track(self, reason: str) -> None:
        """A message of the server was not read, which may have been the answer to any open request."""
        for request in self._open.values():
            request.add_line(b"")
            request.call.end(CUT, reason)
        self._open.clear()
