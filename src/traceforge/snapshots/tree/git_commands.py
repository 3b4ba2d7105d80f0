"""Git commands: settings of the user, and the files of another commit.

In: a folder. Out: the output of `git` there. Never: runs a hook, or reaches a network.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

SECONDS_MAX = 60.0  # Git reads from the disk; if it hangs, it waits for something that will not come.


class GitUnavailable(Exception):
    """Git is not installed, or does not have the object. Callers translate it into their own error."""


def run_git(folder: str, *arguments: str, data: bytes = b"") -> bytes | None:
    """The output of `git`; None if it exits with an error.

    Raises:
        GitUnavailable: Git cannot be run.
    """
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    try:
        completed = subprocess.run(  # noqa: S603 (a fixed command, no shell)
            ["git", "-C", folder, *arguments],  # noqa: S607 (the user's own git is the point)
            input=data,
            capture_output=True,
            env=environment,
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


def is_in_repository(folder: str) -> bool:
    """Whether a folder is in a Git repository.

    Raises:
        GitUnavailable: Git cannot be run.
    """
    return run_git(folder, "rev-parse", "--git-dir") is not None


def find_tree_id(folder: str, ref: str) -> str | None:
    """The id of the tree of a commit, tag or branch; None if Git does not know it.

    Raises:
        GitUnavailable: Git cannot be run.
    """
    output = run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{tree}}")
    return output.decode().strip() if output else None


def list_tree_files(folder: str, tree: str, below: str) -> dict[str, str]:
    """The regular files of a tree under `folder`/`below`, relative to that, with the ids of their blobs.

    Raises:
        GitUnavailable: Git cannot be run, or the tree is not in this clone.
    """
    prefix = run_git(folder, "rev-parse", "--show-prefix")
    if prefix is None:
        raise GitUnavailable("not a Git repository")
    start = f"{prefix.decode(errors='surrogateescape').rstrip(chr(10))}{below}/"
    output = run_git(folder, "ls-tree", "-r", "-z", "--full-tree", tree, "--", start)
    if output is None:
        raise GitUnavailable("the tree is not in this clone")
    files = {}
    for row in output.decode(errors="surrogateescape").split("\0"):
        metadata, _, name = row.partition("\t")
        if metadata.startswith("100"):  # a regular file; 120000 is a link, 160000 another repository
            files[name.removeprefix(start)] = metadata.split()[2]
    return files


def read_blobs(folder: str, blobs: list[str]) -> Iterator[bytes]:
    """The content of blobs, in order.

    Raises:
        GitUnavailable: Git cannot be run, or a blob is not in this clone.
    """
    if not blobs:
        return
    output = run_git(folder, "cat-file", "--batch", data="".join(f"{blob}\n" for blob in blobs).encode())
    offset = 0
    for _ in blobs:
        end = output.find(b"\n", offset) if output is not None else -1
        header = output[offset:end].split() if output is not None and end >= 0 else []
        if output is None or len(header) != 3 or header[1] != b"blob":
            raise GitUnavailable("a file of that commit is not in this clone")
        size = int(header[2])
        yield output[end + 1 : end + 1 + size]
        offset = end + 1 + size + 1
