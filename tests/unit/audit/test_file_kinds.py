"""A document is known by fields that only its kind has, broken or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.sample_files import sample_session, snapshot_body, write_tree
from traceforge.audit.file_kinds import FileKind, find_kind
from traceforge.snapshots.formats.snapshot_format import write_document


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (sample_session(), FileKind.MODEL_IO),
        ({"adapter_id": "a", "interactions": []}, FileKind.MODEL_IO),
        (json.loads(write_document([snapshot_body()])), FileKind.SNAPSHOT),
        ({"version": "0.9.0", "snapshots": []}, FileKind.SNAPSHOT),
        ({"approved_at": "", "changes": []}, FileKind.APPROVAL),
        ({"object": "snapshot", "ordered_block_manifest": []}, FileKind.CONTEXT_SNAPSHOT),
        ({"trace_id": "t", "inputs": {}, "output": {}}, FileKind.EXECUTION_TRACE),
        ({"schema_version": "1.0.0", "endpoint": "/", "request": {}}, FileKind.TRACE),
        ({"name": "package", "version": "1.0.0"}, None),
        ([], None),
        (None, None),
        ("model_io_schema_version", None),
    ],
)
def test_a_kind_is_detected_by_its_fields(value: object, kind: FileKind | None) -> None:
    """Each kind is distinguished from the others, and other files have none."""
    assert kind is find_kind(value)  # type: ignore[arg-type]  # JSON by construction


def test_a_manifest_is_not_a_document(tmp_path: Path) -> None:
    """Both have `version`, `snapshots` and `hash`; only the manifest has times."""
    root = write_tree(tmp_path / "tree", 1)

    assert FileKind.MANIFEST is find_kind(json.loads((root / "manifest.json").read_text()))
