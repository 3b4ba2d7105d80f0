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
BEAT_S = 5.0  # How often it says something; so often it also learns that somebody has ended its work.

_made: tuple[int, str] = (0, "")


def owner() -> str:
    """The name of this process, which no other has."""
    global _made  # noqa: PLW0603 (one name for each process; a forked child has another)
    if _made[0] != os.getpid():
        _made = os.getpid(), f"{os.getpid()}-{uuid4()}"
    return _made[1]


def until(seconds: float = LEASE_S) -> str:
    """The end of a lease that begins now."""
    return timestamp_text(now() + timedelta(seconds=seconds))


def before(seconds: float) -> str:
    """So long ago."""
    return timestamp_text(now() - timedelta(seconds=seconds))


@contextmanager
def beating(beat: Callable[[], bool], lost: Callable[[], object], every_s: float = BEAT_S) -> Iterator[None]:
    """Call `beat` again and again while the block runs; where it says False, the work is somebody else's: `lost`.

    A database that cannot be reached for a while is no reason to stop: the lease may still hold.
    """
    over = threading.Event()

    def work() -> None:
        while not over.wait(every_s):
            try:
                if beat():
                    continue
            except StoreUnavailable:
                continue
            lost()
            return

    thread = threading.Thread(target=work, name="traceforge-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
