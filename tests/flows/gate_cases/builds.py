"""What a build compares with its base."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from flows.gate_cases.checkouts import approve_change, forge_record
from support.gate_case import (
    PYTEST,
    SNAPSHOTS,
    TEST,
    Case,
    Checkout,
    Command,
    Configure,
    Git,
    Remove,
    Replace,
    Step,
    Write,
    commit_tracked,
    green,
    red,
    unchecked,
)

ZEROS, UNKNOWN = "0" * 40, "1" * 40
CI = {"CI": "true"}
REPOSITORY = {"repository": {"default_branch": "main"}}


def make_event(checkout: Checkout, name: str, payload: Mapping[str, Any], **variables: str) -> None:
    """What GitHub tells a build."""
    path = checkout.folder.parent / "event.json"
    path.write_text(json.dumps(payload), encoding="utf-8")
    checkout.variables.update(
        {**CI, "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), **variables}
    )


def _merge_commit(checkout: Checkout, base: str) -> None:
    checkout.git("checkout", "-q", "--detach", "main")
    checkout.git("merge", "-q", "--no-ff", "-m", "Merge", "change")
    merged = checkout.git("rev-parse", "HEAD")
    make_event(
        checkout,
        "pull_request",
        {"pull_request": {"base": {"sha": base}}},
        GITHUB_REF="refs/pull/1/merge",
        GITHUB_SHA=merged,
    )


def _pull_request(checkout: Checkout, base: str) -> None:
    make_event(
        checkout,
        "pull_request",
        {"pull_request": {"base": {"sha": base}}},
        GITHUB_REF="refs/pull/1/merge",
        GITHUB_SHA=ZEROS,
    )


def _push(checkout: Checkout, base: str) -> None:
    make_event(checkout, "push", {"before": base, **REPOSITORY}, GITHUB_REF="refs/heads/main")


def _new_branch(checkout: Checkout, base: str) -> None:
    checkout.git("update-ref", "refs/remotes/origin/main", base if base != UNKNOWN else "main")
    if base == UNKNOWN:
        checkout.git("update-ref", "-d", "refs/remotes/origin/main")
    make_event(checkout, "push", {"before": ZEROS, **REPOSITORY}, GITHUB_REF="refs/heads/change")


def _merge_queue(checkout: Checkout, base: str) -> None:
    make_event(
        checkout, "merge_group", {"merge_group": {"base_sha": base}}, GITHUB_REF="refs/heads/gh-readonly-queue/main/1"
    )


def _gitlab_request(checkout: Checkout, base: str) -> None:
    checkout.variables.update(
        {**CI, "GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "1", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    )


def _gitlab_push(checkout: Checkout, base: str) -> None:
    names = {"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main", "CI_PIPELINE_SOURCE": "push"}
    checkout.variables.update({**CI, "GITLAB_CI": "true", "CI_COMMIT_BEFORE_SHA": base, **names})


BUILDS: dict[str, Callable[[Checkout, str], None]] = {
    "a pull request": _pull_request,
    "the merge commit of a pull request": _merge_commit,
    "a push": _push,
    "a new branch": _new_branch,
    "a merge queue": _merge_queue,
    "a merge request of GitLab": _gitlab_request,
    "a push to GitLab": _gitlab_push,
}


def _begin_anew(checkout: Checkout) -> None:
    """The approvals of the base are gone, and what is there now is valid by itself."""
    Remove(f"{SNAPSHOTS}")(checkout)
    Replace("chat_tests.py", "Where is my parcel?", "Where is my package?")(checkout)
    Command(("record", "--", sys.executable, "-m", "pytest", "-q", "chat_tests.py"))(checkout)
    Command(("approve", "--all", "--reason", "Begin anew"))(checkout)


def _built(build: str, *changes: Step | Callable[[Any], None], base: str = "") -> Step:
    """The change on a branch, committed, and built there."""

    def apply(checkout: Checkout) -> None:
        first = checkout.git("rev-parse", "main")
        Git(("checkout", "-qb", "change"))(checkout)
        for change in changes:
            change(checkout)
        commit_tracked(checkout)
        BUILDS[build](checkout, base or first)

    return apply


POLICY = Configure({"test": {"ignore_hosts": ["*.example"]}})
CHANGES: list[Case] = [
    *(red(f"{name} begins its approvals anew", _built(name, _begin_anew), says="AP7|base", ways=(TEST, PYTEST)) for name in BUILDS),
    *(
        red(f"{name} changes a setting", _built(name, POLICY), says="approve --policy", ways=(TEST, PYTEST))
        for name in ("a pull request", "a push")
    ),
    *(
        red(f"{name} forges a record", _built(name, forge_record), says="SN9|AP[37]", ways=(TEST, PYTEST))
        for name in ("a pull request", "a merge queue")
    ),
    *(
        red(f"{name} removes the snapshots", _built(name, Remove(SNAPSHOTS)), says=r"\.ai-snapshots|AP7", ways=(TEST, PYTEST))
        for name in ("a pull request", "a push")
    ),
    red("the author of a pull request makes its merge commit",
        _built("a pull request", _begin_anew, Git(("merge", "-q", "-s", "ours", "-m", "Mine", "main"))), says="AP7|base", ways=(TEST,)),
    red("a base is named", _built("a pull request", _begin_anew), options=("--base", "main"), variables={"CI": ""}, says="AP7|base",
        ways=(TEST,)),
]  # fmt: skip

UNKNOWN_BASES: list[Case] = [
    *(
        unchecked(f"the base of {name} is not in the clone", _built(name, base=UNKNOWN), says="git fetch", ways=(TEST, PYTEST))
        for name in BUILDS
        if "merge commit" not in name
    ),
    unchecked("the event of a build cannot be read", _built("a push"), variables={"GITHUB_EVENT_PATH": "/nonexistent"},
              says="GITHUB_EVENT_PATH", ways=(TEST, PYTEST)),
]  # fmt: skip

HARMLESS: list[Case] = [
    *(green(f"{name} changes nothing", _built(name), ways=(TEST, PYTEST)) for name in BUILDS),
    *(green(f"{name} brings an approved change", _built(name, approve_change), ways=(TEST,)) for name in BUILDS),
    green("a pull request changes other files", _built("a pull request", Write("NOTES.md", "x\n")), ways=(TEST, PYTEST)),
    green("a tag is built", Git(("tag", "v1")), variables={**CI, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/tags/v1"}, ways=(TEST,)),
    green("a schedule starts the build", variables={**CI, "GITHUB_EVENT_NAME": "schedule"}, ways=(TEST, PYTEST)),
    green("a person starts the build", variables={**CI, "GITHUB_EVENT_NAME": "workflow_dispatch"}, ways=(TEST,)),
    green("GitLab builds a tag", variables={**CI, "GITLAB_CI": "true", "CI_COMMIT_TAG": "v1"}, ways=(TEST,)),
    green("GitLab builds a schedule", variables={**CI, "GITLAB_CI": "true", "CI_PIPELINE_SOURCE": "schedule"}, ways=(TEST,)),
    green("another service runs the build", variables={"CI": "1", "JENKINS_URL": "http://ci"}, ways=(TEST, PYTEST)),
    green("the build has no Git", Remove(".git"), variables=CI, ways=(TEST, PYTEST)),
    green("a base is named and nothing changed", commit_tracked, options=("--base", "main"), ways=(TEST,)),
]  # fmt: skip

CASES = {
    "a build that changes": CHANGES,
    "a build without its base": UNKNOWN_BASES,
    "a build that changes nothing": HARMLESS,
}
