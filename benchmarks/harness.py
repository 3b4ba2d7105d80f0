"""Measure ours and a peer side by side, in one run, alternating.

The machine is noisy, so an absolute number means nothing: every row is a ratio between ours and a peer that ran at
the same time. A peer that cannot run is an error, never a row left out.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

QUICK = "TRACEFORGE_BENCH_QUICK"  # Set by `run.py --quick`: fewer rounds, and shorter loads.

Work = Callable[[], object]
Clock = Callable[[], float]


class Row(NamedTuple):
    """One comparison."""

    title: str
    ours: float  # seconds
    peer: float  # seconds
    peer_name: str
    speed: float  # how many times as fast as the peer: above 1 is faster
    goal: str
    met: bool

    def text(self) -> str:
        """The row, ready to print."""
        times = f"{_time(self.ours)} against {_time(self.peer)} ({self.peer_name})"
        verdict = "ok" if self.met else "MISSED"
        return f"  {self.title:<46} {times:<62} {self.goal:<28} {verdict}"


class GoalRow(Row):
    """A row without a peer: a score, or a speed with an absolute goal."""

    def text(self) -> str:
        """The row as it is printed."""
        return f"  {self.title:<46} {self.peer_name:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


class Note(NamedTuple):
    """A line between the rows; `met` is False where something did not run."""

    line: str
    met: bool = True

    def text(self) -> str:
        """The line, ready to print."""
        return f"  {self.line}" if self.met else f"  {self.line}  DID NOT RUN"


def at_least(
    title: str, ours: Work, peer: Work, *, peer_name: str, goal: float, rounds: int = 15, loops: int = 1
) -> Row:
    """Ours must do at least `goal` times as much work a second as the peer."""
    mine, theirs = measure(ours, peer, rounds, loops, time.process_time)
    speed = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
    result = f"{speed:.2f}x as fast, goal {goal:g}x"
    return Row(title, min(mine), min(theirs), peer_name, speed, result, speed >= goal)


def at_most(title: str, ours: Work, peer: Work, *, peer_name: str, goal: float, rounds: int = 15) -> Row:
    """Ours must take at most `goal` times as long as the peer, in wall-clock time."""
    mine, theirs = measure(ours, peer, rounds, 1, time.perf_counter)
    cost = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    result = f"{cost:.2f}x the time, goal {goal:g}x"
    return Row(title, min(mine), min(theirs), peer_name, 1 / cost, result, cost <= goal)


def measure(ours: Work, peer: Work, rounds: int, loops: int, clock: Clock) -> tuple[list[float], list[float]]:
    """Seconds a call of each, alternating round by round; a first round warms up and does not count."""
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(rounds + 1):
        for work, times in ((ours, mine), (peer, theirs)):
            start = clock()
            for _ in range(loops):
                work()
            if number:
                times.append((clock() - start) / loops)
    return mine, theirs


def is_quick() -> bool:
    """Whether a rough result is enough: `run.py --quick`."""
    return bool(os.environ.get(QUICK))


def run(command: list[str]) -> None:
    """Run a command that must succeed, without its output."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"benchmark: {command[0]} did not run (exit {result.returncode}): {result.stderr.strip()}")


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
