"""Choices that look random and are not: a stream of numbers made from a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """The same seed gives the same choices, on every machine."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._thrown = 0

    def number(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        self._thrown += 1
        digest = hashlib.sha256(f"{self._seed}/{self._thrown}".encode()).digest()
        return low + int.from_bytes(digest, "big") % (high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.number(0, len(options) - 1)]
