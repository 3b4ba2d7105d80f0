"""`cli/output.py`: what a command prints as JSON."""

from __future__ import annotations

import pytest

from traceforge.cli.output import print_json


def test_json_output_shows_all_digits_of_an_integer(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A diff of two seeds that differ in the last digit does not show the same number twice."""
    print_json({"before": 2**53, "after": 2**53 + 1})

    assert b'{\n  "before": 9007199254740992,\n  "after": 9007199254740993\n}\n' == capfdbinary.readouterr().out
