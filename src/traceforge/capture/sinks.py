"""Where exchanges go once a call has ended: the one place that decides it.

In: a project's configuration. Out: a sink that is open. Never: known to the edges by any other name than `open_sink`.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from traceforge.capture.engine import Sink
from traceforge.config import Loaded
from traceforge.exchange import Exchange

EXCHANGES_MAX = 10_000  # kept in memory; of more, the oldest go


class OpenSink(Sink, Protocol):
    """A sink that must be closed."""

    recorded: int  # exchanges that were taken and kept
    lost: int  # exchanges that were not

    def close(self, timeout_s: float) -> None:
        """Bring what was taken to where it stays, for at most this long."""
        ...


class MemorySink:
    """Counts exchanges, and keeps the last ones."""

    def __init__(self) -> None:
        self.exchanges: deque[Exchange] = deque(maxlen=EXCHANGES_MAX)
        self.recorded = 0
        self.lost = 0
        self.closed = False

    def take(self, exchange: Exchange) -> None:
        """Keep it, or count it as lost once the sink is closed."""
        if self.closed:
            self.lost += 1
            return
        self.exchanges.append(exchange)
        self.recorded += 1

    def close(self, timeout_s: float) -> None:
        """Nothing is left to do: memory is where it stays."""
        self.closed = True


def open_sink(loaded: Loaded) -> OpenSink:
    """The sink of this project."""
    return MemorySink()
