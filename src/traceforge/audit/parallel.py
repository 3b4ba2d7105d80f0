"""Run one check over many files, on every core.

Forking costs a few milliseconds, so short lists run in place. A forked worker inherits the tasks and sends back
only outcomes, a chunk at a time. Where a process cannot be forked (Windows, or threads run), all run in place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

WORTH_FORKING = 2_000  # files; about the point where a second core pays for its start
CHUNK = 250  # files a worker takes at a time


class Progress(Protocol):
    """Passes results on and may tell a person how far they are."""

    def __call__(self, outcomes: Iterable[Outcome], total: int) -> Iterable[Outcome]:
        """Yield every outcome, of which there will be `total`."""
        ...


def silent(outcomes: Iterable[Outcome], total: int) -> Iterable[Outcome]:
    """The progress that says nothing."""
    return outcomes


def spread(check: Callable[[Task], Outcome], tasks: Sequence[Task], progress: Progress = silent) -> Iterable[Outcome]:
    """Map `check` over `tasks`, in order."""
    workers = _cores()
    if len(tasks) < WORTH_FORKING or workers < 2 or not hasattr(os, "fork") or threading.active_count() > 1:
        return progress(map(check, tasks), len(tasks))
    return progress(_forked(check, tasks, workers), len(tasks))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _forked(check: Callable[[Task], Outcome], tasks: Sequence[Task], workers: int) -> Iterator[Outcome]:
    from multiprocessing import get_context

    chunks = range(0, len(tasks), CHUNK)
    with get_context("fork").Pool(workers, _Inherited.set, (check, tasks)) as pool:
        for outcomes in pool.imap(_Inherited.run, chunks):
            yield from outcomes


class _Inherited:
    """What a forked worker has from its parent without having it sent."""

    check: Callable[[Any], Any]
    tasks: Sequence[Any]

    @classmethod
    def set(cls, check: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        cls.check, cls.tasks = staticmethod(check), tasks

    @classmethod
    def run(cls, start: int) -> list[Any]:
        return [cls.check(task) for task in cls.tasks[start : start + CHUNK]]
