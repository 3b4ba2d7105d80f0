"""In CI, everything is compared with the base of the build: which commit that is, and what if it is missing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from support.approval_project import Project, record_change
from support.command import CommandResult, traceforge
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest

ZEROS = "0" * 40


class Origin(NamedTuple):
    """A repository as a CI service has it: a branch, its target, and the merge of both."""

    project: Project
    base: str  # where the branch began
    target: str  # the target branch now
    head: str  # of the branch
    merge: str  # of both, whose first parent is `target`


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """The branch removes a snapshot together with its approval; the target has another commit since."""
    project = Project(tmp_path_factory.mktemp("origin") / "origin")
    project.git("config", "uploadpack.allowAnySHA1InWant", "true")
    project.approve(record_change("one"))
    approval = project.approve(record_change("two"))
    project.commit()
    base = _head(project)
    project.git("checkout", "-qb", "feature")
    for file in (project.root / "openai" / "two.json", project.root / "wire" / "two.json", approval):
        file.unlink()
    rebuild_manifest(str(project.root))
    project.commit()
    head = _head(project)
    project.git("checkout", "-q", "main")
    (project.folder / "README.md").write_text("x")
    project.commit()
    target = _head(project)
    project.git("checkout", "-q", "--detach")
    project.git("merge", "-q", "--no-ff", "-m", "merge", head)
    merge = _head(project)
    project.git("update-ref", "refs/pull/7/merge", merge)
    project.git("checkout", "-q", "main")
    return Origin(project, base, target, head, merge)


def _head(project: Project) -> str:
    return project.git("rev-parse", "HEAD").strip()


def _clone(origin: Origin, folder: Path, commit: str, *options: str) -> Path:
    """A clone in which a service has checked out a commit."""
    url = origin.project.folder.as_uri()
    subprocess.run(["git", "init", "-q", folder], check=True)
    for words in (
        ["remote", "add", "origin", url],
        ["fetch", "-q", "--no-tags", *options, "origin", commit],
        ["checkout", "-q", "--detach", "FETCH_HEAD"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def _event(folder: Path, name: str, event: object, ref: str = "refs/heads/feature", sha: str = "") -> dict[str, str]:
    """The variables of GitHub Actions."""
    path = folder.with_name(f"{folder.name}.event.json")
    path.write_text(event if isinstance(event, str) else json.dumps(event))
    return {
        "CI": "true", "GITHUB_ACTIONS": "false", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REF": ref, "GITHUB_SHA": sha,
    }  # fmt: skip


def _verify(folder: Path, variables: dict[str, str]) -> CommandResult:
    return traceforge("verify", cwd=folder, **variables)


def _pull_request(origin: Origin) -> dict[str, object]:
    return {"pull_request": {"base": {"sha": origin.target}, "head": {"sha": origin.head}}}


def test_a_pull_request_is_compared_with_the_first_parent_of_its_merge_commit(origin: Origin, tmp_path: Path) -> None:
    """Without the event. Where the clone lacks it, the hint's command is all that is missing."""
    clone = _clone(origin, tmp_path / "clone", origin.merge, "--depth=1")
    variables = _event(clone, "pull_request", "hostile", "refs/pull/7/merge", origin.merge)

    missing = _verify(clone, variables)
    command = missing.err.partition("hint: Run: ")[2].strip()
    assert (3, f"git fetch --no-tags --depth=1 origin {origin.target}") == (missing.code, command), missing
    assert "error TF209: the first parent of the merge commit" in missing.err
    subprocess.run(shlex.split(command), cwd=clone, check=True, capture_output=True)
    ran = _verify(clone, variables)

    assert (1, 2) == (ran.code, ran.out.count("AP7")), ran
    assert f"compared with {origin.target[:12]}, the first parent of the merge commit\n" in ran.out
    assert f"AP7 two was removed since {origin.target[:12]} without a new approval" in ran.out
    assert f"AP7 the approval was removed since {origin.target[:12]}" in ran.out
    assert "AP7" in traceforge("test", cwd=clone, **variables).out
    assert "AP7" in traceforge("test", "--", "true", cwd=clone, **variables).err
    assert 0 == traceforge("verify", "--base", "HEAD", cwd=clone, **variables).code
    assert 0 == traceforge("verify", cwd=clone, **{**variables, "CI": "false"}).code


def test_fetch_brings_what_is_missing(origin: Origin, tmp_path: Path) -> None:
    clone = _clone(origin, tmp_path / "clone", origin.head, "--depth=1")
    variables = _event(clone, "pull_request", _pull_request(origin), "refs/pull/7/merge", origin.merge)

    ran = traceforge("base", "--fetch", cwd=clone, **variables)

    assert (0, f"compared with {origin.base[:12]}, the merge base with the target branch\n") == (ran.code, ran.out), (
        ran
    )


def test_the_authors_own_merge_commit_names_no_base(origin: Origin, tmp_path: Path) -> None:
    """Who pushes a merge commit chooses its parents: they count only if the commit is that of the build."""
    clone = _clone(origin, tmp_path / "clone", origin.head)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    words = ["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-p", origin.base, "-m", "mine"]
    made = subprocess.run(["git", *identity, *words], cwd=clone, check=True, capture_output=True, text=True)
    subprocess.run(["git", "checkout", "-q", made.stdout.strip()], cwd=clone, check=True)
    subprocess.run(["git", "fetch", "-q", "origin", "main"], cwd=clone, check=True)

    ran = _verify(clone, _event(clone, "pull_request", _pull_request(origin), "refs/pull/7/merge", origin.merge))

    assert (1, True) == (ran.code, f"compared with {origin.base[:12]}, the merge base" in ran.out), ran


@pytest.mark.parametrize(
    ("name", "ref", "event", "base"),
    [
        ("merge_group", "refs/heads/gh-readonly-queue/main/pr-7", {"merge_group": {"base_sha": "TARGET"}}, "target"),
        ("push", "refs/heads/feature", {"before": "BASE", "repository": {"default_branch": "main"}}, "base"),
        ("push", "refs/heads/feature", {"before": ZEROS, "repository": {"default_branch": "main"}}, "target"),
        (
            "push",
            "refs/heads/feature",
            {"before": "HEAD", "forced": True, "repository": {"default_branch": "main"}},
            "target",
        ),
        (
            "push",
            "refs/heads/main",
            {"before": "BASE", "forced": True, "repository": {"default_branch": "main"}},
            "base",
        ),
    ],
    ids=["merge queue", "push", "new branch", "rewritten branch", "rewritten default branch"],
)
def test_what_other_events_are_compared_with(
    origin: Origin, tmp_path: Path, name: str, ref: str, event: object, base: str
) -> None:
    clone = _clone(origin, tmp_path / "clone", origin.merge)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", origin.target], cwd=clone, check=True)
    text = json.dumps(event)
    for word in ("base", "target", "head"):
        text = text.replace(f'"{word.upper()}"', f'"{getattr(origin, word)}"')

    ran = _verify(clone, _event(clone, name, text, ref))

    assert (1, True) == (ran.code, f"compared with {getattr(origin, base)[:12]}, " in ran.out), ran


GITLAB = {"CI": "true", "GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main", "CI_COMMIT_BRANCH": "feature"}


@pytest.mark.parametrize(
    ("variables", "base"),
    [
        ({"CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_DIFF_BASE_SHA": "BASE"}, "base"),
        ({"CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "TARGET"}, "target"),
        ({"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BEFORE_SHA": "BASE"}, "base"),
        ({"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BEFORE_SHA": ZEROS}, "target"),
    ],
    ids=["merge request", "merged result", "push", "new branch"],
)
def test_what_gitlab_compares_with(origin: Origin, tmp_path: Path, variables: dict[str, str], base: str) -> None:
    clone = _clone(origin, tmp_path / "clone", origin.merge)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", origin.target], cwd=clone, check=True)
    commits = {"BASE": origin.base, "TARGET": origin.target}

    ran = _verify(clone, GITLAB | {name: commits.get(value, value) for name, value in variables.items()})

    assert (1, True) == (ran.code, f"compared with {getattr(origin, base)[:12]}, " in ran.out), ran


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/tags/v1"}, "this build is of a tag"),
        ({"GITHUB_EVENT_NAME": "schedule", "GITHUB_REF": "refs/heads/main"}, "this build is of the event schedule"),
        ({"GITHUB_EVENT_NAME": "workflow_dispatch"}, "this build is of the event workflow_dispatch"),
        (GITLAB | {"CI_COMMIT_TAG": "v1"}, "this build is of a tag"),
        (GITLAB | {"CI_PIPELINE_SOURCE": "web"}, "this build is of the source web"),
        ({}, "this CI service does not say which; to name one: traceforge verify --base REF"),
    ],
)
def test_a_build_without_a_base_checks_the_approvals_alone_and_says_so(
    origin: Origin, tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    clone = _clone(origin, tmp_path / "clone", origin.merge, "--depth=1")

    ran = _verify(clone, {"CI": "true", **variables})

    assert (0, True) == (ran.code, ran.out.startswith(f"compared with no other commit: {reason}\n")), ran


def test_a_checkout_without_git_is_compared_with_nothing(origin: Origin, tmp_path: Path) -> None:
    """Such as an unpacked archive."""
    clone = _clone(origin, tmp_path / "clone", origin.merge, "--depth=1")
    shutil.rmtree(clone / ".git")

    ran = _verify(clone, {"CI": "true", "GITHUB_EVENT_NAME": "pull_request"})

    assert (0, True) == (ran.code, "compared with no other commit: this is not a Git repository\n" in ran.out), ran


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("pull_request", {"pull_request": {"base": {"sha": "--upload-pack=touch x"}}}),
        *(
            pytest.param(name, event, marks=pytest.mark.slow)
            for name, event in (
                ("pull_request", "not json"),
                ("pull_request", "[]"),
                ("pull_request", {"pull_request": {"base": {"sha": 7}}}),
                ("pull_request", {"pull_request": {"base": {"sha": "HEAD"}}}),
                ("merge_group", {"merge_group": "main"}),
                ("push", {}),
                ("push", {"before": ZEROS, "repository": {"default_branch": "--output=x"}}),
                ("push", {"before": ZEROS, "repository": {"default_branch": "a b\nc"}}),
                ("pull_request", "[" * 100_000),
            )
        ),
    ],
)
def test_a_hostile_event_is_exit_3(origin: Origin, tmp_path: Path, name: str, event: object) -> None:
    """No value of it reaches Git or the output."""
    clone = _clone(origin, tmp_path / "clone", origin.merge, "--depth=1")

    ran = _verify(clone, _event(clone, name, event))

    assert (3, True, []) == (ran.code, "error TF209: " in ran.err, list(tmp_path.rglob("x"))), ran
    assert "touch" not in ran.err


def test_a_missing_event_is_exit_3(origin: Origin, tmp_path: Path) -> None:
    clone = _clone(origin, tmp_path / "clone", origin.merge, "--depth=1")

    ran = _verify(clone, {"CI": "true", "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/x"})

    assert (3, True) == (ran.code, "TF209" in ran.err), ran


def test_a_git_that_cannot_answer_is_exit_3(origin: Origin, tmp_path: Path) -> None:
    """As in a container whose checkout belongs to another user."""
    clone = _clone(origin, tmp_path / "clone", origin.merge, "--depth=1")
    (clone / ".git" / "HEAD").write_text("damaged")

    ran = _verify(clone, _event(clone, "pull_request", _pull_request(origin), "refs/pull/7/merge", origin.merge))

    assert (3, True) == (ran.code, "TF209" in ran.err), ran


def test_a_pull_request_without_a_change_is_green(origin: Origin, tmp_path: Path) -> None:
    """Also in a subfolder, in a full clone, and with another end of line."""
    clone = _clone(origin, tmp_path / "clone", origin.target)
    for file in (clone / ".ai-snapshots").glob("openai/*.json"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    (clone / "deep" / "er").mkdir(parents=True)
    event = {"before": origin.base, "repository": {"default_branch": "main"}}

    ran = traceforge("verify", cwd=clone / "deep" / "er", **_event(clone, "push", event, "refs/heads/main"))

    assert (0, True) == (ran.code, "all valid" in ran.out), ran
    assert os.sep not in ran.out.splitlines()[0]


@pytest.fixture
def monorepo(tmp_path: Path) -> tuple[Project, str]:
    """A repository with a project in a folder, and its last commit; the next one removes the project's tree."""
    outer = Project(tmp_path / "monorepo")
    inner = Project(outer.folder / "services" / "agent")
    shutil.rmtree(inner.folder / ".git")
    (inner.folder / "app.py").write_text("")
    inner.approve(record_change("one"))
    outer.commit()
    base = _head(outer)
    return outer, base


def test_ap7_a_tree_that_is_gone_is_red_above_and_below(monorepo: tuple[Project, str]) -> None:
    """Without it the tests of its project would run ungated."""
    project, base = monorepo
    shutil.rmtree(project.folder / "services" / "agent" / ".ai-snapshots")
    (project.folder / "services" / "agent" / "tests").mkdir()

    for folder in (project.folder, project.folder / "services", project.folder / "services" / "agent" / "tests"):
        ran = traceforge("verify", "--base", base, cwd=folder)
        assert (1, True) == (ran.code, "AP7" in ran.out and "was removed since" in ran.out), (folder, ran)


def test_a_project_that_moved_with_its_tree_is_green(monorepo: tuple[Project, str]) -> None:
    """Where it is now, and at the root of the repository; without its approvals it is red."""
    project, base = monorepo
    (project.folder / "services" / "agent").rename(project.folder / "bot")
    project.commit()
    for folder in (project.folder, project.folder / "bot"):
        ran = traceforge("test", "--base", base, cwd=folder)
        assert "AP7" not in ran.out, (folder, ran)

    shutil.rmtree(project.folder / "bot" / ".ai-snapshots" / "approvals")
    project.commit()

    assert "AP7" in traceforge("test", "--base", base, cwd=project.folder).out


def test_a_project_that_was_emptied_with_approvals_may_go(monorepo: tuple[Project, str]) -> None:
    project, _ = monorepo
    agent = project.folder / "services" / "agent"
    assert 0 == traceforge("snapshot", "rm", "one", "--reason", "x", cwd=agent).code
    project.commit()
    shutil.rmtree(agent / ".ai-snapshots")

    for folder in (project.folder, agent):
        assert "AP7" not in traceforge("test", "--base", "HEAD", cwd=folder).out


@pytest.mark.slow
def test_a_clone_without_the_files_of_the_base_is_exit_3_with_what_to_run(origin: Origin, tmp_path: Path) -> None:
    """A partial clone has the commit, and the file that changed since is missing."""
    origin.project.git("config", "uploadpack.allowFilter", "true")
    clone, url = tmp_path / "clone", origin.project.folder.as_uri()
    subprocess.run(["git", "clone", "-q", "--no-checkout", "--filter=blob:none", url, clone], check=True)
    subprocess.run(["git", "checkout", "-q", "--detach", origin.merge], cwd=clone, check=True)
    subprocess.run(["git", "remote", "set-url", "origin", "file:///nowhere"], cwd=clone, check=True)
    (clone / ".ai-snapshots" / "openai" / "one.json").write_text("{}")
    variables = _event(clone, "merge_group", {"merge_group": {"base_sha": origin.base}})

    missing = _verify(clone, variables)
    command = missing.err.partition("hint: Run: ")[2].strip()
    assert (3, True) == (missing.code, "TF209: a file of " in missing.err), missing
    subprocess.run(["git", "remote", "set-url", "origin", url], cwd=clone, check=True)
    subprocess.run(shlex.split(command), cwd=clone, check=True, capture_output=True)

    assert 1 == _verify(clone, variables).code


def test_base_outside_of_a_build_says_that_nothing_is_compared(origin: Origin) -> None:
    """Whatever the variables of a CI service say; exit code 0, as nothing is wrong."""
    ran = traceforge("base", cwd=origin.project.folder, CI="false", GITHUB_EVENT_NAME="push")

    message = "compared with no other commit: CI is not set, so this is not a build; to compare with one: "
    assert (0, f"{message}traceforge verify --base REF\n", "") == (ran.code, ran.out, ran.err)


def test_a_build_without_the_path_of_its_event_says_which_variable_is_missing(origin: Origin, tmp_path: Path) -> None:
    clone = _clone(origin, tmp_path / "clone", origin.merge)

    ran = _verify(clone, {**_event(clone, "push", {}), "GITHUB_EVENT_PATH": ""})

    assert 3 == ran.code
    assert "error TF209: GITHUB_EVENT_PATH, the event of this build, is not set\n" in ran.err
