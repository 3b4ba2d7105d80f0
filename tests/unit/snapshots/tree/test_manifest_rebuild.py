"""`tree/manifest_rebuild.py`: the manifest is made to say what the documents say, and covers up nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.sample_files import snapshot_body, write_tree
from traceforge.errors import CannotRead
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest
from traceforge.snapshots.tree.tree_verification import verify_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A valid tree of three documents."""
    return write_tree(tmp_path / ".ai-snapshots")


def test_a_correct_manifest_is_not_rewritten(root: Path) -> None:
    """Nothing is written, so nothing changes: not even the file's time."""
    before = (root / "manifest.json").stat()

    assert (3, False, ()) == rebuild_manifest(str(root))
    assert before == (root / "manifest.json").stat()


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "<<<<<<< HEAD\n{}\n=======\n[]\n>>>>>>> other\n", '{"version": "0.9.0"}']
)
def test_rebuilding_gives_the_same_manifest_whatever_was_there_before(root: Path, text: str | None) -> None:
    """Missing, broken, in conflict or of another version."""
    manifest = (root / "manifest.json").read_bytes()
    (root / "manifest.json").unlink()
    if text is not None:
        (root / "manifest.json").write_text(text)

    assert (3, True, ()) == rebuild_manifest(str(root))
    assert manifest == (root / "manifest.json").read_bytes()
    assert () == verify_tree(str(root), ModelPolicy()).findings


def test_a_new_document_is_added_and_a_deleted_one_removed(root: Path) -> None:
    """The manifest follows the files."""
    (root / "openai" / "snap-0000.json").unlink()
    (root / "anthropic").mkdir()
    (root / "anthropic" / "new-one.json").write_bytes(write_document([snapshot_body(id="new-one")]))
    rebuild_manifest(str(root))
    manifest = json.loads((root / "manifest.json").read_bytes())

    assert ["new-one", "snap-0001", "snap-0002"] == [entry["id"] for entry in manifest["snapshots"]]


def test_a_manifest_is_not_rebuilt_over_a_broken_document(root: Path) -> None:
    """A changed record must not be made to look approved."""
    manifest = (root / "manifest.json").read_bytes()
    file = root / "openai" / "snap-0001.json"
    file.write_text(file.read_text().replace("It is.", "It was."))
    result = rebuild_manifest(str(root))

    assert (False, ["SN3"]) == (result.changed, [finding.rule for finding in result.findings])
    assert manifest == (root / "manifest.json").read_bytes()


def test_a_request_that_is_not_deterministic_is_listed_all_the_same(root: Path) -> None:
    """The policy gates calls, not the index."""
    body = snapshot_body(id="warm-one")
    body["request"]["temperature"] = 1
    (root / "openai" / "warm-one.json").write_bytes(write_document([body]))

    assert (4, True, ()) == rebuild_manifest(str(root))


def test_a_tree_without_records_gets_no_manifest(tmp_path: Path) -> None:
    """The report says so."""
    assert (0, False, ()) == rebuild_manifest(str(tmp_path))
    assert [] == os.listdir(tmp_path)


def test_a_missing_tree_is_an_error(tmp_path: Path) -> None:
    """Nothing is created."""
    with pytest.raises(CannotRead):
        rebuild_manifest(str(tmp_path / "missing"))

    assert [] == os.listdir(tmp_path)
