"""Count executed lines for tests about cost: on a busy machine the time varies, the amount of work does not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

HANG_S = 120.0  # Far beyond any delay of a busy machine: only what waits for ever is still running then.


def count_lines(work: Callable[[], object]) -> int:
    """How many lines of Python `work` executes in this thread. Equal input gives an equal count."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def run_with_deadline(work: Callable[[], Result]) -> Result:
    """The result of `work`, which must not wait for ever.

    Raises:
        AssertionError: `work` still runs after `HANG_S`.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as exc:  # noqa: BLE001 (raised again in the test's own thread)
            errors.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive(), f"still waiting after {HANG_S:.0f} s"
    if errors:
        raise errors[0]
    return results[0]
