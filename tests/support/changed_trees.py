"""A snapshot tree whose documents or manifest were changed, and the findings about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traceforge.findings import Finding
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import document_hash, record_hash
from traceforge.snapshots.formats.snapshot_manifest import write_manifest
from traceforge.snapshots.tree.tree_verification import check_documents, verify_tree

FIRST, SECOND, THIRD = (f"openai/snap-000{number}.json" for number in range(3))
ZEROS = "sha256:" + "0" * 64
DEFAULT, STRICT = ModelPolicy(), ModelPolicy(is_strict=True)


def find_tree_findings(root: Path, policy: ModelPolicy = DEFAULT) -> tuple[Finding, ...]:
    return verify_tree(str(root), policy).findings


def list_tree_rules(root: Path, policy: ModelPolicy = DEFAULT) -> list[tuple[str, str, str]]:
    return [(finding.file, finding.path, finding.rule) for finding in find_tree_findings(root, policy)]


def change_record(root: Path, file: str, change: Callable[[dict[str, Any]], object], *, seal: bool = True) -> None:
    """Change the first record of a document; with `seal`, its hashes and the manifest are made right again."""
    document = json.loads((root / file).read_bytes())
    change(document["snapshots"][0])
    if seal:
        for record in document["snapshots"]:
            record["hash"] = record_hash(record)
        document["hash"] = document_hash("1.0.0", [record["hash"] for record in document["snapshots"]])
    (root / file).write_text(json.dumps(document))
    if seal:
        rebuild_manifest(root)


def rebuild_manifest(root: Path) -> None:
    (root / "manifest.json").write_bytes(write_manifest(check_documents(str(root), ModelPolicy()).entries))
