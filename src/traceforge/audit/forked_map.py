"""Map a check over many files in forked processes.

`multiprocessing` is not used: importing it and sending every task through a queue takes longer than checking two
thousand files. Here a forked worker inherits its share.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def map_forked(check: Callable[[Task], Outcome], tasks: Sequence[Task], workers: int) -> Iterator[Outcome]:
    """Map `check` over `tasks`, in order, in this process and `workers - 1` forked ones."""
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
    outcomes: list[Any] = pickle.loads(data) if status == 0 else []  # noqa: S301 (our own fork wrote it)
    return outcomes
