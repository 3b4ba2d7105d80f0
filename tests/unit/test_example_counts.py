"""A short run tries fewer examples of a property, and never next to none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.example_counts import RunLength, scale_examples
from support.json_texts import fuzz


@pytest.mark.parametrize(
    ("is_short", "examples", "expected"),
    [(True, 600, 200), (True, 60, 25), (True, 10, 10), (False, 600, 600), (False, 10, 10)],
)
def test_a_short_run_tries_a_third(
    is_short: bool, examples: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long one tries all of them; where there are few, a short one does too."""
    monkeypatch.setattr(RunLength, "is_short", is_short)
    tried_examples = []

    @fuzz(examples)
    @given(st.integers())
    def count(example: int) -> None:
        tried_examples.append(example)

    count()

    assert (expected, expected) == (scale_examples(examples), len(tried_examples))


def test_a_run_without_the_slow_tests_is_a_short_one(request: pytest.FixtureRequest) -> None:
    """Set in this process before this module was imported."""
    assert RunLength.is_short == ("not slow" in request.config.option.markexpr)
