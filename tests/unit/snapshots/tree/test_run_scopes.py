"""Tests that are there no more, and the command that runs only those that failed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from traceforge.snapshots.tree.run_scopes import (
    TESTS_LENGTH_MAX,
    RunScopes,
    find_renamed_tests,
    find_scope_file,
    narrow_command,
)


@pytest.mark.parametrize(
    ("scope", "is_removed"),
    [
        ("tests/test_a.py::test_one", False),  # it ran
        ("tests/test_a.py::test_two", False),  # it is there
        ("tests/test_a.py::TestB::test_two[x-1]", False),
        ("tests/test_a.py::test_two[std::vector]", False),
        ("tests/test_a.py::test_tw", True),  # renamed
        ("tests/test_old.py::test_one", True),  # its file went; others of its folder ran
        ("elsewhere/test_old.py::test_one", False),  # nobody can say
        ("", False),
    ],
)
def test_a_test_counts_as_removed_only_if_that_is_certain(tmp_path: Path, scope: str, is_removed: bool) -> None:
    """By its file, and its name in it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_one(): ...\ndef test_two(): ...\n")

    assert is_removed == RunScopes({"tests/test_a.py::test_one", ""}, [str(tmp_path)]).is_removed(scope)


@pytest.mark.parametrize(
    ("command", "failed", "narrowed"),
    [
        ("pytest", ["a.py::t"], "pytest a.py::t"),
        ("python -m pytest -q .", ["a.py::t", "b.py::t[x y]"], "python -m pytest -q a.py::t 'b.py::t[x y]'"),
        ("pytest a.py", [f"a.py::t{n:040}" for n in range(90)], "pytest a.py"),
        ("pytest -q", [f"{name}.py::t[{n:040}]" for n in range(90) for name in "ba"], "pytest -q b.py a.py"),
        ("pytest -q .", [f"folder/{n:040}.py::t" for n in range(9)], "pytest -q ."),
        ("pytest -c a.py --ignore b.py -k t b.py", ["b.py::t"], "pytest -c a.py --ignore b.py -k t b.py::t"),
        ("pytest", ["a.py::t[[REDACTED]]", "a.py::t[[REDACTED]-2]", "b.py::t[x]"], "pytest a.py::t 'b.py::t[x]'"),
        ("pytest", ["elsewhere/a.py::t"], "pytest"),
        ("python agent.py", [], "python agent.py"),
        ("tox run", ["a.py::t"], "tox run"),
    ],
)
def test_the_command_to_copy_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, failed: list[str], narrowed: str
) -> None:
    """Node ids; where they are long, files; where those are long, or not found, the command as it was."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("a.py", "b.py", *(f"folder/{n:040}.py" for n in range(9))):
        (tmp_path / name).touch()

    result = shlex.join(narrow_command(shlex.split(command), failed))

    assert narrowed == result
    assert len(result) <= len(command) + TESTS_LENGTH_MAX + 1


@pytest.mark.parametrize(
    ("scope", "file"),
    [
        ("tests/test_a.py::TestA::test_b[x::y]", "tests/test_a.py"),
        ("@ import of tests/test_a.py", "tests/test_a.py"),
        ("@ session fixture tests/menu::menu", "tests/menu"),
        ("@ session fixture tests::menu[a cup of tea]", "tests"),
        ("@ module fixture tests::menu[a b] of tests/test_a.py", "tests/test_a.py"),
        ("@ class fixture tests/test_a.py::TestA::menu", "tests/test_a.py"),
        ("@ session fixture menu", ""),
        ("@ start of pytest", ""),
    ],
)
def test_the_file_of_a_scope_is_that_of_its_test_or_fixture(scope: str, file: str) -> None:
    """The value of a parametrised fixture may contain any words."""
    assert file == find_scope_file(scope)


@pytest.mark.parametrize(
    ("approved", "ran", "renamed"),
    [
        (["tests/test_a.py::test_b"], ["test_a.py::test_b"], {"tests/test_a.py::test_b": "test_a.py::test_b"}),
        (["a.py::T::test_b[1]"], ["x/y/a.py::T::test_b[1]"], {"a.py::T::test_b[1]": "x/y/a.py::T::test_b[1]"}),
        (["test_a.py::test_b"], ["::test_b"], {"test_a.py::test_b": "::test_b"}),  # the root is another folder
        (["test_a.py::test_b", "test_c.py::test_b"], ["::test_b"], {}),
        (["tests/test_a.py::test_b"], ["test_a.py::test_c"], {}),  # another test
        (["tests/test_a.py::test_b"], ["a.py::test_b"], {}),  # another file
        (["tests/test_a.py::test_b"], ["tests/test_a.py::test_b", "test_a.py::test_b"], {}),  # it ran itself
        (["tests/test_a.py::test_b", "test_a.py::test_b"], ["test_a.py::test_b"], {}),
        (["test_a.py::test_b"], ["x/test_a.py::test_b", "y/test_a.py::test_b"], {}),  # nobody can say which
        (["x/test_a.py::test_b", "y/test_a.py::test_b"], ["test_a.py::test_b"], {}),
        (["@ session fixture tests::menu"], ["@ session fixture menu"], {}),
    ],
)  # fmt: skip
def test_a_test_is_known_by_its_name_in_another_root(
    approved: list[str], ran: list[str], renamed: dict[str, str]
) -> None:
    """If its file is the same, below or above the root of before, and no other test could be meant."""
    assert renamed == find_renamed_tests(approved, ran)
