"""How long a replay holds back a call that the application cancelled when it was recorded."""

from __future__ import annotations

from typing import Any

import pytest
import urllib3

from traceforge.capture.hook import client_requests
from traceforge.capture.hook.held_calls import Hold, plan_hold
from traceforge.capture.hook.replayed_response import ReplayedResponse, make_refusal


def held(*, times_out: bool) -> ReplayedResponse:
    """What a replay has in place of a response."""
    return make_refusal("it waits on")._replace(hold_s=30.0, times_out=times_out)


@pytest.mark.parametrize(
    ("times_out", "read_timeout_s", "hold"),
    [
        (True, 0.5, Hold(0.0, True)),  # The client's timeout is due at once.
        (True, None, Hold(30.0, False)),  # The client has no timeout any more.
        (False, 0.5, Hold(0.5, True)),
        (False, 600, Hold(30.0, False)),
        (False, None, Hold(30.0, False)),
    ],
)
def test_a_cancelled_call_is_held_back(times_out: bool, read_timeout_s: float | None, hold: Hold) -> None:
    """Until the application cancels it, its client's timeout is due, or the time for that is over."""
    assert hold == plan_hold(held(times_out=times_out), read_timeout_s)


def test_a_response_is_not_held_back() -> None:
    """Neither is a refusal of another kind."""
    assert None is plan_hold(make_refusal("unknown"), 0.5)
    assert None is plan_hold((200, (), [(0.0, b"{}")]), None)


@pytest.mark.parametrize(
    ("timeout", "has_end"),
    [
        (0.3, True),
        ((5, 0.3), True),
        (urllib3.Timeout(connect=5, read=0.3), True),
        (urllib3.Timeout(total=0.3), True),
        (urllib3.Timeout(connect=5), False),
        (None, False),
    ],
    ids=str,
)
def test_every_form_of_a_timeout_of_requests_is_read(timeout: Any, has_end: bool) -> None:
    """Otherwise a call that timed out would be held as if its client waited for ever, and be refused."""
    read_timeout_s = client_requests._read_timeout((), {"timeout": timeout})

    assert has_end is (read_timeout_s is not None and 0 <= read_timeout_s <= 0.3)
