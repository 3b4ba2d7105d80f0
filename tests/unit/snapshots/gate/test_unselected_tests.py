"""`unselected_tests`: which commands ask for all tests of their paths."""

from __future__ import annotations

import os
import shlex

import pytest

from traceforge.snapshots.gate.unselected_tests import find_whole_paths

HERE = os.path.realpath(os.curdir)


@pytest.fixture(autouse=True)
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("pytest", [HERE]),
        ("python -m pytest -q -ra -n2 --cov=src --tb short -p no:cacheprovider", [HERE]),
        ("pytest --cov src", [HERE]),
        ("pytest -c ci.ini --rootdir=. --confcutdir . --ff -xvv tests", [f"{HERE}/tests"]),
        ("pytest --cov --cov-branch tests", [f"{HERE}/tests"]),
        ("uv run pytest tests --junitxml out.xml", [f"{HERE}/tests"]),
        ("pytest -x --maxfail=1 tests/a.py b", [f"{HERE}/tests/a.py", f"{HERE}/b"]),
    ],
)
def test_a_command_that_asks_for_everything(command: str, paths: list[str]) -> None:
    assert paths == find_whole_paths(shlex.split(command), os.curdir)


@pytest.mark.parametrize(
    "command",
    [
        "python agent.py",
        "make test",
        "pytest -k chat",
        "pytest -m 'not slow'",
        "pytest tests/a.py::test_b",
        "pytest --splits 3 --group 1",
        "pytest --lf",
        "pytest -o python_files=a*.py",
        "pytest -xk chat",
        "pytest --deselect a::b",
        "pytest -p testmon",
    ],
)
def test_a_command_that_may_choose_tests_is_not_judged(command: str) -> None:
    """Also by an option that nobody knows here."""
    assert find_whole_paths(shlex.split(command), os.curdir) is None


def test_options_of_the_environment_count_as_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k chat")

    assert find_whole_paths(["pytest"], os.curdir) is None


def test_paths_are_those_of_the_folder_in_which_the_command_runs() -> None:
    """A test may have left it by the time it is asked."""
    assert ["/no/project/tests"] == find_whole_paths(["pytest", "tests"], "/no/project")
    assert ["/no/project"] == find_whole_paths(["pytest"], "/no/project")
