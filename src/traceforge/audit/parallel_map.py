"""Map a check over many files, on every core.

Forking costs a few milliseconds, so short lists are checked in this process, and so is everything if the process
cannot be forked (on Windows, or with other threads). `multiprocessing` is not used: importing it and sending every
task through a queue takes longer than checking two thousand files. Here a forked worker inherits its share.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

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
    return progress(_map_forked(check, tasks, workers), len(tasks))


def _count_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _map_forked(check: Callable[[Task], Outcome], tasks: Sequence[Task], workers: int) -> Iterator[Outcome]:
    size = -(-len(tasks) // workers)
    shares = [tasks[start : start + size] for start in range(0, len(tasks), size)]
    children = [(_start_worker(check, share), share) for share in shares[1:]]
    yield from map(check, shares[0])
    for (process, pipe), share in children:
        yield from _collect_outcomes(process, pipe) or map(check, share)


def _start_worker(check: Callable[[Task], Outcome], share: Sequence[Task]) -> tuple[int, int]:
    """Fork a worker for one share; it inherits the tasks and writes its outcomes into a pipe."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    try:
        pickle = _import_pickle()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump([check(task) for task in share], pipe, pickle.HIGHEST_PROTOCOL)
        os._exit(0)
    finally:  # After an error this copy must not continue the program; the parent checks the share itself.
        os._exit(1)


def _collect_outcomes(process: int, reading: int) -> list[Any]:
    """The outcomes of a worker; empty if it died."""
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(process, 0)
    outcomes: list[Any] = _import_pickle().loads(data) if status == 0 else []  # Our own fork wrote it.
    return outcomes


def _import_pickle() -> ModuleType:
    """Deferred: 2 ms, which a check of few files saves."""
    import pickle

    return pickle
