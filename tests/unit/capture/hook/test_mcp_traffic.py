"""The session of an MCP client with a server, as calls."""

from __future__ import annotations

import json
import math
from typing import Any, cast

import pytest

from traceforge.capture.hook import dispatch
from traceforge.capture.hook.guarded_call import GuardedCall
from traceforge.capture.hook.in_flight_call import ANSWERED, CLIENT_LEFT, InFlightCall
from traceforge.capture.hook.mcp_messages import CLOSED_LINE, Message
from traceforge.capture.hook.mcp_traffic import ANSWERS_OTHERWISE, EARLY_BYTES_MAX, QUESTIONS_MAX, McpTraffic
from traceforge.capture.hook.replayed_response import WAITS_ON, ReplayedResponse, make_refusal
from traceforge.capture.hook.watcher import Watcher


def call_tool(request_id: int, text: str = "milk", token: int | None = None) -> Message:
    """A request of the client."""
    params: dict[str, Any] = {"name": "add_note", "arguments": {"text": text}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def respond(request_id: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": {"text": text}}


def progress(token: int) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}


LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "busy"}}
SAMPLING = {"jsonrpc": "2.0", "id": 90, "method": "sampling/createMessage", "params": {"maxTokens": 5}}


class Session(McpTraffic):
    """Traffic, and the calls that ended in it."""

    def __init__(self) -> None:
        super().__init__("mcp://notes")
        self.ended: list[InFlightCall] = []
        self.unseen: list[str] = []
        self.awaited: set[int] = set()  # ids of the requests for whose responses the client waits

    def start(self, message: Message) -> None:
        """The client sends a request to the server, and waits for the response."""
        call = self.begin(message)
        assert call is not None
        self.awaited.add(message["id"])
        self.send_live(message, call, lambda: message["id"] in self.awaited)

    def start_held(self, message: Message, hold_s: float, refused: list[str]) -> None:
        """The client sends a request that it left when it was recorded."""

        class Watching:
            def count_refusal(self, reason: str, *_: Any) -> None:
                refused.append(reason)

        self.awaited.add(message["id"])
        call = GuardedCall(None, cast("Any", Watching()))
        self.hold(message, call, hold_s, lambda: message["id"] in self.awaited)

    def answers(self) -> list[list[Any]]:
        """The lines of each answer."""
        bodies = [b"".join(data for _, data in call.response_chunks) for call in self.ended]
        return [[json.loads(line) for line in body.splitlines()] for body in bodies]


class CountingWatcher(Watcher):
    """A replay, as far as it counts refusals."""

    replays = True

    def __init__(self) -> None:
        self.refusals: list[str] = []

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self.refusals.append(reason)

    def compare_answers(self, answers: tuple[bytes, bytes], reason: str, scope: str) -> None:
        """A value that was redacted is a mail address; its place is known."""
        if b"@" not in answers[1]:
            self.refusals.append(reason)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose calls are watched."""
    watched = Session()

    def begin(url: str, headers: Any) -> GuardedCall:
        return GuardedCall(InFlightCall(watched.ended.append, "POST", url, ()))

    monkeypatch.setattr(dispatch, "begin_tool_call", begin)
    monkeypatch.setattr(dispatch, "note_unseen", watched.unseen.append)
    return watched


def test_each_request_is_a_call_with_its_answer(session: Session) -> None:
    """Whichever is answered first."""
    session.start(call_tool(1, "milk"))
    session.start(call_tool(2, "bread"))
    session.take_server_message(respond(2, "bread"))
    session.take_server_message(respond(1, "milk"))

    assert ["mcp://notes/tools/call"] * 2 == [call.url for call in session.ended]
    assert [[{"jsonrpc": "2.0", "result": {"text": text}}] for text in ("bread", "milk")] == session.answers()
    assert [(200, ANSWERED)] * 2 == [(call.status, call.outcome) for call in session.ended]


def test_progress_belongs_to_the_request_that_asked_for_it(session: Session) -> None:
    """And any other message of the server to the oldest open request."""
    session.start(call_tool(1, token=1))
    session.start(call_tool(2, token=2))
    for message in (progress(2), LOG, respond(1, "a"), respond(2, "b")):
        session.take_server_message(message)

    first, second = session.answers()

    assert (["notifications/message", None], ["notifications/progress", None]) == (
        [line.get("method") for line in first],
        [line.get("method") for line in second],
    )


def test_a_message_between_requests_is_told_at_the_next_one(session: Session) -> None:
    """A replay has no other moment for it."""
    session.take_server_message(LOG)
    session.start(call_tool(1))
    session.take_server_message(respond(1, "a"))

    assert [[LOG, {"jsonrpc": "2.0", "result": {"text": "a"}}]] == session.answers()


def test_a_flood_between_requests_is_bounded_and_named(session: Session) -> None:
    """The memory of the application is not ours to fill."""
    line = {**LOG, "params": {"data": "x" * 1000}}
    for _ in range(EARLY_BYTES_MAX // 1000):
        session.take_server_message(line)
    assert session.unseen
    session.start(call_tool(1))
    session.take_server_message(respond(1, "a"))

    (call,) = session.ended
    assert EARLY_BYTES_MAX >= sum(len(data) for _, data in call.response_chunks[:-1])


def test_questions_that_the_client_never_answers_are_bounded_and_named(session: Session) -> None:
    """A remote server invents their ids, and a client may leave them unanswered as long as the session lasts."""
    for number in range(3):
        session.start(call_tool(number))
        for question in range(QUESTIONS_MAX):
            session.take_server_message({**SAMPLING, "id": f"{number} {question}"})
        assert len(session._questions) <= QUESTIONS_MAX
        assert not session.unseen  # those of requests that ended take no place
        if number < 2:
            session.take_server_message(respond(number, "a"))
    session.take_server_message({**SAMPLING, "id": "one more"})

    assert QUESTIONS_MAX == len(session._questions)
    assert 1 == len(session.unseen)


def test_a_question_with_an_id_of_megabytes_is_not_remembered(session: Session) -> None:
    session.start(call_tool(1))
    session.take_server_message({**SAMPLING, "id": "x" * (1 << 20)})

    assert not session._questions
    assert session.unseen


def test_a_cancelled_request_is_one_that_the_client_left(session: Session) -> None:
    """A late answer is no part of it."""
    session.start(call_tool(1))
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert session.take_client_message(cancelled)
    session.take_server_message(respond(1, "late"))

    assert [(CLIENT_LEFT, [])] == [(call.outcome, call.response_chunks) for call in session.ended]


def test_an_answer_for_which_the_client_waits_no_longer_is_none(session: Session) -> None:
    """Version 1 of the SDK tells no server that its time is over; a replay must not give it what it never had."""
    session.start(call_tool(1))
    session.awaited.clear()
    session.take_server_message(respond(1, "late"))

    assert [(CLIENT_LEFT, [])] == [(call.outcome, call.response_chunks) for call in session.ended]


def test_a_client_that_waits_on_is_told_so_and_counted(session: Session) -> None:
    """It left the request when it was recorded: what comes after that, nobody approved."""
    refused: list[str] = []
    session.start_held(call_tool(1), 0.0, refused)

    assert session.seconds_to_hold() <= 0
    assert [(1, f"TraceForge replay: {WAITS_ON}")] == [
        (message["id"], message["error"]["message"]) for message in told(session)
    ]
    assert [WAITS_ON] == refused


def test_a_client_that_leaves_a_request_again_is_told_nothing(session: Session) -> None:
    """In version 2, it says so to a server that was never asked; in version 1, it waits no longer."""
    refused: list[str] = []
    session.start_held(call_tool(1), 60.0, refused)
    session.start_held(call_tool(2), 0.0, refused)
    session.awaited.discard(2)
    assert [] == told(session)
    assert 0 < session.seconds_to_hold() <= 60
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    assert not session.take_client_message(cancelled)
    assert ([], math.inf) == (refused, session.seconds_to_hold())


def test_a_subscription_is_held_until_the_client_leaves(session: Session) -> None:
    """Its server answers it never."""
    refused: list[str] = []
    session.start_held({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}, 0.0, refused)

    assert ([], [], math.inf) == (told(session), refused, session.seconds_to_hold())


def test_the_end_of_a_server_is_the_answer_to_what_is_open(session: Session) -> None:
    """With what it had sent until then, so that a replay ends its session there."""
    session.start(call_tool(1))
    session.take_server_message(LOG)
    session.close_by_server()
    session.close()

    assert [[LOG, json.loads(CLOSED_LINE)]] == session.answers()
    assert [ANSWERED] == [call.outcome for call in session.ended]


def test_the_end_of_the_client_leaves_open_requests(session: Session) -> None:
    """They had no answer."""
    session.start(call_tool(1))
    session.close()

    assert [(0, CLIENT_LEFT)] == [(call.status, call.outcome) for call in session.ended]


def replayed(*lines: Message | bytes) -> ReplayedResponse:
    """A recorded answer."""
    body = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return ReplayedResponse(200, (), [(0.0, body)])


def told(session: Session) -> list[Message]:
    """Everything that the client is told until something must come first."""
    return list(iter(session.next_replayed, None))


def test_recorded_answers_are_told_in_their_order(session: Session) -> None:
    """Each under the id of its request."""
    session.answer(call_tool(5), replayed(LOG, {"jsonrpc": "2.0", "result": {"text": "a"}}), None)
    session.answer(call_tool(6), replayed({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}}), None)

    assert [
        LOG,
        respond(5, "a"),
        {"jsonrpc": "2.0", "id": 6, "error": {"code": 1, "message": "no"}},
    ] == told(session)


def test_a_recorded_request_of_the_server_waits_for_the_client(session: Session) -> None:
    """As the server did; the answer of the client goes nowhere."""
    session.answer(call_tool(5), replayed(SAMPLING, {"jsonrpc": "2.0", "result": {"text": "a"}}), None)

    assert [SAMPLING] == told(session)
    assert session.take_client_message({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert [] == told(session)
    assert not session.take_client_message({"jsonrpc": "2.0", "id": 90, "result": {}})
    assert [respond(5, "a")] == told(session)


ELICITATION = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "How many?"}}
ROOTS = {"jsonrpc": "2.0", "id": "r", "method": "roots/list"}


def answer_question(question: Message, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


@pytest.mark.parametrize(
    ("now", "refusals"),
    [
        ({"n": 3, "mail": "a@b.c"}, []),
        ({"n": 4, "mail": "a@b.c"}, [ANSWERS_OTHERWISE]),
        ({"n": 3, "mail": "nobody"}, [ANSWERS_OTHERWISE]),
    ],
)
def test_what_the_client_answers_a_question_is_compared(session: Session, now: Any, refusals: list[str]) -> None:
    """The rest of the recorded answer depends on it. Not so for `roots`: these are folders of a machine."""
    session.start(call_tool(1))
    for question, result in ((ROOTS, "/home/a"), (ELICITATION, {"n": 3, "mail": "[REDACTED]"})):
        session.take_server_message(question)
        assert session.take_client_message(answer_question(question, result))
    session.take_server_message(respond(1, "done"))
    (lines,) = session.answers()
    watcher = CountingWatcher()
    session.answer(call_tool(5), replayed(*lines), GuardedCall(None, watcher))

    assert [ROOTS] == told(session)
    session.take_client_message(answer_question(ROOTS, "/home/b"))
    assert [ELICITATION] == told(session)
    session.take_client_message(answer_question(ELICITATION, now))
    assert ([respond(5, "done")], refusals) == (told(session), watcher.refusals)


def test_questions_that_are_answered_in_another_order_are_told_apart(session: Session) -> None:
    """By the ids that the server gave them."""
    session.start(call_tool(1))
    for message in (ELICITATION, SAMPLING):
        session.take_server_message(message)
    for question, result in ((SAMPLING, "b"), (ELICITATION, "a")):
        session.take_client_message(answer_question(question, result))
    session.take_server_message(respond(1, "done"))
    watcher = CountingWatcher()
    session.answer(call_tool(5), replayed(*session.answers()[0]), GuardedCall(None, watcher))

    assert [ELICITATION] == told(session)
    session.take_client_message(answer_question(ELICITATION, "a"))
    assert [SAMPLING] == told(session)
    session.take_client_message(answer_question(SAMPLING, "other"))
    assert ([respond(5, "done")], [ANSWERS_OTHERWISE]) == (told(session), watcher.refusals)


def test_a_recorded_session_ends_where_it_ended(session: Session) -> None:
    """And not before everything was told."""
    session.answer(call_tool(5), replayed(LOG, CLOSED_LINE), None)

    assert not session.has_ended
    assert [LOG] == told(session)
    assert session.has_ended


def test_a_refusal_and_a_damaged_answer_are_errors_for_the_client(session: Session) -> None:
    """A request never stays without a response."""
    session.answer(call_tool(5), make_refusal("no recorded call matches"), None)
    watcher = CountingWatcher()
    session.answer(call_tool(6), replayed(b"{\n"), GuardedCall(None, watcher))

    messages = [(message["id"], message["error"]["message"]) for message in told(session)]

    assert [5, 6] == [request_id for request_id, _ in messages]
    assert ["TraceForge replay: no recorded call matches", True] == [
        messages[0][1],
        "could not be replayed" in messages[1][1],
    ]
    assert 1 == len(watcher.refusals), "an agent may swallow the error, and the run is red all the same"
