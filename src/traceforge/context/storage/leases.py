"""Leases: which process works on a task that takes longer than a transaction.

A process writes its name and an end time into the row of the task, and renews the end in a thread of its own. A lease
that has run out tells the others that its process died. So does one that ends later than any that begins now: the
clock was set back, and its process has not renewed it since.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import ColumnElement, or_

from traceforge.clock import now, now_text, timestamp_text
from traceforge.errors import StoreUnavailable

LEASE_S = 30.0  # A process that does not renew for this long is taken for dead.
CLOCK_DIFFERENCE_S = 60.0  # How far apart the clocks of two machines may be.
RENEW_EVERY_S = 5.0  # Also how soon a process learns that its task was canceled elsewhere.

_owner_of_process: tuple[int, str] = (0, "")


def lease_owner() -> str:
    """The name of this process, unique among all processes on all machines."""
    global _owner_of_process  # noqa: PLW0603 (one name for each process; a forked child has another)
    if _owner_of_process[0] != os.getpid():
        _owner_of_process = os.getpid(), f"{os.getpid()}-{uuid4()}"
    return _owner_of_process[1]


def lease_end(seconds: float = LEASE_S) -> str:
    """The end of a lease that begins now."""
    return timestamp_text(now() + timedelta(seconds=seconds))


def has_lease(until: str, seconds: float = LEASE_S) -> bool:
    """Whether a process works on the task whose lease, of at most `seconds`, ends then."""
    return now_text() <= until <= lease_end(seconds + CLOCK_DIFFERENCE_S)


def has_no_lease(until: ColumnElement[str]) -> ColumnElement[bool]:
    """The same as a condition of a statement, for leases of the usual length: whether no process is at work."""
    return or_(until < now_text(), until > lease_end(LEASE_S + CLOCK_DIFFERENCE_S))


def seconds_ago(seconds: float) -> str:
    """The time, this many seconds ago, as the database stores times."""
    return timestamp_text(now() - timedelta(seconds=seconds))


@contextmanager
def keep_lease(
    renew: Callable[[], bool], on_lost: Callable[[], object], every_s: float = RENEW_EVERY_S
) -> Iterator[None]:
    """Call `renew` every `every_s` while the block runs. Where it returns False, call `on_lost` once and stop.

    While the database cannot be reached, the work goes on: the lease may still hold.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_s):
            try:
                if renew():
                    continue
            except StoreUnavailable:
                continue
            on_lost()
            return

    thread = threading.Thread(target=work, name="traceforge-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
