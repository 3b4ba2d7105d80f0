"""A queue of items that wait to be worked on, up to a number of bytes.

In: items and their sizes, from any thread. Out: the same, oldest first. Never: makes a producer wait: an item that
does not fit is lost, and counted.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Items that wait; `bytes_max` is the limit of their sizes together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, Item]] = deque()
        self._lock = threading.Lock()
        self._has_items = threading.Event()
        self.bytes = 0
        self.accepted = 0  # lost ones included
        self.lost = 0

    def put(self, item: Item, size: int) -> None:
        """Add an item, or count it as lost."""
        with self._lock:
            self.accepted += 1
            if self.bytes + size > self._bytes_max:
                self.lost += 1
                return
            self.bytes += size
            self._waiting.append((size, item))
        if not self._has_items.is_set():
            self._has_items.set()

    def get(self, timeout: float, bytes_max: int) -> list[Item]:
        """Take some items, oldest first; none where none came in time, or `wake` was called."""
        self._has_items.wait(timeout)
        batch: list[Item] = []
        room = bytes_max
        with self._lock:
            while self._waiting and room > 0:
                size, item = self._waiting.popleft()
                room -= size
                self.bytes -= size
                batch.append(item)
            if not self._waiting:
                self._has_items.clear()
        return batch

    def wake(self) -> None:
        """Have `get` return at once."""
        self._has_items.set()

    def discard_all(self) -> None:
        """Count everything that waits as lost."""
        with self._lock:
            self.lost += len(self._waiting)
            self._waiting.clear()
            self.bytes = 0
