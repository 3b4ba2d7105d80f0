"""What all servers share while they run: an event loop, and stop signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None
try:
    from uvloop import new_event_loop as _new_event_loop
except ImportError:  # Windows has none.
    _new_event_loop = None

Result = TypeVar("Result")


def run_event_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run on uvloop where it is installed, otherwise on asyncio's own loop."""
    with asyncio.Runner(loop_factory=_new_event_loop) as runner:
        return runner.run(main)


def set_on_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Set `stop` at the first SIGTERM or SIGINT and `hurry` at the second.

    Windows loops take no signal handlers: there Ctrl-C arrives as a cancellation.
    """

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    if os.name != "nt":
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
