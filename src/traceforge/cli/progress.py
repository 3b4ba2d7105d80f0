"""Progress on a terminal: the last line of the terminal counts, and is erased before other output.

In: how much is completed. Out: a line on standard error, through `terminal`. Never: anything without a terminal, in
CI, or into standard output; nor a line in the first second, unless each item takes that long.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from traceforge.build_environment import is_ci
from traceforge.terminal import print_status

Item = TypeVar("Item")

SHOWN_AFTER_S = 1.0
REPAINTED_AFTER_S = 0.1  # Faster than anybody reads, and the terminal is no part of the work.


class ProgressLine:
    """`checking: 1,200 of 5,000 …`, or without a total `1,200 traces read …`."""

    def __init__(self, label: str, total: int = 0, *, at_once: bool = False) -> None:
        self._label = label
        self._total = total
        self._is_painted = False
        self._next_paint = time.monotonic() + (0 if at_once else SHOWN_AFTER_S) if can_show_progress() else math.inf

    def __enter__(self) -> Self:
        self.update(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def update(self, completed: int) -> None:
        """State how many items are completed; most calls only look at the clock."""
        instant = time.monotonic()
        if instant >= self._next_paint:
            self._next_paint = instant + REPAINTED_AFTER_S
            self._is_painted = True
            counts = (
                f"{self._label}: {completed:,} of {self._total:,}" if self._total else f"{completed:,} {self._label}"
            )
            print_status(f"{counts} …")

    def clear(self) -> None:
        """Erase the line before other output."""
        if self._is_painted:
            self._is_painted = False
            print_status("")


def can_show_progress() -> bool:
    """Whether a person watches: standard error is a terminal that can erase a line, and CI is not set."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not is_ci()


def show_progress(
    items: Iterable[Item], total: int, label: str = "checking", *, at_once: bool = False
) -> Iterable[Item]:
    """Pass items on, and show their count on a terminal; `at_once` where each item may take a second."""
    return _count_items(items, ProgressLine(label, total, at_once=at_once)) if can_show_progress() else items


def _count_items(items: Iterable[Item], line: ProgressLine) -> Iterator[Item]:
    with line:
        for completed, item in enumerate(items, 1):
            line.update(completed)
            yield item
