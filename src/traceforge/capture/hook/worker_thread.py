"""A worker thread for functions that may block, so that an event loop does not wait for them.

In: a function that may block (a lookup in files, a query to the parent process), from a coroutine. Out: its result;
the loop goes on meanwhile. Never: runs two functions at the same time, or in another order than they came: identical
requests get their responses in the order of the calls.

The thread exists only while something waits, so that a process that forks has no thread because of us.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def running_loop() -> Any:
    """The event loop of asyncio that runs in this thread; None where there is none. Imports nothing."""
    # Another thread may be importing it: then it has no functions yet.
    get_running_loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return None if get_running_loop is None else get_running_loop()


async def run_in_worker(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in the worker thread, and return its result.

    In a coroutine that asyncio does not run, such as one of trio, it is called at once, in this thread.
    """
    loop = running_loop()
    if loop is None or _is_of_another_library():
        return function(*args)
    future = loop.create_future()

    def work() -> None:
        try:
            result, error = function(*args), None
        except BaseException as exc:  # noqa: BLE001 (it is raised in the coroutine that waits)
            result, error = None, exc
        with suppress(RuntimeError):  # The loop is closed: nobody waits.
            loop.call_soon_threadsafe(_resolve, future, result, error)

    _worker.add(work)
    return await future


def _is_of_another_library() -> bool:
    """Whether another library runs this coroutine, inside a loop of asyncio: `trio.run` in a notebook, or as a guest.

    It cannot wait for a future of asyncio. Such libraries say who they are in sniffio.
    """
    sniffio = sys.modules.get("sniffio")
    try:
        return sniffio is not None and sniffio.current_async_library() != "asyncio"
    except Exception:  # noqa: BLE001 (it finds none, or is being imported)
        return False


def submit_to_worker(function: Callable[[], object]) -> None:
    """Call a function in the worker thread, after those that wait already. It must not raise."""
    _worker.add(function)


def _resolve(future: Any, result: Any, error: BaseException | None) -> None:
    if future.done():  # The coroutine that waited for it was cancelled.
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Worker:
    """Calls functions, one after the other, in a thread that ends when none waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_running = False

    def add(self, function: Callable[[], object]) -> None:
        with self._lock:
            self._waiting.append(function)
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._run, name="traceforge-replay", daemon=True).start()
        except RuntimeError:  # No thread can be started, for example while the interpreter shuts down.
            self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                function = self._waiting.popleft()
            function()


_worker = _Worker()


def _reset_in_child() -> None:
    """The waiting functions, and the thread, belong to the parent process."""
    global _worker  # noqa: PLW0603 (one for the process)
    _worker = _Worker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
