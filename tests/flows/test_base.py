"""`verify --base`: what differs from a commit, somebody approved since."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from support.command import traceforge
from support.sample_files import raw_error_response, snapshot_body
from traceforge.snapshots.approve.tree_commit import SnapshotChange
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Three snapshots, approved and committed; one is a raw response alone."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    made = Project(tmp_path / "repository")
    made.approve(
        record_change("one"), record_change("two"), SnapshotChange("openai", "oops", None, raw_error_response())
    )
    made.commit()
    made.git("tag", "v1")
    return made


def test_nothing_differs(project: Project) -> None:
    """The tree of the commit itself, by any name of it."""
    for name in ("main", "v1", "HEAD", project.git("rev-parse", "HEAD").strip()):
        done = project.verify(base=name)
        assert (0, "checked 1 approval, 3 snapshots (1: prompt checked, answer not checked): all valid\n") == (
            done.code,
            done.out,
        )


@pytest.mark.parametrize(
    "change",
    [
        record_change("three"),
        record_change("one", "It was."),
        SnapshotChange("", "two", None, None),
        SnapshotChange("", "oops", None, None),
        SnapshotChange("openai", "oops", None, raw_error_response("Hello")),
        SnapshotChange("openai", "other", None, raw_error_response("Hello")),
    ],
    ids=["new", "changed", "removed", "answer removed", "answer changed", "answer new"],
)
def test_a_snapshot_approved_since_may_differ(project: Project, change: SnapshotChange) -> None:
    """Whether it is committed yet or not."""
    project.approve(change)
    assert 0 == project.verify().code

    project.git("checkout", "-qb", "feature")
    project.commit()
    assert 0 == project.verify().code


def _forge(project: Project, name: str, content: str) -> None:
    """Change a record by hand, with its hashes, its raw response and the manifest."""
    body = snapshot_body(id=name)
    body["response"]["content"] = content
    data: Any = body
    (project.root / "openai" / f"{name}.json").write_bytes(write_document([data]))
    (project.root / "wire" / f"{name}.json").unlink(missing_ok=True)
    rebuild_manifest(str(project.root))


def _remove(project: Project) -> None:
    (project.root / "openai" / "two.json").unlink()
    (project.root / "wire" / "two.json").unlink()
    rebuild_manifest(str(project.root))


def _revert(project: Project) -> None:
    """Approve a change, commit it, and put the record back without approving that."""
    old = {file: (project.root / file).read_bytes() for file in ("openai/one.json", "wire/one.json", "manifest.json")}
    project.approve(record_change("one", "It was."))
    project.commit()
    for file, data in old.items():
        (project.root / file).write_bytes(data)


def _forget(project: Project) -> None:
    """Take the approval away, and the snapshots' raw responses with it."""
    for file in project.root.glob("approvals/*"):
        file.unlink()


CHANGES: dict[str, tuple[Callable[[Project], object], set[str]]] = {
    "new": (lambda project: _forge(project, "three", "New."), {"openai/three.json"}),
    "changed": (lambda project: _forge(project, "one", "Forged."), {"openai/one.json"}),
    "removed": (_remove, {"openai/two.json"}),
    "put back": (_revert, {"openai/one.json"}),
    "answer removed": (lambda project: (project.root / "wire/oops.json").unlink(), {"wire/oops.json"}),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_ap7_an_unapproved_difference_is_a_finding(project: Project, kind: str) -> None:
    """Also where every hash is right, and where an old approval would cover it."""
    change, files = CHANGES[kind]
    change(project)
    done = project.verify("--json")

    found = {
        os.path.relpath(one["file"], ".ai-snapshots")
        for one in json.loads(done.out)["findings"]
        if one["rule"] == "AP7"
    }
    assert (1, files) == (done.code, found)


def test_the_commit_is_named_as_the_user_named_it(project: Project) -> None:
    """Also where it is spelled with signs."""
    _forge(project, "one", "Forged.")

    assert (
        "one differs from HEAD^{commit}, and no new approval left it in this state"
        in project.verify(base="HEAD^{commit}").out
    )
    assert "Git knows no commit HEAD~99 here" in project.verify(base="HEAD~99").err


def test_ap7_a_removed_approval_is_a_finding(project: Project) -> None:
    """Approvals are added and never taken away."""
    _forget(project)
    done = project.verify("--json")

    assert 1 == done.code
    assert 1 == sum("/approvals/" in one["file"] and one["rule"] == "AP7" for one in json.loads(done.out)["findings"])


def test_ap7_a_removed_tree_is_a_finding(project: Project) -> None:
    """Nothing is left to check, and still it is not green."""
    subprocess.run(["rm", "-r", project.root], check=True)

    assert (1, 4) == (project.verify().code, project.verify("--json").out.count('"AP7"'))


def test_a_commit_that_git_does_not_know_is_an_error(project: Project, tmp_path: Path) -> None:
    """Exit 3: nothing was checked. Also a name that looks like an option, and a folder without Git."""
    for name in ("nowhere", "--all", "main:.gitignore", ""):
        done = project.verify(f"--base={name}", base="main") if name.startswith("-") else project.verify(base=name)
        assert (3, True) == (done.code, "TF203" in done.err), done

    plain = tmp_path / "plain"
    (plain / ".ai-snapshots").mkdir(parents=True)
    assert 3 == traceforge("verify", "--base", "main", cwd=plain).code


def test_a_path_together_with_base_is_wrong_usage(project: Project) -> None:
    """The base is one of the project."""
    assert 2 == project.verify(".ai-snapshots").code


def test_base_works_in_a_shallow_clone_and_in_a_subfolder(project: Project, tmp_path: Path) -> None:
    """The commit is there, its history is not; and the project is a folder of a larger repository."""
    inner = Project(tmp_path / "outer")
    nested = inner.folder / "services" / "agent"
    nested.mkdir(parents=True)
    for part in (".ai-snapshots", ".gitignore"):
        (project.folder / part).rename(nested / part)
    inner.commit()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth=1", inner.folder.as_uri(), clone], check=True)
    here = clone / "services" / "agent"
    assert 0 == traceforge("verify", "--base", "HEAD", cwd=here).code

    path = here / ".ai-snapshots" / "openai" / "one.json"
    (one,) = read_document(path.read_bytes())
    body: Any = {**one.body, "source": {"file": "elsewhere.py", "line": 1, "function": "f"}}
    path.write_bytes(write_document([body]))
    rebuild_manifest(str(here / ".ai-snapshots"))
    done = traceforge("verify", "--base", "HEAD", cwd=here)
    assert (1, True) == (done.code, "AP7" in done.out)
