"""Two branches that approve different snapshots merge, and rebuilding the manifest is all there is to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.approval_project import Project, record_change
from support.command import traceforge
from support.sample_files import raw_error_response
from traceforge.snapshots.approve.tree_commit import SnapshotChange


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project as `init` prepares it, with four approved snapshots."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    made = Project(tmp_path / "repository")
    assert 0 == traceforge("init", cwd=made.folder).code
    made.approve(*(record_change(name) for name in ("aaa", "bbb", "mmm", "zzz")))
    made.commit("four snapshots")
    return made


@pytest.mark.parametrize("autocrlf", ["false", "true"])
def test_the_manifest_is_the_only_step(project: Project, autocrlf: str) -> None:
    """New, changed and removed snapshots and raw responses on both sides, whatever Git thinks of line ends."""
    project.git("config", "core.autocrlf", autocrlf)
    project.git("checkout", "-qb", "theirs")
    project.approve(record_change("ccc"), record_change("aaa", "Theirs."), SnapshotChange("", "zzz", None, None))
    project.commit("theirs")
    project.git("checkout", "-q", "main")
    project.approve(
        record_change("ddd"),
        record_change("bbb", "Ours."),
        SnapshotChange("openai", "oops", None, raw_error_response()),
    )
    project.commit("ours")

    with pytest.raises(subprocess.CalledProcessError):
        project.git("merge", "-q", "theirs")
    assert [".ai-snapshots/manifest.json"] == project.git("diff", "--name-only", "--diff-filter=U").split()
    assert (3, True) == ((done := traceforge("verify", cwd=project.folder)).code, "snapshot manifest" in done.out)
    assert 0 == traceforge("snapshot", "manifest", cwd=project.folder).code
    project.commit("merged")

    done = traceforge("verify", cwd=project.folder)
    assert (0, "checked 3 approvals, 6 snapshots (1: prompt checked, answer not checked): all valid\n") == (
        done.code,
        done.out,
    )
    for parent in ("HEAD^1", "HEAD^2"):  # What the other branch brought was approved there.
        assert 0 == traceforge("verify", "--base", parent, cwd=project.folder).code


def test_git_leaves_the_bytes_alone(project: Project, tmp_path: Path) -> None:
    """A clone on a system with other line ends has the same files, and GitHub folds the raw responses away."""
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "-q", "-c", "core.autocrlf=true", "-c", "core.eol=crlf", project.folder, clone], check=True
    )
    said = project.git("check-attr", "text", "linguist-generated", "--", ".ai-snapshots/wire/aaa.json").split()

    assert 0 == traceforge("verify", cwd=clone).code
    assert (clone / ".ai-snapshots/wire/aaa.json").read_bytes() == (project.root / "wire/aaa.json").read_bytes()
    assert ["unset", "set"] == [said[2], said[5]]
