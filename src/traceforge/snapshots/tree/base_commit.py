"""Whether everything that differs from another commit was approved since.

In: the snapshots of the tree now, and the tree of a commit, read from Git. Out: a finding for every snapshot that
differs without a new approval. Never: checks that commit out, fetches anything, or trusts an approval that the commit
already has: bringing an old state back needs a new approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from traceforge.canon import JSONObject, digest_bytes, parse_json
from traceforge.config import SNAPSHOTS_DIR
from traceforge.errors import NotFound, NotJSON
from traceforge.findings import Finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import StoredApproval, load_approvals
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id, record_hash
from traceforge.snapshots.formats.tree_layout import StoredSnapshot
from traceforge.snapshots.tree.git_commands import (
    GitUnavailable,
    find_tree_id,
    is_in_repository,
    list_tree_files,
    read_blobs,
)

BASE_RULE = "AP7"

_HINT = (
    "Restore it from that commit, or approve it: "
    'traceforge record -- COMMAND, then traceforge approve --all --reason "…"'
)


class _BaseTree(NamedTuple):
    """The tree of a commit: its snapshots by id, and the files of its approvals."""

    stored: dict[str, StoredSnapshot]
    approvals: frozenset[str]


def check_base(project: str, ref: str, stored: Mapping[str, StoredSnapshot]) -> list[Finding]:
    """Snapshots that differ from the tree at `ref` without a new approval. Files are named relative to the tree.

    Raises:
        NotFound: Git does not know the commit, or does not have all of it.
        CannotRead, NotJSON, InvalidFile: an approval is damaged.
    """
    base = _load_base(project, ref)
    approvals = load_approvals(f"{project}/{SNAPSHOTS_DIR}")
    new_states = {
        (change.id, change.after)
        for stored_approval in approvals
        if stored_approval.file not in base.approvals
        for change in stored_approval.approval.changes
    }
    return sorted([*_find_differences(base, stored, new_states, ref), *_find_lost_approvals(base, approvals, ref)])


def _find_differences(
    base: _BaseTree, stored: Mapping[str, StoredSnapshot], new_states: set[tuple[str, str | None]], ref: str
) -> Iterator[Finding]:
    for name in sorted({*base.stored, *stored}):
        before, current = base.stored.get(name), stored.get(name)
        if current is not None and (before is None or before.digest != current.digest):
            if (name, current.digest) not in new_states:
                verb = "is new since" if before is None else "differs from"
                message = f"{printable_name(name)} {verb} {ref}, and no new approval left it in this state"
                yield Finding(current.file, "", BASE_RULE, message, _HINT)
        elif current is None and before is not None and (name, None) not in new_states:
            message = f"{printable_name(name)} was removed since {ref} without a new approval"
            remove = f'traceforge snapshot rm {printable_name(name)} --reason "…"'
            hint = f"Restore it from that commit; to remove it, run: {remove}"
            yield Finding(before.file, "", BASE_RULE, message, hint)


def _find_lost_approvals(base: _BaseTree, approvals: list[StoredApproval], ref: str) -> Iterator[Finding]:
    """Approvals that the commit has and the tree lacks: they are never removed."""
    for file in sorted(base.approvals - {stored_approval.file for stored_approval in approvals}):
        message = f"the approval was removed since {ref}"
        yield Finding(file, "", BASE_RULE, message, "Restore it from that commit.")


def _load_base(project: str, ref: str) -> _BaseTree:
    try:
        tree = find_tree_id(project, ref)
        if tree is None and not is_in_repository(project):
            raise GitUnavailable("not a Git repository")
        if tree is None:
            hint = "Fetch it first, such as: git fetch --depth=1 origin main, and then --base FETCH_HEAD."
            raise NotFound(f"Git knows no commit {ref} here", hint=hint)
        files = {
            file: blob
            for file, blob in list_tree_files(project, tree, SNAPSHOTS_DIR).items()
            if file.count("/") == 1 and file.endswith(".json") and not file.rpartition("/")[2].startswith(".")
        }
        contents = dict(zip(files, read_blobs(project, list(files.values())), strict=True))
    except GitUnavailable as exc:
        hint = "Run it in a clone that has the commit, with Git installed."
        raise NotFound(f"the snapshots at {ref} cannot be read: {exc}", hint=hint) from None
    return _BaseTree(
        _list_stored(contents),
        frozenset(file for file in contents if file.startswith(f"{tree_layout.APPROVALS_DIR}/")),
    )


def _list_stored(files: Mapping[str, bytes]) -> dict[str, StoredSnapshot]:
    """The snapshots of the commit, by id. A broken document counts as empty, so that all it holds now is new."""
    stored: dict[str, StoredSnapshot] = {}
    for file, data in files.items():
        if file.partition("/")[0] not in tree_layout.RESERVED_DIRS:
            for record in _parse_records(data):
                name = record.get("id")
                if isinstance(name, str):
                    stored[name] = StoredSnapshot(file, record_hash(record), must_be_approved=True)
    for file, data in files.items():
        name = file.rpartition("/")[2].removesuffix(".json")
        if file.startswith(f"{tree_layout.WIRE_DIR}/") and is_snapshot_id(name) and name not in stored:
            stored[name] = StoredSnapshot(file, digest_bytes(data), must_be_approved=True)
    return stored


def _parse_records(data: bytes) -> list[JSONObject]:
    try:
        value = parse_json(data)
    except NotJSON:
        return []
    records = value.get("snapshots") if isinstance(value, dict) else None
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else []
