"""Rebuild the manifest of a tree.

In: a snapshot tree. Out: its manifest, written only if it differs. Never: hides a broken document: a tree with any
other finding keeps its manifest.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from traceforge.files import read_file, write_atomic
from traceforge.findings import Finding
from traceforge.snapshots.formats import snapshot_manifest
from traceforge.snapshots.formats.determinism_policy import POLICY_RULE, ModelPolicy
from traceforge.snapshots.tree.tree_verification import check_documents


class RebuiltManifest(NamedTuple):
    """The outcome of a rebuild."""

    records: int
    changed: bool
    findings: tuple[Finding, ...]  # why the manifest was not rebuilt


def rebuild_manifest(root: str) -> RebuiltManifest:
    """Write the manifest of the documents.

    A record that breaks the determinism policy is listed too: the policy is about calls, not about the manifest.

    Raises:
        CannotRead: the tree cannot be listed.
        CannotWrite: the manifest cannot be written.
    """
    documents = check_documents(root, ModelPolicy())
    findings = tuple(sorted(finding for finding in documents.findings if finding.rule != POLICY_RULE))
    if findings or not documents.entries:
        return RebuiltManifest(len(documents.entries), changed=False, findings=findings)
    path = os.path.join(root, snapshot_manifest.MANIFEST_NAME)
    data = snapshot_manifest.write_manifest(documents.entries)
    changed = not os.path.lexists(path) or read_file(path) != data
    if changed:
        write_atomic(path, data)
    return RebuiltManifest(len(documents.entries), changed, ())
