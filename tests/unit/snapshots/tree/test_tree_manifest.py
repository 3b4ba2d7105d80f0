"""`tree/tree_verification.py`: the manifest of a tree is compared with its documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.changed_trees import FIRST, SECOND, THIRD, ZEROS, change_record, find_tree_findings, list_tree_rules
from support.sample_files import snapshot_body, write_tree
from traceforge.snapshots.formats.snapshot_format import document_hash, write_document


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A valid tree of three documents."""
    return write_tree(tmp_path / ".ai-snapshots")


def test_mf1_a_tree_with_records_needs_a_manifest(root: Path) -> None:
    (root / "manifest.json").unlink()

    assert [("manifest.json", "", "MF1")] == list_tree_rules(root)


def _rewrite(root: Path, change: Callable[[dict[str, Any]], object], *, seal: bool = True) -> None:
    manifest = json.loads((root / "manifest.json").read_bytes())
    change(manifest)
    if seal:
        manifest["hash"] = document_hash("1.0.0", [entry["hash"] for entry in manifest["snapshots"]])
    (root / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda manifest: manifest.pop("created_at"), [("$.created_at", "MF2")]),
        (lambda manifest: manifest.update(extra=1), [("$.extra", "MF2")]),
        (lambda manifest: manifest["snapshots"].pop(1), [("$.snapshots", "MF4")]),
        (
            lambda manifest: manifest["snapshots"][1].update(hash=ZEROS),
            [("$.snapshots[1].hash", "MF5")],
        ),
        (lambda manifest: manifest["snapshots"].reverse(), [("$.snapshots[1]", "MF6"), ("$.snapshots[2]", "MF6")]),
        (lambda manifest: manifest.update(updated_at="2027-01-01T00:00:00Z"), [("$.updated_at", "MF8")]),
        (
            lambda manifest: manifest["snapshots"][1].update(file="../x.json"),
            [("$.snapshots[1].file", "MF5"), ("$.snapshots[1].file", "MF9")],
        ),
    ],
    ids=["MF2 missing", "MF2 unknown", "MF4", "MF5", "MF6", "MF8", "MF9"],
)
def test_a_manifest_that_does_not_fit_its_tree(
    root: Path, change: Callable[[dict[str, Any]], object], expected: list[tuple[str, str]]
) -> None:
    """One change each, with the hash made right again: exactly the findings of that rule."""
    _rewrite(root, change)

    assert [("manifest.json", *place) for place in expected] == list_tree_rules(root)


def test_mf3_a_file_was_deleted(root: Path) -> None:
    """Its entry is still there."""
    (root / SECOND).unlink()

    assert [("manifest.json", "$.snapshots[1]", "MF3")] == list_tree_rules(root)


def test_mf4_a_file_was_added(root: Path) -> None:
    """A valid document that the manifest does not list."""
    (root / "openai" / "new-one.json").write_bytes(write_document([snapshot_body(id="new-one")]))

    assert ("manifest.json", "$.snapshots", "MF4") in list_tree_rules(root)


def test_mf7_the_manifests_hash_was_changed(root: Path) -> None:
    """Everything else is right."""
    _rewrite(root, lambda manifest: manifest.update(hash=ZEROS), seal=False)

    assert [("manifest.json", "$.hash", "MF7")] == list_tree_rules(root)


def test_a_manifest_without_documents_is_compared_with_an_empty_tree(root: Path) -> None:
    """All files are gone: an entry each."""
    for file in (FIRST, SECOND, THIRD):
        (root / file).unlink()

    assert [("manifest.json", f"$.snapshots[{place}]", "MF3") for place in range(3)] == list_tree_rules(root)


def test_times_are_compared_as_instants_across_time_zones(root: Path) -> None:
    """The record's own spelling, in a zone that makes its text the largest."""
    change_record(root, SECOND, lambda record: record.update(timestamp="2026-01-09T12:30:00.5+02:30"))
    manifest = json.loads((root / "manifest.json").read_bytes())

    assert ("2026-01-09T10:00:00Z", "2026-01-09T10:02:00Z") == (manifest["created_at"], manifest["updated_at"])
    assert () == find_tree_findings(root)
