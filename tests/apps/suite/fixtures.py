"""The suite in random order, where SHUFFLE is a seed; and fixtures that call models."""

from __future__ import annotations

import os
import random
from typing import Any

import provider_calls
import pytest


def pytest_collection_modifyitems(items: list[Any]) -> None:
    seed = os.environ.get("SHUFFLE")
    if seed:
        random.Random(seed).shuffle(items)


@pytest.fixture(scope="session")
def menu() -> str:
    """Called once in a process, by the first test that needs it."""
    return provider_calls.chat("Write a menu.") + provider_calls.message("Write a menu.")


@pytest.fixture(scope="module")
def guests() -> str:
    return provider_calls.local("Who comes to dinner?")


@pytest.fixture
def wine() -> str:
    """Called by each test."""
    return provider_calls.chat("Which wine?")
