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
