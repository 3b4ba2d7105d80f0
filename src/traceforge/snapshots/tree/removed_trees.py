"""Snapshot trees that a commit has and the checkout lacks: without its tree, nothing of a project is compared. And
trees that have an older state of one of them.

In: a repository, a commit and the files and folders whose tests run. Out: a finding for each tree that is gone, in
one of the folders, above it or below it. Never: reports a tree without snapshots, whose last one was removed with an
approval, or one that was moved with all its approvals to where the tests run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set

from traceforge.config import SNAPSHOTS_DIR, find_repository
from traceforge.findings import Finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.tree.build_base import BuildBase
from traceforge.snapshots.tree.git_commands import GitUnavailable, run_git
from traceforge.snapshots.tree.git_objects import GitObjects
from traceforge.snapshots.tree.suite_folders import may_have_tests

BASE_RULE = "AP7"
_COPIED_HINT = "Copy that tree with all its approvals, or nothing of it: record and approve the calls here."
_HINT = 'Restore it from that commit, or remove its snapshots one by one: traceforge snapshot rm ID --reason "…"'


def list_tree_files(objects: GitObjects, tree: str) -> dict[str, str]:
    """The files of a snapshot tree in a commit, with the ids of their blobs; none if it is not a folder there."""
    files = {}
    for name, entry in (objects.list_folder(tree) or {}).items():
        if entry.is_file:
            files[name] = entry.id
        elif not name.startswith("."):
            for child, child_entry in (objects.list_folder(entry.id) or {}).items():
                if child_entry.is_file and child.endswith(".json") and not child.startswith("."):
                    files[f"{name}/{child}"] = child_entry.id
    return files


def list_tree_blobs(project: str, tree: str) -> dict[str, str]:
    """All files below a folder of a commit, with the ids of their blobs; none if the commit does not have it."""
    output = run_git(project, "ls-tree", "-r", "-z", "--full-tree", tree) or b""
    rows = (line.partition(b"\t") for line in output.split(b"\0") if line)
    return {name.decode(errors="surrogateescape"): head.split()[2].decode() for head, _, name in rows}


def find_removed_trees(
    objects: GitObjects, base: BuildBase, project: str, starts: Sequence[str]
) -> Iterator[Finding]:
    """Trees of the commit around the paths `starts` that are gone; that of the project itself is not looked at."""
    repository = find_repository(project)
    own = _join(_path_in(repository, project), SNAPSHOTS_DIR)
    paths = [_path_in(repository, start) for start in starts]
    trees = _list_trees(repository, base.commit)
    removed = [
        tree
        for tree in trees
        if tree != own
        and any(_is_around(os.path.dirname(tree), path) for path in paths)
        and not _is_in_place(os.path.join(repository, tree))
    ]
    for tree in removed:
        files = list_tree_files(objects, f"{base.commit}:{tree}")
        if has_snapshots(files) and not _is_moved(objects, repository, files, trees, paths):
            path = os.path.relpath(os.path.join(repository, tree), os.path.join(project, SNAPSHOTS_DIR))
            message = f"{printable_name(tree)} was removed since {base.name}, with all its snapshots"
            yield Finding(path, "", BASE_RULE, message, _HINT)


def find_copied_states(
    objects: GitObjects, base: BuildBase, root: str, approvals: Set[str], new_approvals: Set[str]
) -> Iterator[Finding]:
    """Other trees of the commit of which the tree `root` has an older state: some of `new_approvals` are theirs, and
    not all of theirs are in `approvals`. One that was moved or copied as it is in the commit has all of them, and may
    share some with a third.
    """
    names_by_tree: dict[str, set[str]] = {}
    for tree in _list_trees(find_repository(os.path.dirname(root)), base.commit):
        folder = objects.list_folder(f"{base.commit}:{tree}/{tree_layout.APPROVALS_DIR}") or {}
        names_by_tree[tree] = {f"{tree_layout.APPROVALS_DIR}/{name}" for name in folder}
    copied_whole = {name for names in names_by_tree.values() if names <= approvals for name in names}
    for tree, names in names_by_tree.items():
        missing = len(names - approvals)
        if missing and (names & new_approvals) - copied_whole:
            lacks = "an approval" if missing == 1 else f"{missing} approvals"
            verb = "is" if approvals == new_approvals else "has"
            message = (
                f"this {verb} an older state of {printable_name(tree)}: it lacks {lacks} that {base.name} has there"
            )
            yield Finding(tree_layout.APPROVALS_DIR, "", BASE_RULE, message, _COPIED_HINT)


def has_snapshots(files: dict[str, str]) -> bool:
    """Whether a tree with these files has more than approvals."""
    return any("/" in file and not file.startswith(f"{tree_layout.APPROVALS_DIR}/") for file in files)


def _list_trees(repository: str, commit: str) -> list[str]:
    """The paths of all snapshot trees in a commit."""
    output = run_git(repository, "ls-tree", "-r", "-d", "-z", "--name-only", "--full-tree", commit)
    if output is None:
        raise GitUnavailable("the tree is not in this clone")
    names = [name.decode(errors="surrogateescape") for name in output.split(b"\0")]
    return [name for name in names if os.path.basename(name) == SNAPSHOTS_DIR]


def _path_in(repository: str, folder: str) -> str:
    """A folder relative to the repository, as Git names it; "" for the root."""
    below = os.path.relpath(os.path.realpath(folder), repository).replace(os.sep, "/")
    return "" if below == "." else below


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_around(folder: str, start: str) -> bool:
    """Whether one of the two folders contains the other; both are relative to the repository."""
    first, second = _join(folder, ""), _join(start, "")
    return first.startswith(second) or second.startswith(first)


def _is_in_place(path: str) -> bool:
    """Whether a tree is where it was, and not behind a link: it may lead to a folder that pytest does not search."""
    return os.path.lexists(path) and os.path.realpath(path) == path


def _is_moved(
    objects: GitObjects, repository: str, files: dict[str, str], old_trees: list[str], paths: Sequence[str]
) -> bool:
    """Whether a tree that the commit does not have yet holds every approval of the removed one, and its tests are
    among those that run.
    """
    approvals = {item for item in files.items() if item[0].startswith(f"{tree_layout.APPROVALS_DIR}/")}
    return bool(approvals) and any(
        approvals <= list_tree_files(objects, f"HEAD:{tree}").items()
        for tree in _list_trees(repository, "HEAD")
        if tree not in old_trees and any(_is_looked_into(os.path.dirname(tree), path) for path in paths)
    )


def _is_looked_into(folder: str, start: str) -> bool:
    """Whether a tree in this folder is for the tests in `start`: above it, or where tests are looked for below it."""
    if not _join(folder, "").startswith(_join(start, "")):
        return _is_around(folder, start)
    names = folder.removeprefix(start).split("/")
    return all(may_have_tests(name) for name in names if name)
