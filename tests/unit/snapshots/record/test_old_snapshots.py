"""`old_snapshots`: which records of an older version a run replaces; a document stays while one of them is not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from traceforge.snapshots.approve.tree_commit import commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.old_snapshots import list_old_snapshots

FIRST, SECOND = ({"id": "first", "prompt": "1"}, {"id": "second", "prompt": "2"})


@pytest.mark.parametrize(
    ("documents", "ids"),
    [
        ([[FIRST, SECOND]], ["first", "second"]),
        ([[]], []),
        ([[FIRST, {**SECOND, "id": "first"}]], ["", ""]),  # Nobody knows which of them was replaced.
        ([[FIRST], [{**SECOND, "id": "first"}, SECOND]], ["", "", "second"]),
        ([{"first": FIRST}], [""]),  # another form of document
        ([None], [""]),
        ([[FIRST, {"prompt": "2"}, 5]], ["first", "", ""]),
    ],
)
def test_only_an_id_of_its_own_tells_what_was_replaced(tmp_path: Path, documents: list[Any], ids: list[str]) -> None:
    files = [f"{number}.json" for number in range(len(documents))]
    for file, records in zip(files, documents, strict=True):
        (tmp_path / file).write_text(json.dumps({"version": "0.9.0", "snapshots": records}))

    assert ids == [old.id for old in list_old_snapshots(str(tmp_path), files)]


@pytest.mark.parametrize(
    ("records", "stays"),
    [
        ([{"id": "one"}], False),
        ([{"id": "one"}, {"id": "two"}], True),
        ([{"id": "one"}, {"id": "one"}], True),
        ({"two": {}}, True),
    ],
)
def test_an_approval_removes_no_document_that_is_not_replaced(tmp_path: Path, records: Any, stays: bool) -> None:
    project = Project(tmp_path / "project")
    old = project.root / "openai" / "old.json"
    old.parent.mkdir(parents=True)
    old.write_text(json.dumps({"version": "0.9.0", "snapshots": records}))
    now = datetime(2026, 1, 10, tzinfo=UTC)

    commit_changes(str(project.folder), ModelPolicy(), [record_change("one")], reason="why", now=now, keep_old=True)

    assert stays == old.exists()
