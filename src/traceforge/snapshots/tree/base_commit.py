"""Was everything approved that differs from another commit?

In: what stands in the tree now, and the tree of a commit, read from Git. Out: a finding for every snapshot that
differs and that no new approval left so. Never: checks that commit out, fetches anything, or trusts an approval that
was there already: what was accepted once is accepted anew when it comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from traceforge.canon import JSONObject, digest_bytes, parse_json
from traceforge.config import SNAPSHOTS_DIR
from traceforge.errors import NotFound, NotJSON
from traceforge.findings import Finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import Kept, load_approvals
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id, record_hash
from traceforge.snapshots.formats.tree_layout import Standing
from traceforge.snapshots.tree.git_commands import NoGit, find_tree, list_files, read_blobs

RULE = "AP7"

_HINT = "Record and approve it: traceforge record, then traceforge approve; or restore it from that commit."


class _Base(NamedTuple):
    """The tree of a commit: what stood there, by id, and the files of its approvals."""

    standing: dict[str, Standing]
    approvals: frozenset[str]


def check_base(project: str, ref: str, standing: Mapping[str, Standing]) -> list[Finding]:
    """Find what differs from the tree at `ref` without a new approval. Files are named relative to the tree.

    Raises:
        NotFound: Git does not know the commit, or does not have it whole.
        CannotRead, NotJSON, InvalidFile: an approval is not as it was written.
    """
    base = _load_base(project, ref)
    kept = load_approvals(f"{project}/{SNAPSHOTS_DIR}")
    new = {
        (change.id, change.after) for one in kept if one.file not in base.approvals for change in one.approval.changes
    }
    return sorted([*_differences(base, standing, new, ref), *_lost(base, kept, ref)])


def _differences(
    base: _Base, standing: Mapping[str, Standing], new: set[tuple[str, str | None]], ref: str
) -> Iterator[Finding]:
    for name in sorted({*base.standing, *standing}):
        before, now = base.standing.get(name), standing.get(name)
        if now is not None and (before is None or before.digest != now.digest):
            if (name, now.digest) not in new:
                verb = "is new since" if before is None else "differs from"
                message = f"{printable_name(name)} {verb} {ref}, and no new approval left it so"
                yield Finding(now.file, "", RULE, message, _HINT)
        elif now is None and before is not None and (name, None) not in new:
            message = f"{printable_name(name)} is gone since {ref}, and no new approval removed it"
            hint = "Restore it from that commit; to remove it, use traceforge snapshot rm."
            yield Finding(before.file, "", RULE, message, hint)


def _lost(base: _Base, kept: list[Kept], ref: str) -> Iterator[Finding]:
    """Approvals are added and never taken away."""
    for file in sorted(base.approvals - {one.file for one in kept}):
        message = f"the approval is gone since {ref}"
        yield Finding(file, "", RULE, message, "Restore it from that commit.")


def _load_base(project: str, ref: str) -> _Base:
    try:
        tree = find_tree(project, ref)
        if tree is None:
            hint = "Fetch it first, such as: git fetch --depth=1 origin main, and then --base FETCH_HEAD."
            raise NotFound(f"Git knows no commit {ref} here", hint=hint)
        files = {
            file: blob
            for file, blob in list_files(project, tree, SNAPSHOTS_DIR).items()
            if file.count("/") == 1 and file.endswith(".json") and not file.rpartition("/")[2].startswith(".")
        }
        read = dict(zip(files, read_blobs(project, list(files.values())), strict=True))
    except NoGit as exc:
        hint = "Run it in a clone that has the commit, with Git installed."
        raise NotFound(f"the snapshots at {ref} cannot be read: {exc}", hint=hint) from None
    return _Base(_standing(read), frozenset(file for file in read if file.startswith(f"{tree_layout.APPROVALS}/")))


def _standing(files: Mapping[str, bytes]) -> dict[str, Standing]:
    """What stood there, by id; broken documents stood for nothing, so that all they hold now counts as new."""
    found: dict[str, Standing] = {}
    for file, data in files.items():
        if file.partition("/")[0] not in tree_layout.RESERVED:
            for record in _records(data):
                name = record.get("id")
                if isinstance(name, str):
                    found[name] = Standing(file, record_hash(record), must_be_approved=True)
    for file, data in files.items():
        name = file.rpartition("/")[2].removesuffix(".json")
        if file.startswith(f"{tree_layout.WIRE}/") and is_snapshot_id(name) and name not in found:
            found[name] = Standing(file, digest_bytes(data), must_be_approved=True)
    return found


def _records(data: bytes) -> list[JSONObject]:
    try:
        value = parse_json(data)
    except NotJSON:
        return []
    records = value.get("snapshots") if isinstance(value, dict) else None
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else []
