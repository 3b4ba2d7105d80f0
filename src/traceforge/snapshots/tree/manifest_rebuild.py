"""Write a tree's manifest anew.

In: a snapshot tree. Out: its manifest, written only if it differs. Never: covers up a broken document: a tree
with any other finding keeps the manifest it has.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from traceforge.files import read_file, write_atomic
from traceforge.findings import Finding
from traceforge.snapshots.formats import snapshot_manifest
from traceforge.snapshots.formats.determinism_policy import POLICY_RULE
from traceforge.snapshots.tree.tree_verification import check_documents


class RebuiltManifest(NamedTuple):
    """What became of the manifest."""

    records: int
    changed: bool
    findings: tuple[Finding, ...]  # why it was left alone; empty if it was not


def rebuild_manifest(root: str) -> RebuiltManifest:
    """Make the manifest say what the documents say.

    A request that breaks the determinism policy is listed all the same: the policy gates calls, not the index.

    Raises:
        CannotRead: the tree cannot be listed.
        CannotWrite: the manifest cannot be written.
    """
    documents = check_documents(root, {})
    findings = tuple(sorted(finding for finding in documents.findings if finding.rule != POLICY_RULE))
    if findings or not documents.entries:
        return RebuiltManifest(len(documents.entries), changed=False, findings=findings)
    path = os.path.join(root, snapshot_manifest.MANIFEST_NAME)
    data = snapshot_manifest.write_manifest(documents.entries)
    changed = not os.path.lexists(path) or read_file(path) != data
    if changed:
        write_atomic(path, data)
    return RebuiltManifest(len(documents.entries), changed, ())
