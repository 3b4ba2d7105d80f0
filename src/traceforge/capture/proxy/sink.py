"""Where the proxy's exchanges go.

In: the configuration of a project. Out: a sink that can be closed and that counts. Never: loses an exchange without
counting it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from traceforge.capture.engine import Sink
from traceforge.config import Loaded
from traceforge.exchange import Exchange


class ClosableSink(Sink, Protocol):
    """A sink that a process owns from its start to its end."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of the exchanges; `recorded` and `lost` are always there."""
        ...

    def close(self, timeout_s: float) -> None:
        """Write what was taken, and wait at most this long for it."""
        ...


class CountingSink:
    """Counts exchanges and keeps none."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, exchange: Exchange) -> None:
        """Count it."""
        self._taken += 1

    @property
    def counts(self) -> Mapping[str, int]:
        """None is recorded, so each is lost."""
        return {"recorded": 0, "lost": self._taken}

    def close(self, timeout_s: float) -> None:
        """Nothing waits."""


def open_sink(loaded: Loaded) -> ClosableSink:
    """The sink of a project. Opened once in each worker, after it has started."""
    return CountingSink()
