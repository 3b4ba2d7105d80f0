"""Calls that the application cancelled before a response came, in a replay.

In: a replayed response that is held back, and the timeout of the client. Out: the time in which the application can
cancel the call again; then whether the client's timeout is due. Never: waits for a timeout of the client that also
ended the recorded call: that is due at once.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .guarded_call import GuardedCall
from .replayed_response import ReplayedResponse, sleep_async

READ_TIMED_OUT = "TraceForge replay: the read operation timed out, as it did when the call was recorded"


class Hold(NamedTuple):
    """How long a call is held, and whether the client's timeout is due then."""

    seconds: float
    ends_in_timeout: bool


def plan_hold(fields: Any, read_timeout_s: float | None) -> Hold | None:
    """How a replayed response is held back; None: it is not.

    `read_timeout_s`: how long the client waits for a response; None: for ever.
    """
    response = ReplayedResponse(*fields)
    if not response.hold_s:
        return None
    if read_timeout_s is None:
        return Hold(response.hold_s, False)
    if response.times_out:
        return Hold(0.0, True)
    return Hold(min(read_timeout_s, response.hold_s), read_timeout_s <= response.hold_s)


def hold_call(hold: Hold, call: GuardedCall) -> bool:
    """Wait; then, whether the client's timeout is due. Otherwise the application waits on, and is refused."""
    time.sleep(hold.seconds)
    return _end_hold(hold, call)


async def hold_call_async(hold: Hold, call: GuardedCall) -> bool:
    """The same for a coroutine: the application can cancel it meanwhile."""
    await sleep_async(hold.seconds)
    return _end_hold(hold, call)


def _end_hold(hold: Hold, call: GuardedCall) -> bool:
    if not hold.ends_in_timeout:
        call.count_wait_on()
    return hold.ends_in_timeout
