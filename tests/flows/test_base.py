"""`verify --base`: every difference from a commit has an approval since."""

from __future__ import annotations

import json
import os
import shutil
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
    repository = Project(tmp_path / "repository")
    repository.approve(
        record_change("one"), record_change("two"), SnapshotChange("openai", "oops", None, raw_error_response())
    )
    repository.commit()
    repository.git("tag", "v1")
    return repository


def test_nothing_differs(project: Project) -> None:
    """Under any name of the commit."""
    for name in ("main", "v1", "HEAD", project.git("rev-parse", "HEAD").strip()):
        result = project.verify(base=name)
        assert (0, "checked 1 approval, 3 snapshots (2 prompt and answer, 1 prompt only): all valid\n") == (
            result.code,
            result.out,
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
    """Committed or not."""
    project.approve(change)
    assert 0 == project.verify().code

    project.git("checkout", "-qb", "feature")
    project.commit()
    assert 0 == project.verify().code


def _edit_by_hand(project: Project, name: str, content: str) -> None:
    """Change a record, with its hashes, its raw response and the manifest."""
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
    """Approve a change, commit it, and put the old record back without an approval."""
    old = {file: (project.root / file).read_bytes() for file in ("openai/one.json", "wire/one.json", "manifest.json")}
    project.approve(record_change("one", "It was."))
    project.commit()
    for file, data in old.items():
        (project.root / file).write_bytes(data)


def _remove_approval(project: Project) -> None:
    """Remove the approval, and the snapshots' raw responses with it."""
    for file in project.root.glob("approvals/*"):
        file.unlink()


def _move(project: Project) -> None:
    """To the folder of another provider, with the same content."""
    (project.root / "openai").rename(project.root / "gemini")
    rebuild_manifest(str(project.root))


CHANGES: dict[str, tuple[Callable[[Project], object], set[str]]] = {
    "new": (lambda project: _edit_by_hand(project, "three", "New."), {"openai/three.json"}),
    "changed": (lambda project: _edit_by_hand(project, "one", "Forged."), {"openai/one.json"}),
    "moved": (_move, {"gemini/one.json", "gemini/two.json"}),
    "removed": (_remove, {"openai/two.json"}),
    "put back": (_revert, {"openai/one.json"}),
    "answer removed": (lambda project: (project.root / "wire/oops.json").unlink(), {"wire/oops.json"}),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_ap7_an_unapproved_difference_is_a_finding(project: Project, kind: str) -> None:
    """Also where every hash is right, and where an old approval would cover it."""
    change, files = CHANGES[kind]
    change(project)
    result = project.verify("--json")

    findings = {
        os.path.relpath(finding["file"], ".ai-snapshots")
        for finding in json.loads(result.out)["findings"]
        if finding["rule"] == "AP7"
    }
    assert (1, files) == (result.code, findings)


def test_the_commit_is_named_as_the_user_named_it(project: Project) -> None:
    """Also with signs, such as HEAD~1."""
    _edit_by_hand(project, "one", "Forged.")

    assert (
        "one differs from HEAD^{commit}, and no new approval left it in this state"
        in project.verify(base="HEAD^{commit}").out
    )
    assert "Git knows no commit HEAD~99 here" in project.verify(base="HEAD~99").err


def test_ap7_a_removed_approval_is_a_finding(project: Project) -> None:
    """Approvals are only added."""
    _remove_approval(project)
    result = project.verify("--json")

    assert 1 == result.code
    assert 1 == sum(
        "/approvals/" in finding["file"] and finding["rule"] == "AP7"
        for finding in json.loads(result.out)["findings"]
    )


def test_ap7_a_removed_tree_is_a_finding(project: Project) -> None:
    """Although nothing is left to check."""
    subprocess.run(["rm", "-r", project.root], check=True)

    assert (1, 4) == (project.verify().code, project.verify("--json").out.count('"AP7"'))


def test_a_commit_that_does_not_exist_is_exit_3(project: Project, tmp_path: Path) -> None:
    """Also a name that looks like an option, and a folder without Git."""
    for name in ("nowhere", "--all", "main:.gitignore", ""):
        result = project.verify(f"--base={name}", base="main") if name.startswith("-") else project.verify(base=name)
        assert (3, True) == (result.code, "TF203" in result.err), result

    plain = tmp_path / "plain"
    (plain / ".ai-snapshots").mkdir(parents=True)
    result = traceforge("verify", "--base", "main", cwd=plain)
    assert (3, True) == (result.code, "cannot be read: not a Git repository\n" in result.err), result


def test_a_path_together_with_base_is_wrong_usage(project: Project) -> None:
    assert 2 == project.verify(".ai-snapshots").code


def test_base_works_in_a_shallow_clone_and_in_a_subfolder(project: Project, tmp_path: Path) -> None:
    """Without the commit's history; the project is a folder of a larger repository."""
    inner = Project(tmp_path / "outer")
    nested = inner.folder / "services" / "agent"
    nested.mkdir(parents=True)
    for part in (".ai-snapshots", ".gitignore"):
        (project.folder / part).rename(nested / part)
    inner.commit()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth=1", inner.folder.as_uri(), clone], check=True)
    subfolder = clone / "services" / "agent"
    assert 0 == traceforge("verify", "--base", "HEAD", cwd=subfolder).code

    path = subfolder / ".ai-snapshots" / "openai" / "one.json"
    (record,) = read_document(path.read_bytes())
    body: Any = {**record.body, "source": {"file": "elsewhere.py", "line": 1, "function": "f"}}
    path.write_bytes(write_document([body]))
    rebuild_manifest(str(subfolder / ".ai-snapshots"))
    result = traceforge("verify", "--base", "HEAD", cwd=subfolder)
    assert (1, True) == (result.code, "AP7" in result.out)


def test_an_older_state_of_a_tree_is_a_finding_in_another_folder_too(project: Project, tmp_path: Path) -> None:
    """Its approvals are those that the commit has elsewhere, and not all of them. A tree may be copied as it is."""
    shutil.copytree(project.root, tmp_path / "old")
    project.approve(record_change("one", "It was."))
    project.commit()
    suite, copied = project.folder / "suite", project.folder / "copied"
    shutil.copytree(tmp_path / "old", suite / ".ai-snapshots")
    shutil.copytree(project.root, copied / ".ai-snapshots")

    refused = traceforge("verify", "--base", "main", cwd=suite)

    message = "AP7 this is an older state of .ai-snapshots: it lacks an approval that main has there"
    assert (1, True) == (refused.code, message in refused.out), refused
    assert 0 == traceforge("verify", "--base", "main", cwd=copied).code


def test_a_copied_tree_is_moved_after_its_original_went_on(project: Project) -> None:
    """It has all approvals of one tree of the base, and some of another one, of which it is no older state."""
    copied, moved = project.folder / "copied", project.folder / "moved"
    shutil.copytree(project.root, copied / ".ai-snapshots")
    project.approve(record_change("one", "It was."))
    project.commit()
    copied.rename(moved)

    result = traceforge("verify", "--base", "main", cwd=moved)

    assert 0 == result.code, result


def test_an_older_state_of_a_tree_is_a_finding_in_another_tree_too(project: Project, tmp_path: Path) -> None:
    """An approval that the commit has elsewhere is no new one, also where the tree has some of its own."""
    shutil.copytree(project.root, tmp_path / "old")
    project.approve(record_change("one", "It was."))
    other = Project(tmp_path / "other")
    other.approve(record_change("other"))
    root = project.folder / "suite" / ".ai-snapshots"
    shutil.copytree(other.root, root)
    project.commit()
    for name in ("approvals", "openai", "wire"):
        shutil.copytree(tmp_path / "old" / name, root / name, dirs_exist_ok=True)
    rebuild_manifest(str(root))

    refused = traceforge("verify", "--base", "main", cwd=root.parent)

    message = "AP7 this has an older state of .ai-snapshots: it lacks an approval that main has there"
    assert (1, True) == (refused.code, message in refused.out), refused
