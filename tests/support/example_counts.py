"""How many Hypothesis examples a test run tries: all of them, or a share in the short run of `make test`."""

from __future__ import annotations

ONE_IN, FEW = 3, 25  # `make test` tries one in three of the examples of a property, never fewer than 25 of them.


class Length:
    """Of this run. `conftest.py` says so before any test is read."""

    is_short = False


def tried(examples: int) -> int:
    """How many of so many examples this run tries: `make test-all` each of them."""
    return min(examples, max(examples // ONE_IN, FEW)) if Length.is_short else examples
