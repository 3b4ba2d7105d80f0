"""Every snapshot of a tree is checked against its approvals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.sample_files import raw_error_response, write_approval_file, write_tree
from traceforge.canon import digest_bytes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import read_document
from traceforge.snapshots.tree.tree_verification import verify_tree

FIRST_DIGEST, SECOND_DIGEST = ("sha256:" + digit * 64 for digit in "12")
SECOND = "openai/snap-0001.json"
OOPS = "wire/oops.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A valid tree of three documents, written by hand."""
    return write_tree(tmp_path / ".ai-snapshots")


def _rules(root: Path) -> list[tuple[str, str, str]]:
    return [finding[:3] for finding in verify_tree(str(root), ModelPolicy()).findings]


def _hash(root: Path) -> str:
    (record,) = read_document((root / SECOND).read_bytes())
    return record.hash


def _oops(root: Path, data: bytes | None = None) -> str:
    """Write a raw response without a record; returns its digest."""
    (root / "wire").mkdir(exist_ok=True)
    (root / OOPS).write_bytes(data or raw_error_response())
    return digest_bytes(data or raw_error_response())


def test_ap3_a_record_that_no_approval_left_so(root: Path) -> None:
    """One that no approval names was written by hand, and may be what it is."""
    write_approval_file(root, ("snap-0001", SECOND, None, FIRST_DIGEST))

    assert [(SECOND, "", "AP3")] == _rules(root)


def test_any_approval_of_a_record_counts(root: Path) -> None:
    """Two branches approved two answers, and the merge kept one."""
    write_approval_file(root, ("snap-0001", SECOND, None, FIRST_DIGEST))
    write_approval_file(root, ("snap-0001", SECOND, FIRST_DIGEST, _hash(root)))
    write_approval_file(root, ("snap-0001", SECOND, FIRST_DIGEST, SECOND_DIGEST))

    assert [] == _rules(root)
    assert 3 == verify_tree(str(root), ModelPolicy()).approvals


def test_ap3_a_raw_response_without_an_approval(root: Path) -> None:
    """Neither its own approval nor that of a record covers it."""
    _oops(root)
    assert [(OOPS, "", "AP3")] == _rules(root)

    write_approval_file(root, ("oops", OOPS, None, FIRST_DIGEST))
    assert [(OOPS, "", "AP3")] == _rules(root)


def test_an_approved_raw_response_is_counted_as_request_gated(root: Path) -> None:
    """Its answer is replayed, and not gated."""
    write_approval_file(root, ("oops", OOPS, None, _oops(root)))

    assert (3, 1, (), 1, 1) == verify_tree(str(root), ModelPolicy())[:5]


def test_sn9_a_file_that_is_no_raw_response(root: Path) -> None:
    """Approved or not, it must be of its format."""
    write_approval_file(root, ("oops", OOPS, None, _oops(root, b"{}")))

    assert {(OOPS, "SN9")} == {(file, rule) for file, _, rule in _rules(root)}


def test_sn7_a_raw_response_that_its_record_does_not_name(root: Path) -> None:
    """It is not clear whether it would be replayed."""
    write_approval_file(root, ("snap-0001", SECOND, None, _hash(root)))
    _oops(root)
    (root / OOPS).rename(root / "wire" / "snap-0001.json")

    assert [("wire/snap-0001.json", "", "SN7")] == _rules(root)


@pytest.mark.parametrize("name", ["notes.txt", "Upper.json", "x.json", "folder"])
@pytest.mark.parametrize("folder", ["wire", "approvals"])
def test_a_stray_file_is_a_finding(root: Path, folder: str, name: str) -> None:
    """Under any unknown name; a folder too."""
    path = root / folder / name
    path.parent.mkdir()
    if name == "folder":
        path.mkdir()
    else:
        path.write_text("{}")

    assert {f"{folder}/{name}"} == {file for file, _, _ in _rules(root)}


def test_ap1_and_ap2_are_findings_of_the_tree(root: Path) -> None:
    """A broken approval, and one under another name."""
    path = write_approval_file(root, ("snap-0001", SECOND, None, _hash(root)))
    path.rename(path.with_name("copy.json"))
    (root / "approvals" / "broken.json").write_text("{}")
    (root / "approvals" / "text.json").write_text("no")

    rules = {(Path(file).name, rule) for file, _, rule in _rules(root)}

    assert {("copy.json", "AP2"), ("broken.json", "AP1"), ("text.json", "PARSE")} == rules


def test_ap5_an_approval_that_is_missing(root: Path) -> None:
    """What one approval found, another one left."""
    first = write_approval_file(root, ("snap-0001", SECOND, None, FIRST_DIGEST), at="2026-01-10T09:00:00Z")
    second = write_approval_file(root, ("snap-0001", SECOND, FIRST_DIGEST, _hash(root)), at="2026-01-11T09:00:00Z")
    assert [] == _rules(root)

    first.unlink()

    assert [(f"approvals/{second.name}", "$.changes[0].before", "AP5")] == _rules(root)


def test_ap6_an_approved_snapshot_was_removed(root: Path) -> None:
    """A removal must be approved too; an unreadable document does not count as removed."""
    path = write_approval_file(root, ("oops", OOPS, None, FIRST_DIGEST))
    assert [(f"approvals/{path.name}", "", "AP6")] == _rules(root)

    write_approval_file(root, ("oops", OOPS, FIRST_DIGEST, None))
    assert [] == _rules(root)

    write_approval_file(root, ("snap-0001", SECOND, None, _hash(root)))
    (root / SECOND).write_bytes(b"{")
    assert [(SECOND, "", "PARSE")] == _rules(root)


@pytest.mark.parametrize("folder", ["wire", "approvals"])
def test_a_linked_folder_is_not_followed(root: Path, tmp_path: Path, folder: str) -> None:
    """What is behind it is not in the tree."""
    (tmp_path / "outside").mkdir()
    (root / folder).symlink_to(tmp_path / "outside")

    assert [(folder, "", "IO")] == _rules(root)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_ap4_a_bad_signature(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature that is none, one without its tool to check it, and one that was taken away."""
    from datetime import UTC, datetime

    from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes

    project = root.parent
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", project / "id"], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", str(project / "id.pub"))):
        subprocess.run(["git", "config", name, value], cwd=project, check=True)
    change = SnapshotChange("openai", "oops", None, raw_error_response())
    result = commit_changes(str(project), ModelPolicy(), [change], reason="why", sign=True, now=datetime.now(UTC))
    path = root / result.approval.file
    document = json.loads(path.read_bytes())
    assert [] == _rules(root)

    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        assert [(result.approval.file, "$.signature", "IO")] == _rules(root)
    lines = document["signature"].split("\n")
    lines[2] = lines[2][::-1]
    path.write_text(json.dumps({**document, "signature": "\n".join(lines)}))
    assert [(result.approval.file, "$.signature", "AP4")] == _rules(root)
    del document["signature"]
    path.write_text(json.dumps(document))
    assert [(result.approval.file, "$.signature", "AP1"), (OOPS, "", "AP3")] == _rules(root)
