"""Git commands: settings of the user, and what a repository says about itself.

In: a folder. Out: the output of `git` there. Never: runs a hook, or reaches a network; `fetch_commits` reaches the
remote.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from traceforge.build_environment import build_environment

# The user's own git. A folder of a checkout that looks like a repository without a work tree is none: whoever wrote
# the pull request has chosen its objects, and its settings, which may name programs to run.
GIT = ("git", "-c", "safe.bareRepository=explicit")
# A fetch runs hooks (`reference-transaction`), which `core.hooksPath` may take from the checkout, and asks the hosts
# of submodules, which a checkout names.
QUIET_FETCH = ("-c", f"core.hooksPath={os.devnull}")
FROM_ORIGIN = ("--no-recurse-submodules", "--no-auto-maintenance")
SECONDS_MAX = 60.0  # Git reads from the disk; if it hangs, it waits for something that will not come.


class GitUnavailable(Exception):
    """Git is not installed, or does not have the object. Callers translate it into their own error."""


def git_environment() -> dict[str, str]:
    """The variables for a `git` that only reads: what commits say, without the replacements of this clone."""
    return {
        **build_environment(),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def run_git(folder: str, *arguments: str, data: bytes = b"") -> bytes | None:
    """The output of `git`; None if it exits with an error.

    Raises:
        GitUnavailable: Git cannot be run.
    """
    try:
        completed = subprocess.run(  # noqa: S603 (a fixed command, no shell)
            [*GIT, "-C", folder, *arguments],
            input=data,
            capture_output=True,
            env=git_environment(),
            timeout=SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        raise GitUnavailable("git cannot be run") from None
    return completed.stdout if completed.returncode == 0 else None


def find_git_setting(folder: str, name: str, *, is_path: bool = False) -> str:
    """A setting of Git; "" if it is not set, or Git cannot be run."""
    options = ("--type=path",) if is_path else ()
    try:
        output = run_git(folder, "config", *options, "--get", name)
    except GitUnavailable:
        return ""
    return (output or b"").decode(errors="replace").rstrip("\n")


def fetch_commits(folder: str, arguments: Sequence[str]) -> None:
    """Run `git fetch`, which reaches the remote; its own messages go to stderr.

    Raises:
        GitUnavailable: Git cannot be run, or cannot fetch.
    """
    try:
        completed = subprocess.run([*GIT, *QUIET_FETCH, "-C", folder, "fetch", *FROM_ORIGIN, *arguments], check=False)  # noqa: S603
    except OSError:
        raise GitUnavailable("git cannot be run") from None
    if completed.returncode:
        raise GitUnavailable(f"git fetch exited with code {completed.returncode}")
