"""What `traceforge init` writes, and what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from traceforge.config import load_config
from traceforge.errors import CannotWrite
from traceforge.project_setup import _ignores, _to_ignore, prepare


def test_each_step_is_done_before_it_is_reported(tmp_path: Path) -> None:
    """A caller that stops reading the steps stops the work."""
    steps = prepare(str(tmp_path))

    assert "wrote     traceforge.config.json" == next(steps)
    assert ["traceforge.config.json"] == os.listdir(tmp_path)
    assert "wrote     .gitignore: .ai-tests/" == next(steps)
    assert next(steps).startswith("wrote     .gitattributes: .ai-snapshots/** -text, ")
    assert {"traceforge.config.json", ".gitignore", ".gitattributes"} == set(os.listdir(tmp_path))


@pytest.mark.parametrize(
    ("traces_dir", "expected"),
    [
        (".ai-tests/traces", [".ai-tests/"]),
        (".ai-tests", [".ai-tests/"]),
        ("var/traces/", [".ai-tests/", "/var/traces/"]),
        ("./var/../calls", [".ai-tests/", "/calls/"]),
        (".ai-tests-2", [".ai-tests/", "/.ai-tests-2/"]),
        ("what?*", [".ai-tests/", "/what\\?\\*/"]),
        ("../outside", [".ai-tests/"]),
        ("/var/lib/traces", [".ai-tests/"]),
        (".", [".ai-tests/"]),
    ],
)
def test_a_traces_folder_of_its_own_is_ignored_too(tmp_path: Path, traces_dir: str, expected: list[str]) -> None:
    """Where it is below the project; the project itself is never ignored as a whole."""
    (tmp_path / "traceforge.config.json").write_text("{}")

    assert expected == _to_ignore(load_config(str(tmp_path), {"TRACEFORGE_TRACES_DIR": traces_dir}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("x\n.ai-tests", True),
        (" .ai-tests/", False),
        ("!.ai-tests/\n.ai-tests/", True),
        (".ai-tests/\n!/.ai-tests", False),
        ("#.ai-tests/", False),
        ("*.ai-tests/", False),
        (".ai-tests/traces/", False),
        ("a/**/.ai-tests/", False),
    ],
)
def test_the_last_line_about_a_name_counts(text: str, expected: bool) -> None:
    """As Git reads it: spaces in front belong to a name, and ! takes it back."""
    assert expected is _ignores(text, ".ai-tests/")


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """No step is reported that was not done."""
    (tmp_path / ".ai-tests").write_text("a file where the folder should be")
    steps = prepare(str(tmp_path))
    next(steps)
    next(steps)
    next(steps)

    with pytest.raises(CannotWrite):
        next(steps)
