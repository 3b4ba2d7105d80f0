"""How much a test run tries: a share in the short run of `make test`, a hundred times as much in `make soak`."""

from __future__ import annotations

import functools
import gc
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from hypothesis import seed

# `make test` tries one in ten of the examples of a property, never fewer than 10 of them.
SHORT_RUN_DIVISOR, EXAMPLES_MIN = 10, 10
FUZZ_SECONDS_MAX = 20  # for one fuzzer in `make test-all`; its hour is in `make soak`
SOAK_FACTOR = int(os.environ.get("SOAK_FACTOR", "100"))  # Smaller for a try, larger for a weekend.
SEED = int(os.environ.get("SEED") or time.time())  # `make soak` prints it. Each round of a fuzzer adds its number.


class RunLength:
    """How long this run is. `conftest.py` sets it before any test module is imported."""

    is_short = False
    is_soak = False

    @classmethod
    def set_by_marks(cls, expression: str) -> None:
        """Without the slow tests, the others are shorter too; a run that selects `soak` or `fuzz` is a soak."""
        cls.is_short = "not slow" in expression
        cls.is_soak = re.search(r"(?<!not )\b(soak|fuzz)\b", expression) is not None


def scale_examples(examples: int) -> int:
    """How many of these examples this run tries; `make test-all` tries them all, `make soak` again and again."""
    return min(examples, max(examples // SHORT_RUN_DIVISOR, EXAMPLES_MIN)) if RunLength.is_short else examples


def lengthen(number: int) -> int:
    """Multiply the number in a soak; every other run takes it as it is."""
    return number * SOAK_FACTOR if RunLength.is_soak else number


def seeded_rounds(rounds: int, first: int = 0) -> Iterator[tuple[int, random.Random]]:
    """Number the rounds, each with its own random source; a failed test prints which one it was in."""
    for number in range(first, first + rounds):
        print(f"round {number}")  # noqa: T201
        yield number, random.Random(number)


def fuzz_seeds() -> Iterator[int]:
    """A seed for each round of a fuzzer. `SEED=N SOAK_FACTOR=1` repeats the last one that a failed test prints."""
    for number in range(lengthen(1)):
        print(f"SEED={SEED + number}")  # noqa: T201
        yield SEED + number


def fuzz_seconds(minutes: int) -> int:
    """How long this run tries a property that has so many minutes in `make soak`."""
    return minutes * 60 if RunLength.is_soak else min(minutes, FUZZ_SECONDS_MAX)


def fuzz_seeds_for(seconds: float) -> Iterator[int]:
    """A seed for each round of a fuzzer that runs for so long; at least one. `FUZZ_SECONDS=0` gives one round."""
    end = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", seconds))
    for number in count(SEED):
        print(f"SEED={number}")  # noqa: T201
        yield number
        if time.monotonic() >= end:
            return


def repeat_with_seeds(
    test: Callable[..., None], list_seeds: Callable[[], Iterable[int]] = fuzz_seeds
) -> Callable[..., None]:
    """Run a property once for each seed.

    More examples in one run would not do: Hypothesis keeps about 100 KB of each until the run ends, and then leaves
    it to the garbage collector. Frozen, the thousands of collected tests do not make each collection slow.
    """

    @functools.wraps(test)
    def repeat(**arguments: object) -> None:
        gc.freeze()
        for number in list_seeds():
            seed(number)(test)(**arguments)
            gc.collect()
        gc.unfreeze()

    return repeat
