"""Fixtures for every test; also puts this folder on the path, so that tests can import `support`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from support.node import CanonicalOracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[CanonicalOracle]:
    """Node.js, to ask what it reads and prints."""
    from support.node import CanonicalOracle

    judge = CanonicalOracle()
    yield judge
    judge.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers that tests have recorded as `summary`, also where workers ran them."""
    lines = [
        str(value)
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "summary"
    ]
    if lines:
        terminalreporter.section("numbers")
        for line in sorted(lines):
            terminalreporter.write_line(line)
