"""The frames of tasks that wait for a task: a library may make a call in a task of its own, below which no frame is
the application's.

In: the task that is running. Out: the frames of the tasks that wait for it, directly, or through `gather`, `wait`,
`wait_for`, `shield` or a task group. Never: imports asyncio, waits, or changes a task. What is not known to wait for
it, such as a task that hands results over in a queue, is not found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .worker_thread import running_loop

FRAMES_MAX = 400  # of one task, as in `callsite.py`
TASKS_MAX = 20  # that wait for one another


def root_frame() -> tuple[Any, FrameType | None]:
    """The task that is running in this thread, and its outermost frame; None if no task is running."""
    if running_loop() is None:
        return None, None
    task = sys.modules["asyncio"].current_task()
    if task is None:
        return None, None
    return task, getattr(task.get_coro(), "cr_frame", None)


def waiting_frames(task: Any) -> Iterator[FrameType]:
    """The frames of the tasks that wait for a task: the nearest task first, and of each the innermost frame first."""
    visited = {id(task)}
    queue = [task]
    while queue and len(visited) <= TASKS_MAX:
        for waiter in _waiting_tasks(queue.pop(0)):
            if waiter is not None and id(waiter) not in visited:
                visited.add(id(waiter))
                queue.append(waiter)
                yield from _frames_of(waiter)


def _waiting_tasks(future: Any, depth: int = 4) -> Iterator[Any]:
    """The tasks that are woken when a future is done; `gather` and the like have futures in between."""
    for entry in getattr(future, "_callbacks", None) or ():
        for target in _callback_targets(entry[0] if isinstance(entry, tuple) else entry):
            if hasattr(target, "get_coro"):
                yield target
            elif hasattr(target, "_parent_task"):  # a task group
                yield target._parent_task
            elif hasattr(target, "cancel_scope"):  # a task group of anyio
                yield target.cancel_scope._host_task
            elif target is not future and depth and hasattr(target, "add_done_callback"):
                yield from _waiting_tasks(target, depth - 1)


def _callback_targets(callback: Any) -> Iterator[Any]:
    """The object that a callback is a method of, its bound arguments, and the variables that it closes over."""
    yield getattr(callback, "__self__", None)
    yield from getattr(callback, "args", ())
    for cell in getattr(callback, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _frames_of(task: Any) -> Iterator[FrameType]:
    """The frames of a task that waits, innermost first."""
    frames: list[FrameType] = []
    awaitable = task.get_coro()
    while awaitable is not None and len(frames) < FRAMES_MAX:
        frame = _first_attribute(awaitable, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            frames.append(frame)
        awaitable = _first_attribute(awaitable, "cr_await", "gi_yieldfrom", "ag_await")
    return reversed(frames)


def _first_attribute(awaitable: Any, *names: str) -> Any:
    """Coroutines, generators and async generators have the same under names of their own."""
    return next((value for name in names if (value := getattr(awaitable, name, None)) is not None), None)
