"""Calls that the application cancelled before a response came, as candidates for approval."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.proposals import approve_change, candidates_from, make_call, propose
from traceforge.exchange import CallOutcome, Exchange
from traceforge.snapshots.record.pending_changes import ChangeKind
from traceforge.snapshots.tree.approved_calls import make_recorded_response


def cancel(call: Exchange, outcome: CallOutcome = CallOutcome.CLIENT_LEFT, duration_ms: float = 300.0) -> Exchange:
    """The call without its response."""
    return replace(
        call, status=0, response_headers=(), chunks=(), outcome=outcome, error="cancelled", duration_ms=duration_ms
    )


@pytest.mark.parametrize(
    ("outcome", "cause"), [(CallOutcome.CLIENT_LEFT, "application"), (CallOutcome.TIMED_OUT, "timeout")]
)
def test_a_cancelled_call_can_be_approved(outcome: CallOutcome, cause: str) -> None:
    """As a request without a response, and a replay gets how it was cancelled."""
    change = propose(cancel(make_call("Hi"), outcome)).changes[0]
    replayed = make_recorded_response(change.raw_response)

    assert (ChangeKind.NEW, None, "request", ()) == (change.kind, change.record, change.gate, change.reasons)
    assert (0, (), (cause, 300.0)) == (replayed.status, replayed.chunks, replayed.cancellation)


def test_a_call_that_failed_on_its_way_cannot_be_approved() -> None:
    """A refused connection is no behaviour of the application."""
    assert [] == candidates_from(cancel(make_call("Hi"), CallOutcome.FAILED))


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit: 1", "Failed: Timeout >60.0s"])
def test_a_call_that_somebody_interrupted_cannot_be_approved(error: str) -> None:
    """With Ctrl-C, or by a time limit of the test: the application would have waited for the response."""
    interrupted = replace(cancel(make_call("Hi")), error=error)

    assert [] == candidates_from(interrupted)
    assert [0] == [call.raw_response.status for call in candidates_from(replace(interrupted, error="CancelledError"))]


@pytest.mark.parametrize("sent", [b'{"model": "gpt-4.1-mini", "mess', b'{"model": "caf\xc3'])
def test_a_call_that_was_cancelled_within_its_request_cannot_be_approved(sent: bytes) -> None:
    """Nobody can tell what the model would have seen."""
    assert [] == candidates_from(replace(cancel(make_call("Hi")), request_body=sent))


def test_a_timeout_that_was_tried_again_with_success_is_left_out() -> None:
    """As every failed attempt."""
    timed_out = cancel(make_call("Hi", number=1), CallOutcome.TIMED_OUT)

    assert [200] == [call.raw_response.status for call in candidates_from(timed_out, make_call("Hi", number=2))]


def test_the_slower_of_two_calls_at_once_is_no_failed_attempt() -> None:
    """The application makes both each time: it was still waiting for the first when it made the second."""
    slower = cancel(make_call("Hi", number=1), duration_ms=3_600_000)

    assert [0, 200] == [call.raw_response.status for call in candidates_from(slower, make_call("Hi", number=2))]


def test_how_long_the_application_waited_is_no_change() -> None:
    """It differs in each run. A response that comes now is a change of the answer."""
    cancelled = cancel(make_call("Hi"))
    approved = [approve_change(propose(cancelled).changes[0])]

    assert [] == propose(cancel(make_call("Hi"), duration_ms=999), approved=approved).changes
    assert [ChangeKind.ANSWER] == [change.kind for change in propose(make_call("Hi"), approved=approved).changes]
