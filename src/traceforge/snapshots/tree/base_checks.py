"""Whether every check that demands less than in another commit was approved since.

In: a project, a commit, and the approvals. Out: the checks that were removed or loosened, and a finding for each that
no new approval left as it is. Never: needs PyYAML where no check file differs, or trusts an approval that the commit
already has.

A project that is below this one in the commit has approvals of its own, so its checks are not looked at.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import UNSET

from traceforge.canon import JSON, canonical_bytes
from traceforge.config import CHECKS_DIR, CONFIG_FILE, PYPROJECT_FILE, SNAPSHOTS_DIR, find_repository, parse_config
from traceforge.errors import CannotRead, InvalidConfig, MissingExtra
from traceforge.files import read_file
from traceforge.findings import IO, Finding
from traceforge.snapshots.formats.approval_format import StoredApproval, load_approvals
from traceforge.snapshots.formats.approved_policy import SettingChange
from traceforge.snapshots.formats.model_prices import ModelPrices, find_changed_prices, list_prices
from traceforge.snapshots.formats.tree_layout import APPROVALS_DIR
from traceforge.snapshots.tree.build_base import BuildBase
from traceforge.snapshots.tree.check_comparison import (
    COST_TYPE,
    NO_PRICES,
    CheckState,
    LooserCheck,
    ReadData,
    find_looser_checks,
    read_check_states,
)
from traceforge.snapshots.tree.git_commands import GitUnavailable, run_git
from traceforge.snapshots.tree.git_objects import GitObjects, blob_id
from traceforge.snapshots.tree.removed_trees import list_tree_blobs

LOOSER_RULE = "CK5"
CHECK_SUFFIXES = (".yaml", ".yml")
DATA_SUFFIXES = (".jsonl", ".csv")
FILE_BYTES_MAX = 64 << 20

# What a change of this clone will be compared with, in a build of it: the first of these branches that it has.
_TARGETS = (
    "@{upstream}", "refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master",
    "refs/heads/main", "refs/heads/master",
)  # fmt: skip


class _ProjectFiles:
    """The files of a project, now and in a commit."""

    def __init__(self, objects: GitObjects, project: str, commit: str) -> None:
        self._objects, self._project, self._commit = objects, project, commit
        self.blobs = list_tree_blobs(project, f"{commit}:./")

    def read_old(self, path: str) -> bytes | None:
        blob = self.blobs.get(path)
        if blob is None:
            return None
        git_object = self._objects.find(blob)
        if git_object is None:
            raise GitUnavailable("a file of that commit is not in this clone")
        return git_object.data

    def read_new(self, path: str) -> bytes | None:
        try:
            return read_file(os.path.join(self._project, path), follow_links=False, bytes_max=FILE_BYTES_MAX)
        except CannotRead:
            return None

    def list_old_checks(self) -> list[str]:
        """The check files of the commit, without those of other projects."""
        projects = {posixpath.dirname(path) for path in self.blobs if posixpath.basename(path) == CONFIG_FILE}
        projects |= {path.partition(f"/{SNAPSHOTS_DIR}/")[0] for path in self.blobs if f"/{SNAPSHOTS_DIR}/" in path}
        below = tuple(f"{folder}/" for folder in projects if folder)
        return [path for path in self.blobs if _is_check_file(path) and not path.startswith(below)]

    def list_new_checks(self, old: Iterable[str]) -> list[str]:
        """The check files of the folders that have some now, or had some."""
        folders = {CHECKS_DIR} | {path[: path.rindex(CHECKS_DIR) + len(CHECKS_DIR)] for path in old}
        return [path for folder in sorted(folders) for path in self._walk(folder)]

    def _walk(self, folder: str) -> Iterator[str]:
        for parent, _, names in os.walk(os.path.join(self._project, folder)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(parent, name), self._project).replace(os.sep, "/")
                if _is_check_file(path):
                    yield path

    def is_changed(self, path: str) -> bool:
        """Whether a check file differs, or may have a data set or an assertion of the cost that does."""
        if self._has_other_bytes(path):
            return True
        data = self.read_new(path) or b""
        return (b"cases" in data and self._has_changed_data) or (
            COST_TYPE.encode() in data and self._has_changed_prices
        )

    @cached_property
    def _has_changed_data(self) -> bool:
        return any(path.endswith(DATA_SUFFIXES) and self._has_other_bytes(path) for path in self.blobs)

    @cached_property
    def _has_changed_prices(self) -> bool:
        return any(find_changed_prices(self.old_prices, self.new_prices))

    @cached_property
    def old_prices(self) -> ModelPrices:
        """The prices of models in the configuration of the commit."""
        return _read_prices(self.read_old)

    @cached_property
    def new_prices(self) -> ModelPrices:
        """The prices of models in the configuration now."""
        return _read_prices(self.read_new)

    def _has_other_bytes(self, path: str) -> bool:
        data, blob = self.read_new(path), self.blobs[path]
        return data is None or blob_id(data, blob) != blob


def find_changed_checks(objects: GitObjects, commit: str, project: str) -> list[LooserCheck]:
    """The checks that demand less than in a commit, or are gone.

    Raises:
        MissingExtra: check files differ, and PyYAML is not installed.
        GitUnavailable: a file of the commit is not in this clone.
    """
    files = _ProjectFiles(objects, project, commit)
    old_paths = files.list_old_checks()
    if not any(files.is_changed(path) for path in old_paths):
        return []
    before = [state for path in old_paths for state in _read_states(files.read_old, path, files.old_prices)]
    new_paths = files.list_new_checks(old_paths)
    after = [state for path in new_paths for state in _read_states(files.read_new, path, files.new_prices)]
    return list(find_looser_checks(before, after))


def check_looser_checks(objects: GitObjects, base: BuildBase, project: str) -> Iterator[Finding]:
    """A finding for each check that demands less than in the base, and that no new approval left like this.

    Raises:
        CannotRead, NotJSON, InvalidFile: an approval is damaged.
    """
    try:
        changed = find_changed_checks(objects, base.commit, project)
    except MissingExtra as exc:
        message = f"check files differ from {base.name}, and cannot be compared here: {exc.message}"
        yield Finding(CHECKS_DIR, "", IO, message, exc.hint)
        return
    for looser in select_unapproved(objects, base.commit, project, changed):
        yield _finding(looser, base)


def is_about_checks(finding: Finding) -> bool:
    """Whether a finding of a comparison is about check files, which are outside of the snapshot tree."""
    return finding.rule == LOOSER_RULE or finding.file == CHECKS_DIR


def select_unapproved(
    objects: GitObjects, commit: str, project: str, changed: Sequence[LooserCheck]
) -> list[LooserCheck]:
    """Those of the changed checks that no approval which the commit lacks left as they are."""
    if not changed:
        return []
    old = objects.list_folder(f"{commit}:./{SNAPSHOTS_DIR}/{APPROVALS_DIR}") or {}
    new_approvals = [
        stored
        for stored in load_approvals(os.path.join(project, SNAPSHOTS_DIR))
        if os.path.basename(stored.file) not in old
    ]
    approved = _list_approved(new_approvals)
    return [looser for looser in changed if (looser.before.setting, _state_key(looser)) not in approved]


def find_local_changes(project: str, ref: str = "") -> list[SettingChange]:
    """The checks to approve on this machine: those that demand less than in the latest commit, in the branch that
    this one will be merged into, or in the commit `ref`. None outside of a repository.

    Raises:
        MissingExtra: check files differ, and PyYAML is not installed.
        CannotRead, NotJSON, InvalidFile: an approval is damaged.
    """
    if not os.path.lexists(os.path.join(find_repository(project), ".git")):
        return []
    by_setting: dict[str, LooserCheck] = {}
    try:
        with GitObjects(project) as objects:
            for commit in dict.fromkeys(_list_local_bases(project, ref)):
                changed = find_changed_checks(objects, commit, project)
                for looser in select_unapproved(objects, commit, project, changed):
                    by_setting.setdefault(looser.before.setting, looser)
    except GitUnavailable:
        return []  # Nothing is approved by mistake: what a build then finds names its commit.
    return [_setting_change(looser) for _, looser in sorted(by_setting.items())]


def _list_local_bases(project: str, ref: str) -> Iterator[str]:
    for name in filter(None, (ref, "HEAD")):
        if (output := run_git(project, "rev-parse", "--verify", "-q", f"{name}^{{commit}}")) is not None:
            yield output.decode().strip()
    for tip in _TARGETS:
        if output := run_git(project, "merge-base", "--end-of-options", tip, "HEAD"):
            yield output.decode().strip()
            return


def _read_prices(read: ReadData) -> ModelPrices:
    """The prices in the configuration; none where it cannot be read: then no assertion of the cost holds."""
    try:
        return list_prices(parse_config(read(CONFIG_FILE), read(PYPROJECT_FILE)).models)
    except InvalidConfig:
        return NO_PRICES


def _read_states(read: ReadData, path: str, prices: ModelPrices) -> list[CheckState]:
    data = read(path)
    if data is None:
        return []

    def read_beside(name: str) -> bytes | None:
        data_set = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        return None if data_set.startswith(("../", "/")) else read(data_set)  # `check run` reads none from elsewhere.

    return read_check_states(data, path, read_beside, prices)


def _list_approved(approvals: Iterable[StoredApproval]) -> set[tuple[str, bytes]]:
    policies: list[Mapping[str, JSON]] = [
        {name: setting.after for name, setting in stored.approval.policy.items()}
        for stored in approvals
        if stored.approval.policy is not UNSET
    ]
    return {(name, canonical_bytes(after)) for policy in policies for name, after in policy.items()}


def _state_key(looser: LooserCheck) -> bytes:
    return canonical_bytes(looser.after.digest if looser.after is not None else None)


def _setting_change(looser: LooserCheck) -> SettingChange:
    after = looser.after.digest if looser.after is not None else None
    return SettingChange(looser.before.setting, looser.before.digest, after)


def _finding(looser: LooserCheck, base: BuildBase) -> Finding:
    state = looser.after
    place = f"line {state.mark.line} column {state.mark.column}" if state is not None else ""
    message = (
        f"the check {looser.before.name!r} demands less than in {base.name}, and no new approval has "
        f"it: {'; '.join(looser.reasons)}"
    )
    hint = f'Undo the change, or approve it: traceforge approve --policy --base {base.name} --reason "…"'
    return Finding(looser.before.file, place, LOOSER_RULE, message, hint)


def _is_check_file(path: str) -> bool:
    return CHECKS_DIR in path.split("/")[:-1] and path.lower().endswith(CHECK_SUFFIXES)
