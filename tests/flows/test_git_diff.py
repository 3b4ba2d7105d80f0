"""`git diff` of snapshots, in a readable form after `init --git-diff`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge
from support.corpus import PROJECT

TREE = PROJECT / "tests" / "docs" / "samples" / "docs" / "how-to" / "verify-in-ci"
DOCUMENT = ".ai-snapshots/openai/capital-of-france.json"
SETTING = "diff.traceforge.textconv"


def git(folder: Path, *words: str) -> str:
    """The output of Git, with traceforge on the path."""
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    completed = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *words],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return completed.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one committed snapshot."""
    shutil.copytree(TREE, tmp_path, dirs_exist_ok=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "x")
    return tmp_path


def test_an_edit_is_one_readable_line(repository: Path) -> None:
    """The compared and committed bytes stay the same."""
    ran = traceforge("init", "--git-diff", cwd=repository)
    text = (repository / DOCUMENT).read_text()
    (repository / DOCUMENT).write_text(text.replace("is Paris", "is Lyon,\\nor Paris"))

    diff = git(repository, "diff", "--", DOCUMENT)

    assert f"set       git config {SETTING} 'traceforge snapshot textconv' (of this clone)" in ran.out
    changed = [line for line in diff.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert ["-", "+", "+", "+"] == [line[0] for line in changed]
    assert [True, False, False, True] == ["Paris" in line for line in changed]
    assert not any('"' in line for line in changed)


def test_git_is_configured_only_on_request_and_existing_settings_stay(repository: Path) -> None:
    """Git runs the command, so the user decides."""
    traceforge("init", cwd=repository)
    assert "" == git(repository, "config", SETTING)
    assert "diff=traceforge" not in (repository / ".gitattributes").read_text()

    git(repository, "config", SETTING, "cat")
    second = traceforge("init", "--git-diff", cwd=repository)

    assert ("cat\n", 0) == (git(repository, "config", SETTING), second.code)
    assert f"kept      git config {SETTING}\n" in second.out
    assert (repository / ".gitattributes").read_text().endswith(".ai-snapshots/**/*.json diff=traceforge\n")


def test_git_diff_without_a_repository_is_an_error(tmp_path: Path) -> None:
    ran = traceforge("init", "--git-diff", cwd=tmp_path)

    assert 3 == ran.code
    assert "error TF203: the diff driver needs a Git repository" in ran.err


def test_a_broken_file_is_shown_as_text(repository: Path) -> None:
    """Such as one with conflict markers; bytes that are no text are escaped."""
    (repository / "x.json").write_bytes(b"<<<<<<< ours\n\xff{")

    completed = subprocess.run(
        [str(COMMAND), "snapshot", "textconv", "x.json"], cwd=repository, capture_output=True, check=True
    )

    assert b"<<<<<<< ours\n\\xff{" == completed.stdout
