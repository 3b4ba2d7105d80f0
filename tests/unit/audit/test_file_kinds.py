"""A document is known by fields that only its kind has, broken or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.samples import session, snapshot_body, write_tree
from traceforge.audit.file_kinds import Kind, find_kind
from traceforge.snapshots.formats.snapshot_format import write_document


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (session(), Kind.MODEL_IO),
        ({"adapter_id": "a", "interactions": []}, Kind.MODEL_IO),
        (json.loads(write_document([snapshot_body()])), Kind.SNAPSHOT),
        ({"version": "0.9.0", "snapshots": []}, Kind.SNAPSHOT),
        ({"approved_at": "", "changes": []}, Kind.APPROVAL),
        ({"object": "snapshot", "ordered_block_manifest": []}, Kind.CONTEXT_SNAPSHOT),
        ({"trace_id": "t", "inputs": {}, "output": {}}, Kind.EXECUTION_TRACE),
        ({"schema_version": "1.0.0", "endpoint": "/", "request": {}}, Kind.TRACE),
        ({"name": "package", "version": "1.0.0"}, None),
        ([], None),
        (None, None),
        ("model_io_schema_version", None),
    ],
)
def test_a_kind_is_found_by_its_marks(value: object, kind: Kind | None) -> None:
    """Each kind is told from the others, and what is not ours is nobody's."""
    assert kind is find_kind(value)  # type: ignore[arg-type]  # JSON by construction


def test_a_manifest_is_not_a_document(tmp_path: Path) -> None:
    """Both have `version`, `snapshots` and `hash`; only the manifest has times."""
    root = write_tree(tmp_path / "tree", 1)

    assert Kind.MANIFEST is find_kind(json.loads((root / "manifest.json").read_text()))
