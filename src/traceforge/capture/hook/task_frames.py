"""Who waits for this task? A library may make a call in a task of its own, below which no frame is the caller's.

In: the task that is running. Out: the frames of the tasks that wait for it, directly, or through `gather`, `wait`,
`wait_for`, `shield` or a task group. Never: imports asyncio, waits, or changes a task. What is not known to wait for
it, such as a task that hands results over in a queue, is not found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

FRAMES_MAX = 400  # of one task, as in `callsite.py`
TASKS_MAX = 20  # waiting for one another; beyond it, a library is at work that nobody can follow


def root_frame() -> tuple[Any, FrameType | None]:
    """The task that is running in this thread, and its outermost frame; None where there is none to be seen."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return None, None
    task = asyncio.current_task()
    if task is None:
        return None, None
    return task, getattr(task.get_coro(), "cr_frame", None)


def waiting_frames(task: Any) -> Iterator[FrameType]:
    """The frames of those who wait for a task, innermost first; of the nearest first."""
    seen = {id(task)}
    todo = [task]
    while todo and len(seen) <= TASKS_MAX:
        for one in _waiting(todo.pop(0)):
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                todo.append(one)
                yield from _frames(one)


def _waiting(future: Any, depth: int = 4) -> Iterator[Any]:
    """The tasks that are to be woken when a future is done; `gather` and the like have futures in between."""
    for entry in getattr(future, "_callbacks", None) or ():
        for one in _concerned(entry[0] if isinstance(entry, tuple) else entry):
            if hasattr(one, "get_coro"):
                yield one
            elif hasattr(one, "_parent_task"):  # a task group
                yield one._parent_task
            elif hasattr(one, "cancel_scope"):  # a task group of anyio
                yield one.cancel_scope._host_task
            elif one is not future and depth and hasattr(one, "add_done_callback"):
                yield from _waiting(one, depth - 1)


def _concerned(callback: Any) -> Iterator[Any]:
    """What a callback is about: the object it is a method of, and what it was made with."""
    yield getattr(callback, "__self__", None)
    yield from getattr(callback, "args", ())
    for cell in getattr(callback, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _frames(task: Any) -> Iterator[FrameType]:
    """The frames of a task that waits, innermost first."""
    found: list[FrameType] = []
    one = task.get_coro()
    while one is not None and len(found) < FRAMES_MAX:
        frame = _first(one, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            found.append(frame)
        one = _first(one, "cr_await", "gi_yieldfrom", "ag_await")
    return reversed(found)


def _first(one: Any, *names: str) -> Any:
    """Coroutines, generators and async generators have the same under names of their own."""
    return next((found for name in names if (found := getattr(one, name, None)) is not None), None)
