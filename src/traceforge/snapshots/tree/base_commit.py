"""Whether everything that differs from another commit was approved since.

In: the snapshots and the settings of a project now, and those of a commit, read from Git. Out: a finding for every
snapshot and every setting that differs without a new approval. Never: checks that commit out, fetches anything, or
trusts an approval that the commit already has, here or in another folder: bringing an old state back needs a new one.

A file with the bytes that it had in the commit is not read from Git: its name is the digest of its content.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import UNSET, Struct

from traceforge.build_environment import build_environment, is_ci
from traceforge.canon import JSONObject, canonical_bytes, digest_bytes, parse_json
from traceforge.config import (
    CONFIG_FILE,
    PYPROJECT_FILE,
    SNAPSHOTS_DIR,
    LoadedConfig,
    find_repository,
    parse_config,
)
from traceforge.errors import BaseUnavailable, CannotRead, InvalidConfig, NotFound, NotJSON
from traceforge.files import read_file, walk_folders
from traceforge.findings import Finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import StoredApproval, load_approvals
from traceforge.snapshots.formats.approved_policy import (
    APPROVE_COMMAND,
    POLICY_RULE,
    ApprovedSettings,
    find_policy_changes,
    list_policy_settings,
)
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id, record_hash
from traceforge.snapshots.formats.tree_layout import StoredSnapshot
from traceforge.snapshots.tree.approval_chain import ApprovalChain
from traceforge.snapshots.tree.approval_check import load_signature_check
from traceforge.snapshots.tree.base_checks import check_looser_checks, is_about_checks
from traceforge.snapshots.tree.build_base import BuildBase, find_build_base, not_in_clone
from traceforge.snapshots.tree.git_commands import GitUnavailable
from traceforge.snapshots.tree.git_objects import GitObjects, blob_id
from traceforge.snapshots.tree.removed_trees import (
    BASE_RULE,
    find_copied_states,
    find_removed_trees,
    list_tree_blobs,
    list_tree_files,
)

_HINT = (
    "Restore it: git checkout COMMIT -- .ai-snapshots; or record and approve the change. After git revert, approve "
    'the tree as it is: traceforge approve --tree --reason "…"'
)
_GIT_HINT = "Install Git, or allow it here: git config --global --add safe.directory FOLDER"


class BaseCheck(Struct, frozen=True):
    """What the snapshots were compared with, in one line, and the findings; the line is empty where nothing asks."""

    line: str = ""
    findings: tuple[Finding, ...] = ()  # files are relative to the tree; those of checks, to the project
    is_compared: bool = False  # with a commit

    def name_files(self, root: str) -> list[Finding]:
        """The findings with files relative to the folder that `root`, the tree, is relative to."""
        folders = {True: os.path.join(root, os.pardir), False: root}
        return [
            finding
            if finding.rule == POLICY_RULE
            else finding._replace(
                file=os.path.normpath(os.path.join(folders[is_about_checks(finding)], finding.file))
            )
            for finding in self.findings
        ]


class _BaseTree(Struct, frozen=True):
    """The tree of a commit: its snapshots by id, and its approvals and their hashes where the files differ now."""

    stored: dict[str, StoredSnapshot]
    approvals: frozenset[str]
    changed_approvals: dict[str, object]


def check_against_base(
    project: str,
    stored: Mapping[str, StoredSnapshot],
    ref: str | None = None,
    *,
    starts: Sequence[str] = (),
    loaded: LoadedConfig | None = None,
    require_signed: bool = False,
) -> BaseCheck:
    """Compare the snapshots of a project, and its settings where they are given as `loaded`, with the commit `ref`;
    without one, in CI, with the base of the build.

    `starts` are the files and folders that the project was found from, or whose tests run: a tree that is gone above
    or below one of them is found as well.
    On a developer's machine nothing is compared without `ref`. With `require_signed`, every new approval must be
    signed by a signer whom that commit allows.

    Raises:
        NotFound: Git does not know `ref`.
        BaseUnavailable: the base of the build is not in this clone, or cannot be found out.
        CannotRead, NotJSON, InvalidFile: an approval is damaged.
    """
    if ref is None and not is_ci():
        return BaseCheck()
    with _open_base(project, ref) as (objects, base):
        if objects is None or not base.commit:
            return BaseCheck(base.line)
        findings = [
            *_check_tree(objects, base, f"{project}/{SNAPSHOTS_DIR}", stored, loaded, require_signed),
            *find_removed_trees(objects, base, project, starts or [project]),
            *check_looser_checks(objects, base, project),
        ]
        return BaseCheck(base.line, tuple(sorted(findings)), is_compared=True)


def check_checks_against_base(project: str, ref: str | None = None) -> BaseCheck:
    """Compare the check files of a project alone, as `check_against_base` does.

    Raises:
        NotFound, BaseUnavailable, CannotRead, NotJSON, InvalidFile: as `check_against_base`.
    """
    if ref is None and not is_ci():
        return BaseCheck()
    with _open_base(project, ref) as (objects, base):
        findings = check_looser_checks(objects, base, project) if objects is not None and base.commit else ()
        return BaseCheck(base.line, tuple(findings))


def has_tree_of_base(project: str) -> bool:
    """Whether the build has a base, and the snapshot tree of a project has exactly the files that it has there."""
    root = os.path.join(project, SNAPSHOTS_DIR)
    try:
        with _open_base(project, None) as (objects, base):
            if objects is None or not base.commit:
                return False
            blobs = list_tree_blobs(project, f"{base.commit}:./{SNAPSHOTS_DIR}")
    except BaseUnavailable:
        return False
    paths = [os.path.join(folder, name) for folder, folders, names in walk_folders(root) for name in names]
    files = {os.path.relpath(path, root).replace(os.sep, "/"): path for path in paths}
    return files.keys() == blobs.keys() and all(_has_blob(files[name], blob) for name, blob in blobs.items())


def find_gone_files(project: str, names: Iterable[str]) -> list[str]:
    """Which of these files of a project the base of the build has and the checkout lacks; none without a base."""
    missing = sorted(name for name in names if not os.path.lexists(os.path.join(project, name)))
    if not missing:
        return []
    try:
        with _open_base(project, None) as (objects, base):
            if objects is None or not base.commit:
                return []
            searchable = [name for name in missing if "\n" not in name]
            return [name for name in searchable if objects.find(f"{base.commit}:./{name}") is not None]
    except BaseUnavailable:
        return []


def find_base(project: str) -> BuildBase:
    """The base of this build, as `check_against_base` takes it in CI.

    Raises:
        BaseUnavailable: it is not in this clone, or cannot be found out.
    """
    with _open_base(project, None) as (_, base):
        return base


@contextmanager
def _open_base(project: str, ref: str | None) -> Iterator[tuple[GitObjects | None, BuildBase]]:
    """The base, and the repository it is in while it is open; None outside of a repository."""
    if ref is None and not _has_repository(project):
        yield None, BuildBase("", "this is not a Git repository")
        return
    base: BuildBase | None = None
    try:
        with GitObjects(project) as objects:
            base = (
                find_build_base(objects, project, build_environment())
                if ref is None
                else _find_named_base(objects, ref)
            )
            yield objects, base
    except GitUnavailable as exc:
        if base is not None:  # A partial clone has the commit without its files.
            fetch = ("--no-tags", "--refetch", "--no-filter", "origin", base.commit)
            raise not_in_clone(f"a file of {base.name}", fetch) from None
        if ref is not None:
            hint = "Run it in a clone that has the commit, with Git installed."
            reason = exc if _has_repository(project) else "not a Git repository"
            raise NotFound(f"the snapshots at {ref} cannot be read: {reason}", hint=hint) from None
        raise BaseUnavailable(f"Git cannot say what this build is compared with: {exc}", hint=_GIT_HINT) from None


def _find_named_base(objects: GitObjects, ref: str) -> BuildBase:
    commit = objects.find(f"{ref}^{{commit}}") if ref else None
    if commit is None:
        hint = "Fetch it first, such as: git fetch --depth=1 origin main, and then --base FETCH_HEAD."
        raise NotFound(f"Git knows no commit {ref} here", hint=hint)
    return BuildBase(commit.id, "", ref)


def _check_tree(
    objects: GitObjects,
    base: BuildBase,
    root: str,
    stored: Mapping[str, StoredSnapshot],
    loaded: LoadedConfig | None,
    require_signed: bool,
) -> Iterator[Finding]:
    before = _load_base(objects, base, root, stored)
    if not before.stored and not os.path.lexists(root):
        return  # Its last snapshot was removed with an approval.
    approvals = load_approvals(root)
    new_approvals = [stored_approval for stored_approval in approvals if stored_approval.file not in before.approvals]
    if new_approvals:
        files = {stored_approval.file for stored_approval in approvals}
        yield from find_copied_states(objects, base, root, files, files - before.approvals)
    new_states = {
        (change.id, change.after) for stored_approval in new_approvals for change in stored_approval.approval.changes
    }
    yield from _find_differences(before, stored, new_states, base.name)
    yield from _find_lost_approvals(before, approvals, base.name)
    old_approvals = [stored_approval for stored_approval in approvals if stored_approval.file in before.approvals]
    if require_signed or ApprovalChain(old_approvals).requires_signatures():
        signers = objects.find(f"{base.commit}:./{SNAPSHOTS_DIR}/{tree_layout.SIGNERS_NAME}")
        data = signers.data if signers is not None else None
        yield from load_signature_check().check_new_signatures(root, new_approvals, data, base.name)
    if loaded is not None:
        settings = ApprovalChain(old_approvals).approved_settings()
        if settings is None:
            settings = _read_base_settings(objects, base)
        approved = ApprovalChain(approvals).approved_settings()
        reported = find_policy_changes(loaded.config, approved) if approved is not None else []
        names = {change.name for change in reported}  # Findings of the tree itself; one of each is enough.
        for finding_name, finding in _find_changed_settings(loaded, settings, new_approvals, base.name):
            if finding_name not in names:
                yield finding


def _find_differences(
    before: _BaseTree, stored: Mapping[str, StoredSnapshot], new_states: set[tuple[str, str | None]], base: str
) -> Iterator[Finding]:
    for name in sorted({*before.stored, *stored}):
        old, current = before.stored.get(name), stored.get(name)
        if current is not None and (old is None or old.digest != current.digest):
            if (name, current.digest) not in new_states:
                verb = "is new since" if old is None else "differs from"
                message = f"{printable_name(name)} {verb} {base}, and no new approval left it in this state"
                yield Finding(current.file, "", BASE_RULE, message, _HINT)
        elif current is not None and old is not None and _is_moved(old, current):
            if (name, current.digest) not in new_states:
                message = f"{printable_name(name)} was moved since {base}, and no new approval left it there"
                yield Finding(current.file, "", BASE_RULE, message, "Move it back: the folder names its provider.")
        elif current is None and old is not None and (name, None) not in new_states:
            message = f"{printable_name(name)} was removed since {base} without a new approval"
            remove = f'traceforge snapshot rm {printable_name(name)} --reason "…"'
            hint = f"Restore it from that commit; to remove it, run: {remove}"
            yield Finding(old.file, "", BASE_RULE, message, hint)


def _is_moved(old: StoredSnapshot, current: StoredSnapshot) -> bool:
    """Whether the snapshot is in the folder of another provider."""
    return os.path.dirname(old.file) != os.path.dirname(current.file)


def _find_lost_approvals(before: _BaseTree, approvals: list[StoredApproval], base: str) -> Iterator[Finding]:
    """Approvals that the commit has and the tree lacks, or has otherwise: they are never removed or changed."""
    hashes = {stored_approval.file: stored_approval.approval.hash for stored_approval in approvals}
    for file in sorted(before.approvals):
        if file not in hashes:
            message = f"the approval was removed since {base}"
        elif file in before.changed_approvals and before.changed_approvals[file] != hashes[file]:
            message = f"the approval differs from {base}"
        else:
            continue
        yield Finding(file, "", BASE_RULE, message, "Restore it from that commit.")


def _read_base_settings(objects: GitObjects, base: BuildBase) -> ApprovedSettings:
    """The settings of a commit whose policy was not approved yet: they count as approved. A configuration that cannot
    be read counts as none.
    """
    own, shared = (objects.find(f"{base.commit}:./{name}") for name in (CONFIG_FILE, PYPROJECT_FILE))
    try:
        config = parse_config(own.data if own is not None else None, shared.data if shared is not None else None)
    except InvalidConfig:
        return {}
    settings = list_policy_settings(config)
    return {name: [setting.value] for name, setting in settings.items() if not setting.is_default}


def _find_changed_settings(
    loaded: LoadedConfig, settings: ApprovedSettings, new_approvals: Sequence[StoredApproval], base: str
) -> Iterator[tuple[str, Finding]]:
    """Settings that differ from those of the commit, and that no new approval left as they are; with their names."""
    new_settings = {
        (name, canonical_bytes(change.after))
        for stored_approval in new_approvals
        if stored_approval.approval.policy is not UNSET
        for name, change in stored_approval.approval.policy.items()
    }
    for change in find_policy_changes(loaded.config, settings):
        if (change.name, canonical_bytes(change.after)) not in new_settings:
            message = f"differs from {base}, and no new approval has it: {change.describe()}"
            hint = f"Undo the change, or approve it: {APPROVE_COMMAND}"
            file = loaded.file.partition(" ")[0] or CONFIG_FILE
            yield change.name, Finding(file, f"$.{change.name}", POLICY_RULE, message, hint)


def _has_repository(project: str) -> bool:
    return os.path.lexists(os.path.join(find_repository(project), ".git"))


def _load_base(objects: GitObjects, base: BuildBase, root: str, stored: Mapping[str, StoredSnapshot]) -> _BaseTree:
    files = list_tree_files(objects, f"{base.commit}:./{SNAPSHOTS_DIR}")
    changed = {
        file: _read_blob(objects, blob) for file, blob in files.items() if not _has_blob(f"{root}/{file}", blob)
    }
    approvals = [file for file in files if file.startswith(f"{tree_layout.APPROVALS_DIR}/")]
    return _BaseTree(
        _list_stored(files, changed, root, stored),
        frozenset(approvals),
        {file: _parse_object(changed[file]).get("hash") for file in approvals if file in changed},
    )


def _read_blob(objects: GitObjects, blob: str) -> bytes:
    git_object = objects.find(blob)
    if git_object is None:
        raise GitUnavailable("a file of that commit is not in this clone")
    return git_object.data


def _has_blob(path: str, blob: str) -> bool:
    """Whether a file has the bytes that it has in the commit."""
    try:
        return blob_id(read_file(path, follow_links=False), blob) == blob
    except CannotRead:
        return False


def _list_stored(
    files: Mapping[str, str], changed: Mapping[str, bytes], root: str, stored: Mapping[str, StoredSnapshot]
) -> dict[str, StoredSnapshot]:
    """The snapshots of the commit, by id. A broken document counts as empty, so that all it holds now is new."""
    before = {
        name: snapshot for name, snapshot in stored.items() if snapshot.file in files and snapshot.file not in changed
    }
    for file, data in changed.items():
        if "/" in file and file.partition("/")[0] not in tree_layout.RESERVED_DIRS:
            for record in _parse_records(data):
                name = record.get("id")
                if isinstance(name, str):
                    before[name] = StoredSnapshot(file, record_hash(record), must_be_approved=True)
    for file in files:
        name = file.rpartition("/")[2].removesuffix(".json")
        if file.startswith(f"{tree_layout.WIRE_DIR}/") and is_snapshot_id(name) and name not in before:
            data = changed[file] if file in changed else read_file(f"{root}/{file}", follow_links=False)
            before[name] = StoredSnapshot(file, digest_bytes(data), must_be_approved=True)
    return before


def _parse_object(data: bytes) -> JSONObject:
    """A JSON object; an empty one for anything else."""
    try:
        value = parse_json(data)
    except NotJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _parse_records(data: bytes) -> list[JSONObject]:
    records = _parse_object(data).get("snapshots")
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else []
