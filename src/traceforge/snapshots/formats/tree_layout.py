"""Which files a snapshot tree may hold.

    <root>/manifest.json
    <root>/match-key.json            the id of the match key
    <root>/<provider>/<id>.json      documents
    <root>/wire/<id>.json            approved raw responses, each of a record or of a call that records cannot hold
    <root>/approvals/*.json          who approved what
    <root>/allowed_signers           who may sign an approval, as OpenSSH writes it

Names that begin with a dot, and README.md at the root, are ignored.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple

from traceforge.errors import CannotRead, NotJSON
from traceforge.files import list_folder
from traceforge.findings import IO, Finding
from traceforge.match_key import KEY_ID_NAME
from traceforge.snapshots.formats import snapshot_manifest

LAYOUT_RULE = "SN6"

WIRE_DIR = "wire"
APPROVALS_DIR = "approvals"
RESERVED_DIRS = frozenset({WIRE_DIR, APPROVALS_DIR})
SIGNERS_NAME = "allowed_signers"
# Besides these, only dot files are expected.
ROOT_FILES = frozenset({snapshot_manifest.MANIFEST_NAME, KEY_ID_NAME, SIGNERS_NAME, "README.md"})
STRAY_HINT = "Move it out of the tree: the tree holds approved files only."

_PROVIDER = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")


class StoredSnapshot(NamedTuple):
    """The snapshot of one id: its file, and its record's hash or its raw response's digest."""

    file: str
    digest: str
    must_be_approved: bool


def not_json_finding(root: str, file: str, error: NotJSON) -> Finding:
    """The finding for a broken file of the tree: what was approved comes back from Git, and is not repaired by hand.

    It cannot be recorded again, because nothing is recorded into a tree that cannot be read.
    """
    finding = error.finding(file)
    if error.is_conflict:
        return finding
    path = shlex.quote(os.path.join(root, file))
    hint = f"Restore it from Git: git checkout -- {path}; if it is committed like this: git checkout COMMIT -- {path}"
    return finding._replace(hint=hint)


def raw_response_file(name: str) -> str:
    """The file of the raw response of a snapshot, relative to the tree."""
    return f"{WIRE_DIR}/{name}.json"


def is_provider_name(name: str) -> bool:
    """Whether a provider's folder can have this name."""
    return _PROVIDER.match(name) is not None


def is_folder(path: str) -> bool:
    """Whether the path is a folder, and not a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def find_root_problem(root: str) -> Finding | None:
    """The finding if `root` is not a folder: a link would lead to files that were not reviewed as snapshots."""
    if is_folder(root):
        return None
    problem = "a symbolic link, which is not followed" if os.path.islink(root) else "not a folder"
    return Finding(os.path.basename(root), "", IO, problem, "Restore the folder from Git.")


def list_providers(root: str) -> list[str]:
    """The providers' folders.

    Raises:
        CannotRead: the tree cannot be listed.
    """
    names = [entry.name for entry in list_folder(root) if entry.is_dir(follow_symlinks=False)]
    return [name for name in names if name not in RESERVED_DIRS and not name.startswith(".")]


def list_json_files(root: str, folder: str, findings: list[Finding]) -> list[str]:
    """The names of the JSON files in a folder of the tree. Any other file is added to `findings`."""
    try:
        entries = list_folder(f"{root}/{folder}")
    except CannotRead as exc:
        findings.append(exc.finding(folder))
        return []
    names = [entry.name for entry in entries if not entry.name.startswith(".")]
    findings += [stray_file_finding(f"{folder}/{name}") for name in names if not name.endswith(".json")]
    return [name for name in names if name.endswith(".json")]


def stray_file_finding(file: str) -> Finding:
    """The finding for a file that does not belong in the tree."""
    return Finding(file, "", LAYOUT_RULE, "unexpected file in a snapshot tree", STRAY_HINT)
