"""How many Hypothesis examples a test run tries: all of them, or a share in the short run of `make test`."""

from __future__ import annotations

SHORT_RUN_DIVISOR, EXAMPLES_MIN = (
    3,
    25,
)  # `make test` tries one in three of the examples of a property, never fewer than 25 of them.


class RunLength:
    """Whether this run is short. `conftest.py` sets it before any test module is imported."""

    is_short = False


def scale_examples(examples: int) -> int:
    """How many of these examples this run tries; `make test-all` tries them all."""
    return min(examples, max(examples // SHORT_RUN_DIVISOR, EXAMPLES_MIN)) if RunLength.is_short else examples
