"""Leases: who is at work on something that takes longer than a transaction, and how others see that it died.

In: what says "still at work" in the database. Out: the same again and again, until it is over. Never: a lease that
outlives its process for long; a beat on the thread that works.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

from traceforge.clock import now, timestamp_text
from traceforge.errors import StoreUnavailable

LEASE_S = 30.0  # A process that says nothing for so long is taken for dead.
RENEW_EVERY_S = 5.0  # How often it says something; so often it also learns that somebody has ended its work.

_owner_of_process: tuple[int, str] = (0, "")


def lease_owner() -> str:
    """The name of this process, which no other has."""
    global _owner_of_process  # noqa: PLW0603 (one name for each process; a forked child has another)
    if _owner_of_process[0] != os.getpid():
        _owner_of_process = os.getpid(), f"{os.getpid()}-{uuid4()}"
    return _owner_of_process[1]


def lease_end(seconds: float = LEASE_S) -> str:
    """The end of a lease that begins now."""
    return timestamp_text(now() + timedelta(seconds=seconds))


def seconds_ago(seconds: float) -> str:
    """So long ago."""
    return timestamp_text(now() - timedelta(seconds=seconds))


@contextmanager
def keep_lease(
    renew: Callable[[], bool], on_lost: Callable[[], object], every_s: float = RENEW_EVERY_S
) -> Iterator[None]:
    """Call `beat` again and again while the block runs; where it says False, the work is somebody else's: `lost`.

    A database that cannot be reached for a while is no reason to stop: the lease may still hold.
    """
    over = threading.Event()

    def work() -> None:
        while not over.wait(every_s):
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
        over.set()
        thread.join()
