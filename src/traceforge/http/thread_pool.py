"""Runs blocking work in threads, for servers whose event loop must not wait.

Work that arrives while all threads are busy is started in the order in which it came. Unlike those of
`concurrent.futures`, the threads do not keep the process from ending, and work whose caller was cancelled while it
waited is never started, nor kept in memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


class ThreadPool:
    """At most `threads_max` threads, started when they are needed. Used from one event loop."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._queue: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0  # Jobs; changed on the loop's thread only.
        self._is_closed = False

    @property
    def threads(self) -> int:
        """How many threads were started."""
        return len(self._threads)

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """What `work` returns or raises, in a thread, within the caller's context variables.

        Work that has started goes on when the caller is cancelled: the caller must be able to end it.
        """
        if self._is_closed:
            raise RuntimeError("the thread pool is closed")
        job = _Job(work, asyncio.get_running_loop())
        del work  # The traceback of a cancellation refers to this frame.
        if self._unfinished >= len(self._threads) < self._threads_max:
            self._start_thread()
        self._unfinished += 1
        self._queue.put(job)
        try:
            return await job.future
        finally:
            job.work = None  # If it has not started, it never will.

    def close(self) -> None:
        """Finish the work that was given, and take no more."""
        self._is_closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run_jobs, name=f"{self._name}_{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run_jobs(self) -> None:
        while (job := self._queue.get()) is not None:
            self._run_job(job)
            del job  # Otherwise the frame would hold its arguments until the next job comes.

    def _run_job(self, job: _Job[Any]) -> None:
        result, error = None, None
        if (work := job.work) is not None:
            try:
                result = job.context.run(work)
            except BaseException as exc:  # noqa: BLE001 (the caller gets it)
                error = exc
        try:  # noqa: SIM105 (a context manager would hold `error` a little longer)
            job.loop.call_soon_threadsafe(self._finish, job.future, result, error)
        except RuntimeError:
            pass  # The loop has ended: no caller waits.
        error = None  # Its traceback refers to this frame, and so to the job.

    def _finish(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        self._unfinished -= 1
        if future.done():
            return  # The caller was cancelled.
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class _Job(Generic[ResultT]):
    """A piece of work, and the caller that waits for its result."""

    __slots__ = ("context", "future", "loop", "work")

    def __init__(self, work: Callable[[], ResultT], loop: asyncio.AbstractEventLoop) -> None:
        self.work: Callable[[], ResultT] | None = work
        self.context: Context = copy_context()
        self.loop = loop
        self.future: asyncio.Future[ResultT] = loop.create_future()
