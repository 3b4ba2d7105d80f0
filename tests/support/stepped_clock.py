"""A clock that stands still until a module under test waits: what was waited for is compared, and nobody waits."""

from __future__ import annotations

import threading


class SteppedClock:
    """Takes the place of the module `time` in a module under test."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._now = 1000.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self._now += seconds


class SteppedEvent(threading.Event):
    """An event that nobody sets while somebody waits for it: a wait takes its whole time, on the clock."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            assert timeout is not None, "it would wait for ever"
            self._clock.sleep(timeout)
        return self.is_set()
