"""A pytest plugin: a test leaves the environment variables of its process as it found them.

A variable that stays behind changes what the next test of the same worker does, and that test is blamed. The test
that changed it fails instead, and the variable is restored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

# Set once for a whole process, by fixtures of the session and by the first PostgreSQL server; and by pytest itself.
PROCESS_VARIABLES = frozenset({"CI", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"})
_BEFORE_FILE = pytest.StashKey[dict[str, str]]()


@pytest.fixture(autouse=True)
def unchanged_environment() -> Iterator[None]:
    """A test changes nothing that outlives it; fixtures of its file may, until the last test of the file."""
    before = dict(os.environ)
    yield
    fail_if_changed(before, "the test")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Remember the environment before the first test of a file, and its fixtures."""
    find_file(item).stash.setdefault(_BEFORE_FILE, dict(os.environ))
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After the last test of a file, its fixtures have put everything back."""
    yield
    if nextitem is None or find_file(nextitem) is not find_file(item):
        before = find_file(item).stash[_BEFORE_FILE]
        del find_file(item).stash[_BEFORE_FILE]
        fail_if_changed(before, "a fixture of this file")


def find_file(item: pytest.Item) -> pytest.Collector:
    """The file of a test."""
    file = item.getparent(pytest.File)
    assert file is not None
    return file


def fail_if_changed(before: Mapping[str, str], owner: str) -> None:
    """Restore the environment, and fail if that was necessary."""
    changed = find_changed_variables(before, os.environ)
    for name in changed:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    if changed:
        pytest.fail(f"{owner} left other environment variables behind: {', '.join(changed)}", pytrace=False)


def find_changed_variables(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names of variables that were added, removed or changed; never a value, which may be a secret."""
    names = sorted({*before, *after} - PROCESS_VARIABLES)
    return [name for name in names if before.get(name) != after.get(name)]
