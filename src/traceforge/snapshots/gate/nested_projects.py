"""The projects below a project whose tests a command runs: in a monorepo, each package may have snapshots.

In: a project, the paths that a command asks for, and the scopes of its calls. Out: the project that each scope
belongs to, which is the nearest folder upwards from its file that has `.ai-snapshots`, as for the pytest plugin.
Never: fails because of a damaged tree that a command does not ask for, or that is the same in the base of a build.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from traceforge.build_environment import is_ci
from traceforge.capture.run.suite_events import SuiteEvents
from traceforge.config import (
    CONFIG_FILE,
    SNAPSHOTS_DIR,
    find_project,
    find_repository,
    load_config,
)
from traceforge.errors import TraceForgeError
from traceforge.findings import IO, Finding
from traceforge.replay.player import Player
from traceforge.snapshots.formats.approval_format import load_approvals
from traceforge.snapshots.formats.approved_policy import POLICY_RULE
from traceforge.snapshots.gate.gate_findings import GateFinding
from traceforge.snapshots.gate.gate_judgement import RunObservations
from traceforge.snapshots.gate.unselected_tests import (
    AskedFiles,
    find_unselected_tests,
    find_whole_paths,
    is_below,
    list_asked_files,
)
from traceforge.snapshots.tree.approval_chain import ApprovalChain
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.base_commit import BaseCheck, check_against_base, has_tree_of_base
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots, open_snapshots
from traceforge.snapshots.tree.run_scopes import find_scope_file, is_test_scope
from traceforge.snapshots.tree.suite_folders import list_subfolders

_SIGN_HINT = 'Set "approvals": { "require_signed": true } there too, and approve it with a signature.'
_DAMAGED_HINT = "Restore it: git checkout COMMIT -- FOLDER. A tree that is the same in the base may be damaged."


def list_nested_folders(project: str, paths: Sequence[str]) -> list[str]:
    """The folders with snapshots below a project, around and below some paths; the deepest first."""
    project = os.path.realpath(project)
    folders: set[str] = set()
    for path in map(os.path.realpath, paths):
        folder = path
        while folder.startswith(os.path.join(project, "")):
            folders.add(folder)
            folder = os.path.dirname(folder)
        folders.update(list_subfolders(path))
    nested = [folder for folder in folders if os.path.lexists(os.path.join(folder, SNAPSHOTS_DIR))]
    return sorted((folder for folder in nested if folder != project), key=lambda folder: (-len(folder), folder))


def compare_project(
    snapshots: ProjectSnapshots, base: str | None, starts: Sequence[str], *, require_signed: bool = False
) -> BaseCheck:
    """Compare the tree and the settings of a project with the commit `base`, and in CI with the base of the build.

    Every new approval must be signed where `require_signed` is set or a project above requires signatures: a new tree
    takes over the tests of those above it. `starts` as in `check_against_base`.

    Raises:
        TraceForgeError: as `check_against_base`.
    """
    loaded = snapshots.loaded
    require_signed = require_signed or is_below_signed_project(loaded.project)
    if require_signed and not loaded.config.approvals.require_signed:
        message = "the project above requires signed approvals, and this one does not"
        finding = Finding(CONFIG_FILE, "$.approvals.require_signed", POLICY_RULE, message, _SIGN_HINT)
        return BaseCheck(findings=(finding,))
    return check_against_base(
        loaded.project,
        snapshots.tree_report.stored,
        base,
        starts=starts,
        loaded=loaded,
        require_signed=require_signed,
    )


def is_below_signed_project(project: str) -> bool:
    """Whether a project above it in the same repository requires signatures, or has approved to require them.

    Approvals above that cannot be read may require them, so they count as if they did.
    """
    folder, repository = os.path.realpath(project), find_repository(project)
    while folder != repository:
        folder = os.path.dirname(folder)
        if find_project(folder) == folder and _requires_signatures(folder):
            return True
    return False


def _requires_signatures(project: str) -> bool:
    try:
        if load_config(project).config.approvals.require_signed:
            return True
    except TraceForgeError:
        pass  # Its approvals say what was approved.
    try:
        return ApprovalChain(load_approvals(os.path.join(project, SNAPSHOTS_DIR))).requires_signatures()
    except TraceForgeError:
        return True


class NestedProject:
    """A project below another one; its snapshots are opened when they are first needed."""

    def __init__(self, folder: str, words: Sequence[str], current_folder: str) -> None:
        self.folder = folder
        self._words, self._current_folder = words, current_folder
        below = os.path.relpath(folder, os.path.realpath(current_folder)).replace(os.sep, "/")
        self._differences: Sequence[Finding] = ()
        self.prefix = "" if below.startswith("..") or below == "." else f"{below}/"

    @cached_property
    def snapshots(self) -> ProjectSnapshots:
        """The snapshots, with a player that knows the tests of this project by the names they have in its folder.

        Raises:
            TraceForgeError: the configuration or the key of the project cannot be used.
        """
        snapshots = open_snapshots(load_config(self.folder))
        snapshots.player.scope_prefix = self.prefix
        return snapshots

    def compare_with_base(self, base: str | None, *, require_signed: bool) -> None:
        """Compare the tree with the commit `base`, and in CI with that of the build. `require_signed`: so does the
        project above, whose tests a new tree below could take over.
        """
        if self.can_answer:
            compared = compare_project(self.snapshots, base, [self.folder], require_signed=require_signed)
            self._differences = compared.findings
        if is_ci():  # Both are cached: files are read before the command runs, which could change them.
            _ = self.asked_files if self.can_answer else self.is_unchanged

    @property
    def problems(self) -> Sequence[Finding]:
        """Why the tree cannot be judged by: its own findings, or what differs from the base."""
        return self.snapshots.findings or self._differences

    @property
    def can_answer(self) -> bool:
        """Whether the tree verifies, and can answer calls."""
        try:
            return not self.snapshots.findings
        except TraceForgeError:
            return False

    @cached_property
    def is_unchanged(self) -> bool:
        """Whether the tree is the same in the base of the build."""
        return has_tree_of_base(self.folder)

    @cached_property
    def asked_files(self) -> AskedFiles | None:
        """The files of tests with approved calls that the command asks for."""
        return list_asked_files(self.snapshots, self._words, self._current_folder)

    @property
    def failure(self) -> str:
        """Why the tree cannot answer, in one line."""
        try:
            return self.snapshots.findings[0].message
        except TraceForgeError as exc:
            return exc.message

    def name_finding(self, gate_finding: GateFinding) -> GateFinding:
        """A finding with its tests and files as they are named in the current folder."""
        scopes = tuple(self._add_prefix(scope) for scope in gate_finding.scopes)
        return gate_finding._replace(finding=self.name_location(gate_finding.finding), scopes=scopes)

    def name_location(self, finding: Finding) -> Finding:
        """A finding about a test or a file of the project, named as in the current folder."""
        return finding._replace(file=self._add_prefix(finding.file))

    def _add_prefix(self, name: str) -> str:
        file = name.partition("::")[0].partition(":")[0]
        if os.path.exists(os.path.join(self.folder, SNAPSHOTS_DIR, file)):
            return f"{self.prefix}{SNAPSHOTS_DIR}/{name}"
        is_below = os.path.exists(os.path.join(self.folder, file)) and not name.startswith(self.prefix or "/")
        return f"{self.prefix}{name}" if is_below else name


class NestedProjects:
    """The projects below one, and which of them a scope belongs to."""

    def __init__(self, project: str, words: Sequence[str], current_folder: str) -> None:
        self._current_folder = os.path.realpath(current_folder)
        paths = find_whole_paths(words, current_folder) or [current_folder]
        folders = list_nested_folders(project, paths)
        self.projects = [NestedProject(folder, words, current_folder) for folder in folders]
        # Node ids begin at the root of pytest, which may be the current folder, or a path that it was given.
        self._starts = [self._current_folder, *paths, *(nested.folder for nested in self.projects)]
        self._owners: dict[str, NestedProject | None] = {}  # by file

    def find_owner(self, scope: str) -> NestedProject | None:
        """The project of a test, a fixture or an import; None: it belongs to no project below."""
        if not self.projects:
            return None
        file = find_scope_file(scope)
        if file not in self._owners:
            self._owners[file] = self._find_nearest(file) if file else None
        return self._owners[file]

    def choose_player(self, scope: str, default: Player) -> Player:
        """The player that answers the calls of a scope."""
        owner = self.find_owner(scope)
        return owner.snapshots.player if owner is not None and owner.can_answer else default

    def compare_with_base(self, base: str | None, *, require_signed: bool) -> None:
        """Compare every tree that can answer with a commit."""
        for nested in self.projects:
            nested.compare_with_base(base, require_signed=require_signed)

    def list_approved_calls(self) -> Iterator[ApprovedCall]:
        """The approved calls of the projects that can answer."""
        for nested in self.projects:
            if nested.can_answer:
                yield from nested.snapshots.approved_calls

    def list_judged(self, suite: SuiteEvents) -> set[str]:
        """The folders of the projects whose tests were collected, or ran."""
        owners = map(self.find_owner, {*suite.collected, *suite.tests, *suite.scope_starts})
        return {owner.folder for owner in owners if owner is not None}

    def select_events(
        self, suite: SuiteEvents, snapshots: ProjectSnapshots, owner: NestedProject | None = None
    ) -> SuiteEvents:
        """The events of the scopes that belong to a project with these snapshots, by the names that they have in its
        folder; and of tests that a project below has taken over, though this one still has approved calls of theirs.
        """
        name_scope = snapshots.player.name_scope
        if not self.projects:
            return suite.rename_scopes(name_scope)
        approved = {turn.scope for call in snapshots.approved_calls for turn in call.turns}

        def is_taken_over(scope: str) -> bool:
            nearest = self.find_owner(scope) if is_test_scope(scope) and name_scope(scope) in approved else None
            return nearest is not None and (owner is None or is_below(nearest.folder, owner.folder))

        return suite.rename_scopes(name_scope, lambda scope: self.find_owner(scope) is owner or is_taken_over(scope))

    def _find_nearest(self, file: str) -> NestedProject | None:
        paths = (os.path.realpath(os.path.join(start, file)) for start in self._starts)
        path = next((path for path in paths if os.path.exists(path)), "")
        nearest = (nested for nested in self.projects if f"{path}/".startswith(f"{nested.folder}/"))
        return next(nearest, None)  # The deepest is the first.


def list_nested_projects(project: str, words: Sequence[str], current_folder: str) -> list[NestedProject]:
    """The projects below one that a pytest command asks for, if it chooses no tests itself."""
    folders = list_nested_folders(project, find_whole_paths(words, current_folder) or ())
    return [NestedProject(folder, words, current_folder) for folder in folders]


def find_left_out_projects(
    projects: Iterable[NestedProject], judged: Collection[str], words: Sequence[str], current_folder: str
) -> Iterator[Finding]:
    """In CI: tests with approved calls of projects of which nothing was collected, although the command `words` asks
    for all tests, also where their files are gone; and the trees of such projects that cannot be used,
    unless they are the same in the base.
    """
    paths = find_whole_paths(words, current_folder) if is_ci() else None
    for nested in projects if paths is not None else ():
        if nested.folder in judged:
            continue
        if nested.can_answer:
            unselected = find_unselected_tests(
                nested.snapshots, {}, nested.asked_files, RunObservations(), prefix=nested.prefix
            )
            yield from map(nested.name_location, unselected)
        elif any(is_below(nested.folder, path) for path in paths or ()) and not nested.is_unchanged:
            tree = f"{nested.prefix}{SNAPSHOTS_DIR}"
            message = f"{tree} cannot be used, and none of its tests ran: {nested.failure}"
            yield Finding(tree, "", IO, message, _DAMAGED_HINT.replace("FOLDER", tree))
