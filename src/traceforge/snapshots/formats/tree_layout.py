"""What may stand in a snapshot tree.

    <root>/manifest.json
    <root>/<provider>/<id>.json      documents
    <root>/wire/<id>.json            approved wire answers, each named by a record or standing for itself
    <root>/approvals/*.json          who approved what

Names that begin with a dot, and README.md at the root, are nobody's business.
"""

from __future__ import annotations

import os
import re

from traceforge.config import STATE_DIR
from traceforge.errors import CannotRead
from traceforge.files import list_folder
from traceforge.findings import Finding
from traceforge.snapshots.formats import snapshot_manifest
from traceforge.tuples import NamedTuple

LAYOUT_RULE = "SN6"

WIRE_DIR = "wire"
APPROVALS_DIR = "approvals"
RESERVED_DIRS = frozenset({WIRE_DIR, APPROVALS_DIR})
JOURNAL_NAME = "approve.journal"  # beside the tree, in what a machine keeps for itself
ROOT_FILES = frozenset({snapshot_manifest.MANIFEST_NAME, "README.md"})  # Besides these, only dot files are expected.
STRAY_HINT = "Move it out of the tree: what is there is what was approved, and nothing else."

_PROVIDER = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")


class StoredSnapshot(NamedTuple):
    """What stands in a tree under an id: the file, and a record's hash or a wire answer's digest."""

    file: str
    digest: str
    must_be_approved: bool


def is_provider_name(name: str) -> bool:
    """Can a folder of documents have this name?"""
    return _PROVIDER.match(name) is not None


def is_folder(path: str) -> bool:
    """Is it a folder, and no link to one?"""
    return os.path.isdir(path) and not os.path.islink(path)


def list_providers(root: str) -> list[str]:
    """The folders of documents.

    Raises:
        CannotRead: the tree cannot be listed.
    """
    names = [entry.name for entry in list_folder(root) if entry.is_dir(follow_symlinks=False)]
    return [name for name in names if name not in RESERVED_DIRS and not name.startswith(".")]


def has_interrupted_approval(project: str) -> bool:
    """Did an approval die in the middle? `transaction` does the rest of it."""
    return os.path.lexists(os.path.join(project, STATE_DIR, JOURNAL_NAME))


def list_json_files(root: str, folder: str, findings: list[Finding]) -> list[str]:
    """The names of the JSON files in a folder of the tree; what else stands there is a finding."""
    try:
        entries = list_folder(f"{root}/{folder}")
    except CannotRead as exc:
        findings.append(exc.finding(folder))
        return []
    names = [entry.name for entry in entries if not entry.name.startswith(".")]
    findings += [stray_file_finding(f"{folder}/{name}") for name in names if not name.endswith(".json")]
    return [name for name in names if name.endswith(".json")]


def stray_file_finding(file: str) -> Finding:
    """A file that has no business in the tree."""
    return Finding(file, "", LAYOUT_RULE, "unexpected file in a snapshot tree", STRAY_HINT)
