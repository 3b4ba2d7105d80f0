"""Tests that are there no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceforge.snapshots.tree.run_scopes import RunScopes


@pytest.mark.parametrize(
    ("scope", "is_removed"),
    [
        ("tests/test_a.py::test_one", False),  # it ran
        ("tests/test_a.py::test_two", False),  # it is there
        ("tests/test_a.py::TestB::test_two[x-1]", False),
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
