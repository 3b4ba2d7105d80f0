"""The fixtures of the desk."""

import desk
import pytest


@pytest.fixture(scope="session")
def greeting():
    """A call that is made once in each worker."""
    return desk.ask("Greet the customer.")


@pytest.fixture(scope="module")
def opening_hours():
    """A call that is made once in a module."""
    return desk.ask("When are you open?")
