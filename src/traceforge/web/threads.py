"""Threads for what waits for a database or a model.

In: work, from the loop. Out: what it returns or raises, on the loop. Never: more threads than it was told, or work
that nobody waits for any more where it has not begun.

What comes while all threads are at work waits, and is begun in the order in which it came. A request crosses to a
thread and back, so the way is as short as it can be: one queue there, one call to the loop back, and no lock of ours.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Threads:
    """So many threads at most; they are started when they are needed, and kept. Used from one loop."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._jobs = 0  # Given and not yet back; only the loop's thread counts.
        self._closed = False

    async def run(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (whatever it gives)
        """What `work` returns or raises."""
        if self._closed:
            raise RuntimeError("no more work is taken")
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if self._jobs >= len(self._threads) < self._most:
            self._start()
        self._jobs += 1
        self._queue.put(_Job(work, future, loop))
        return await future

    def close(self) -> None:
        """No more work; what was given is done first."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for one in self._threads:
            one.join()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            self._do(job)
            del job  # What was said in it is not kept until the next one comes.

    def _do(self, job: _Job) -> None:
        made, failure = None, None
        if not job.future.cancelled():
            try:
                made = job.work()
            except BaseException as exc:  # noqa: BLE001 (it is the caller's)
                failure = exc
        try:  # noqa: SIM105 (one object less on the way back)
            job.loop.call_soon_threadsafe(self._back, job.future, made, failure)
        except RuntimeError:
            pass  # The loop has ended, and nobody waits.
        failure = None  # Its traceback holds this frame, and with it what was asked.

    def _back(self, future: asyncio.Future[Any], made: Any, failure: BaseException | None) -> None:  # noqa: ANN401
        self._jobs -= 1
        if future.done():
            return  # Nobody waits.
        if failure is None:
            future.set_result(made)
        else:
            future.set_exception(failure)
