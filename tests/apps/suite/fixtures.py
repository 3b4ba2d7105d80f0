"""The suite in an order of its own, where SHUFFLE is a number; and fixtures that ask."""

from __future__ import annotations

import os
import random
from typing import Any

import asking
import pytest


def pytest_collection_modifyitems(items: list[Any]) -> None:
    seed = os.environ.get("SHUFFLE")
    if seed:
        random.Random(seed).shuffle(items)


@pytest.fixture(scope="session")
def menu() -> str:
    """Asked once in a process, by whichever test comes first."""
    return asking.chat("Write a menu.") + asking.message("Write a menu.")


@pytest.fixture(scope="module")
def guests() -> str:
    return asking.local("Who comes to dinner?")


@pytest.fixture
def wine() -> str:
    """Asked anew by each test."""
    return asking.chat("Which wine?")
