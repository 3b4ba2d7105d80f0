"""Two branches that approve different snapshots merge by rebuilding the manifest."""

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
    repository = Project(tmp_path / "repository")
    assert 0 == traceforge("init", cwd=repository.folder).code
    repository.approve(*(record_change(name) for name in ("aaa", "bbb", "mmm", "zzz")))
    repository.commit("four snapshots")
    return repository


@pytest.mark.slow
@pytest.mark.parametrize("autocrlf", ["false", "true"])
def test_rebuilding_the_manifest_resolves_a_merge(project: Project, autocrlf: str) -> None:
    """With new, changed and removed snapshots and raw responses on both sides, with any line-end setting of Git."""
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
    assert (3, True) == ((result := traceforge("verify", cwd=project.folder)).code, "snapshot manifest" in result.out)
    assert 0 == traceforge("snapshot", "manifest", cwd=project.folder).code
    project.commit("merged")

    result = traceforge("verify", cwd=project.folder)
    assert (0, "checked 3 approvals, 6 snapshots (5 prompt and answer, 1 prompt only): all valid\n") == (
        result.code,
        result.out,
    )
    for parent in ("HEAD^1", "HEAD^2"):  # The other branch's changes were approved there.
        assert 0 == traceforge("verify", "--base", parent, cwd=project.folder).code


def test_git_does_not_change_line_ends(project: Project, tmp_path: Path) -> None:
    """A clone with other line-end settings has the same files, and GitHub collapses the raw responses."""
    clone = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "-q", "-c", "core.autocrlf=true", "-c", "core.eol=crlf", project.folder, clone], check=True
    )
    attributes = project.git("check-attr", "text", "linguist-generated", "--", ".ai-snapshots/wire/aaa.json").split()

    assert 0 == traceforge("verify", cwd=clone).code
    assert (clone / ".ai-snapshots/wire/aaa.json").read_bytes() == (project.root / "wire/aaa.json").read_bytes()
    assert ["unset", "set"] == [attributes[2], attributes[5]]
