"""The commit that a build is compared with, as its CI service names it.

In: the variables of GitHub Actions or GitLab CI, GitHub's event file, and the repository. Out: a commit and which one
it is, or why there is none. Never: takes a commit that the author of a pull request could choose, fetches anything,
or trusts the event file: it is bounded, and a value that is not a commit id is an error.

    GitHub  pull request    the first parent of the merge commit, else the merge base with the pull request's base
            merge queue     `merge_group.base_sha`
            push            `before`; for a new or rewritten branch, the merge base with the default branch
    GitLab  merge request   the target branch in a merged result or merge train, else the base of the diff
            push            CI_COMMIT_BEFORE_SHA, as above
    both    tag, schedule, manual run and others: none
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.errors import BaseUnavailable, CannotRead, NotJSON
from traceforge.files import read_file
from traceforge.snapshots.tree.git_commands import run_git
from traceforge.snapshots.tree.git_objects import GitObjects

EVENT_BYTES_MAX = 32 << 20  # GitHub sends at most 25 MB.
SHOWN_DIGITS = 12

_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_MERGE_REF = re.compile(r"refs/pull/[0-9]+/merge\Z")
_BRANCH_NAME = re.compile(r"(?!-)(?!.*(?:\.\.|//|@\{))[^\x00-\x20\x7f~^:?*\[\\]{1,255}\Z")


class BuildBase(Struct, frozen=True):
    """The commit that a build is compared with; `commit` is empty where there is none."""

    commit: str
    reason: str  # which commit it is, or why there is none
    ref: str = ""  # as the user named it

    @property
    def name(self) -> str:
        """How messages name the commit."""
        return self.ref or self.commit[:SHOWN_DIGITS]

    @property
    def line(self) -> str:
        """One line for a report; none about a commit that the user named."""
        if self.ref:
            return ""
        if self.commit:
            return f"compared with {self.name}, {self.reason}"
        return f"compared with no other commit: {self.reason}"


def find_build_base(objects: GitObjects, project: str, environ: Mapping[str, str]) -> BuildBase:
    """The base of this build, in the repository around a project.

    Raises:
        BaseUnavailable: the base is known and not in this clone, or what names it cannot be read.
        GitUnavailable: Git cannot be run, or refuses to read this repository.
    """
    build = _Build(objects, project, environ)
    if environ.get("GITHUB_EVENT_NAME"):
        return build.find_github_base()
    if environ.get("GITLAB_CI"):
        return build.find_gitlab_base()
    return BuildBase("", "this CI service does not say which; to name one: traceforge verify --base REF")


class _Build:
    """One build of a CI service."""

    def __init__(self, objects: GitObjects, project: str, environ: Mapping[str, str]) -> None:
        self._objects = objects
        self._project = project
        self._environ = environ

    def find_github_base(self) -> BuildBase:
        name, ref = self._environ.get("GITHUB_EVENT_NAME", ""), self._environ.get("GITHUB_REF", "")
        if name.startswith("pull_request"):
            return self._find_pull_request_base(ref)
        if name == "merge_group":
            commit = _read_commit_id(self._read_event(), "merge_group", "base_sha")
            return self._require(commit, "the base of the merge queue")
        if name == "push" and not ref.startswith("refs/tags/"):
            event = self._read_event()
            if event.get("deleted") is True:
                return BuildBase("", "this build is of a branch that was deleted")
            default = _read_branch_name(event, "repository", "default_branch")
            before = _read_commit_id(event, "before")
            is_rewritten = event.get("forced") is True and ref != f"refs/heads/{default}"
            return self._find_push_base(before, ref.removeprefix("refs/heads/"), default, is_rewritten=is_rewritten)
        trigger = "a tag" if ref.startswith("refs/tags/") else f"the event {_printable(name)}"
        return BuildBase("", f"this build is of {trigger}")

    def _find_pull_request_base(self, ref: str) -> BuildBase:
        """The merge commit is GitHub's own only where it is the commit of this build: any other one that is checked
        out is the author's, and so are its parents.
        """
        sha = self._environ.get("GITHUB_SHA", "")
        if _MERGE_REF.match(ref) and _COMMIT_ID.match(sha):
            head = self._objects.find("HEAD")
            parents = self._objects.find_parents("HEAD") or []
            if head is not None and head.id == sha and len(parents) > 1:
                return self._require(parents[0], "the first parent of the merge commit")
        tip = _read_commit_id(self._read_event(), "pull_request", "base", "sha")
        return self._find_merge_base(tip, tip, "the merge base with the target branch") or self._require(
            tip, "the base of the pull request"
        )

    def find_gitlab_base(self) -> BuildBase:
        environ = self._environ
        if environ.get("CI_MERGE_REQUEST_IID"):
            if commit := environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", ""):
                return self._require(_check_commit_id(commit), "the target branch of the merge request")
            commit = _check_commit_id(environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""))
            return self._require(commit, "the base of the merge request")
        source = environ.get("CI_PIPELINE_SOURCE", "push")
        if environ.get("CI_COMMIT_TAG") or source != "push":
            trigger = "a tag" if environ.get("CI_COMMIT_TAG") else f"the source {_printable(source)}"
            return BuildBase("", f"this build is of {trigger}")
        before = _check_commit_id(environ.get("CI_COMMIT_BEFORE_SHA", ""))
        branch, default = environ.get("CI_COMMIT_BRANCH", ""), _check_branch(environ.get("CI_DEFAULT_BRANCH", ""))
        return self._find_push_base(before, branch, default)

    def _find_push_base(self, before: str, branch: str, default: str, *, is_rewritten: bool = False) -> BuildBase:
        """`before`, unless the branch is new or was rewritten: then what it has in common with the default branch."""
        if before.strip("0") and not is_rewritten:
            base = self._require(before, "the commit before the push")
            if branch == default or self._is_shallow() or self._is_ancestor(before):
                return base
        elif branch == default:
            if before.strip("0"):
                return self._require(before, "the commit before the push")
            return BuildBase("", f"{_printable(branch)} is new")
        tip = f"refs/remotes/origin/{default}"
        return self._find_merge_base(
            tip, f"+refs/heads/{default}:{tip}", f"the merge base with {_printable(default)}"
        ) or BuildBase("", f"it has no commit in common with {_printable(default)}")

    def _find_merge_base(self, tip: str, fetched: str, reason: str) -> BuildBase | None:
        """What HEAD and `tip` have in common; None if they have nothing."""
        is_shallow = self._is_shallow()
        fetch = ("--no-tags", *(("--unshallow",) if is_shallow else ()), "origin", fetched)
        if self._objects.find(f"{tip}^{{commit}}") is None:
            raise not_in_clone(reason, fetch)
        output = run_git(self._project, "merge-base", "--end-of-options", tip, "HEAD")
        if output:
            return BuildBase(output.decode().strip(), reason)
        if is_shallow:
            raise not_in_clone(reason, fetch)
        return None

    def _require(self, commit: str, reason: str) -> BuildBase:
        if self._objects.find(f"{commit}^{{tree}}") is None:
            depth = ("--depth=1",) if self._is_shallow() else ()  # It would cut the history of a whole clone.
            raise not_in_clone(f"{reason}, {commit[:SHOWN_DIGITS]},", ("--no-tags", *depth, "origin", commit))
        return BuildBase(commit, reason)

    def _is_shallow(self) -> bool:
        return (run_git(self._project, "rev-parse", "--is-shallow-repository") or b"").strip() == b"true"

    def _is_ancestor(self, commit: str) -> bool:
        return run_git(self._project, "merge-base", "--is-ancestor", commit, "HEAD") is not None

    def _read_event(self) -> JSONObject:
        path = self._environ.get("GITHUB_EVENT_PATH", "")
        if not path:
            raise BaseUnavailable("GITHUB_EVENT_PATH, the event of this build, is not set", hint=_EVENT_HINT)
        try:
            event = parse_json(read_file(path, bytes_max=EVENT_BYTES_MAX))
        except (CannotRead, NotJSON) as exc:
            raise BaseUnavailable(
                f"the event of this build cannot be read: {exc.message}", hint=_EVENT_HINT
            ) from None
        if not isinstance(event, dict):
            raise BaseUnavailable("the event of this build is not a JSON object", hint=_EVENT_HINT)
        return event


_EVENT_HINT = "GITHUB_EVENT_PATH must name GitHub's own file; or name the commit: --base REF."


def not_in_clone(subject: str, fetch: tuple[str, ...]) -> BaseUnavailable:
    """The error about something that a `git fetch` with these arguments brings."""
    return BaseUnavailable(f"{subject} is not in this clone", hint=f"Run: git fetch {shlex.join(fetch)}", fetch=fetch)


def _read_member(event: JSONObject, names: tuple[str, ...]) -> str:
    value: JSON = event
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise BaseUnavailable(f"the event of this build has no {'.'.join(names)}", hint=_EVENT_HINT)
    return value


def _read_commit_id(event: JSONObject, *names: str) -> str:
    return _check_commit_id(_read_member(event, names))


def _read_branch_name(event: JSONObject, *names: str) -> str:
    return _check_branch(_read_member(event, names))


def _check_commit_id(text: str) -> str:
    if not _COMMIT_ID.match(text):
        raise BaseUnavailable("the base of this build is not named by a commit id", hint=_EVENT_HINT)
    return text


def _check_branch(text: str) -> str:
    """Refuse a name that Git would not read as a branch."""
    if not _BRANCH_NAME.match(text):
        raise BaseUnavailable("the name of the default branch is not valid", hint=_EVENT_HINT)
    return text


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)
