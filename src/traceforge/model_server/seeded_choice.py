"""Choices that look random but follow from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededChoices:
    """The same seed gives the same choices, on every machine."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        self._count += 1
        digest = hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()
        return low + int.from_bytes(digest, "big") % (high - low + 1)

    def choose(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]
