"""How many Hypothesis examples a test run tries: all of them, or a share in the short run of `make test`."""

from __future__ import annotations

SHORT_RUN_DIVISOR, EXAMPLES_MIN = (
    3,
    25,
)  # `make test` tries one in three of the examples of a property, never fewer than 25 of them.


class RunLength:
    """Of this run. `conftest.py` says so before any test is read."""

    is_short = False


def scale_examples(examples: int) -> int:
    """How many of so many examples this run tries: `make test-all` each of them."""
    return min(examples, max(examples // SHORT_RUN_DIVISOR, EXAMPLES_MIN)) if RunLength.is_short else examples
