"""Map a check over many files, on every core.

Forking costs a few milliseconds, so short lists are checked in this process, and so is everything if the process
cannot be forked (on Windows, or with other threads).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from traceforge.terminal import ProgressReporter, no_progress

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

WORTH_FORKING = 2_000  # files, from which a second core saves more than its start costs


def map_in_parallel(
    check: Callable[[Task], Outcome], tasks: Sequence[Task], progress: ProgressReporter = no_progress
) -> Iterable[Outcome]:
    """Map `check` over `tasks`, in order."""
    workers = _count_cores()
    if len(tasks) < WORTH_FORKING or workers < 2 or not hasattr(os, "fork") or threading.active_count() > 1:
        return progress(map(check, tasks), len(tasks))
    from traceforge.audit.forked_map import map_forked  # 1 ms, for pickle

    return progress(map_forked(check, tasks, workers), len(tasks))


def _count_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
