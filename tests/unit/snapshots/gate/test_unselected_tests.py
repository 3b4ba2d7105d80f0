"""`unselected_tests`: which commands ask for all tests of their paths, and which tests did not run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from support.approval_project import Project
from support.sample_files import raw_response_of, snapshot_body
from traceforge.config import load_config
from traceforge.snapshots.approve.tree_commit import SnapshotChange
from traceforge.snapshots.gate.gate_judgement import RunObservations
from traceforge.snapshots.gate.unselected_tests import (
    find_unselected_tests,
    find_whole_paths,
    list_asked_files,
)
from traceforge.snapshots.tree.project_snapshots import open_snapshots

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


@pytest.mark.parametrize(("made", "outcome", "is_found"), [
    (2, "passed", False),
    (3, "passed", False),  # The calls that it makes are counted elsewhere.
    (1, "passed", True),
    (0, "passed", True),
    (2, "skipped", True),
])  # fmt: skip
def test_a_test_in_another_root_makes_as_many_calls_as_were_approved(
    tmp_path: Path, made: int, outcome: str, is_found: bool
) -> None:
    """Else nobody has compared it: a test that no longer makes one of two equal calls."""
    project = Project(tmp_path / "project")
    body = snapshot_body(id="one")
    body["source"]["scopes"] = [{"scope": "tests/test_a.py::test_b", "calls": 2}]
    project.approve(SnapshotChange("openai", "one", body, raw_response_of(body)))
    (project.folder / "tests").mkdir()
    (project.folder / "tests" / "test_a.py").write_text("def test_b(): pass\n")
    snapshots = open_snapshots(load_config(str(project.folder)))
    observations = RunObservations(uses=[("test_a.py::test_b", "one", made)] if made else [])

    found = list(
        find_unselected_tests(snapshots, {"test_a.py::test_b": outcome}, {"tests/test_a.py": False}, observations)
    )

    assert (["tests/test_a.py::test_b"] if is_found else []) == [finding.file for finding in found]


@pytest.mark.parametrize(("words", "uses", "is_found"), [
    (["pytest"], [], True),
    (["pytest"], [("test_a.py::test_b", "one", 1)], False),
    (["pytest", "tests"], [], False),  # A subset, which may make no call at all.
])  # fmt: skip
def test_a_call_of_no_known_test_is_unchecked_if_nothing_is_replayed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    uses: list[tuple[str, str, int]],
    is_found: bool,
) -> None:
    """As that of an imported cassette: its own recorder may still answer in our place."""
    monkeypatch.setenv("CI", "true")
    project = Project(tmp_path / "project")
    body = snapshot_body(id="one")
    body["source"]["scopes"] = [{"scope": "", "calls": 1}]
    project.approve(SnapshotChange("openai", "one", body, raw_response_of(body)))
    snapshots = open_snapshots(load_config(str(project.folder)))
    asked_files = list_asked_files(snapshots, words, str(project.folder))

    findings = list(
        find_unselected_tests(snapshots, {"test_a.py::test_b": "passed"}, asked_files, RunObservations(uses=uses))
    )

    assert (["(the tests)"] if is_found else []) == [finding.file for finding in findings]
