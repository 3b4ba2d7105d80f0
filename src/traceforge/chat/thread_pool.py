"""Threads for what would make the loop wait.

In: work that blocks. Out: what it returns, on the loop. Never: more threads than it was told, or work that nobody
waits for any more where it has not begun; and no thread of it keeps the process from ending.

What comes while all threads are busy waits, and is begun in the order in which it came.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


class Workers:
    """So many threads at most; they are started when they are needed, and kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ready = threading.Condition()
        self._waiting: deque[_Job[Any]] = deque()
        self._idle = 0
        self.threads = 0

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """What `work` returns or raises, in a thread, within the context of the caller.

        Where the caller is cancelled, work that has not begun is never begun. Work that has goes on: who gave it
        must be able to end it.
        """
        job = _Job(work, copy_context(), asyncio.get_running_loop())
        self._put(job)
        try:
            return await job.future
        finally:
            self._drop(job)

    def _put(self, job: _Job[Any]) -> None:
        with self._ready:
            self._waiting.append(job)
            if self._idle >= len(self._waiting) or self.threads == self._most:
                self._ready.notify()
                return
            self.threads += 1
        threading.Thread(target=self._work, name="traceforge-chat", daemon=True).start()

    def _drop(self, job: _Job[Any]) -> None:
        with self._ready, suppress(ValueError):  # It was begun.
            self._waiting.remove(job)

    def _work(self) -> None:
        while True:
            with self._ready:
                self._idle += 1
                while not self._waiting:
                    self._ready.wait()
                self._idle -= 1
                job = self._waiting.popleft()
            job.do()
            del job  # What was said in it is not kept until the next one comes.


class _Job(Generic[ResultT]):
    """One piece of work, and who waits for it."""

    def __init__(self, work: Callable[[], ResultT], context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._context = context
        self._loop = loop
        self.future: asyncio.Future[ResultT] = loop.create_future()

    def do(self) -> None:
        """Do it, and tell the loop."""
        try:
            result = self._context.run(self._work)
        except BaseException as exc:  # noqa: BLE001 (it is the caller's)
            self._tell(self.future.set_exception, exc)
        else:
            self._tell(self.future.set_result, result)

    def _tell(self, settle: Callable[[Any], object], value: object) -> None:
        with suppress(RuntimeError):  # The loop has ended, and nobody waits.
            self._loop.call_soon_threadsafe(lambda: None if self.future.done() else settle(value))
