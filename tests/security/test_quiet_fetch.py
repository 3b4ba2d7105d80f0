"""`traceforge base --fetch` reaches the remote `origin` and nothing else, and runs nothing of the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

from traceforge.snapshots.tree.git_commands import fetch_commits

HOOK = "#!/bin/sh\necho ran > {mark}\n"


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@a.example", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *settings, "-C", str(folder), *words], check=True, capture_output=True)


def make_clone(tmp_path: Path) -> Path:
    """A clone that lacks the newest commit of its origin."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    git(origin, "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    git(origin, "commit", "-q", "--allow-empty", "-m", "two")
    return tmp_path / "clone"


def test_a_fetch_runs_no_hook_of_the_checkout(tmp_path: Path) -> None:
    """A tool for hooks may have set `core.hooksPath` to a folder that a pull request fills."""
    clone, mark = make_clone(tmp_path), tmp_path / "mark"
    hooks = clone / ".hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-merge", "post-checkout"):
        (hooks / name).write_text(HOOK.format(mark=mark))
        (hooks / name).chmod(0o755)
    git(clone, "config", "core.hooksPath", ".hooks")
    fetch_commits(str(clone), ("--no-tags", "origin", "+refs/heads/main:refs/remotes/origin/main"))

    newest = subprocess.run(
        ["git", "-C", str(clone), "log", "-1", "--format=%s", "origin/main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("two\n", False) == (newest.stdout, mark.exists())


def test_a_fetch_asks_no_host_of_a_submodule(tmp_path: Path) -> None:
    """Also if Git is set to fetch them, and a commit of the remote changes one."""
    clone = make_clone(tmp_path)
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    git(library, "commit", "-q", "--allow-empty", "-m", "one")
    git(clone, "submodule", "add", "-q", str(library), "library")
    git(clone, "config", "fetch.recurseSubmodules", "true")
    git(clone / "library", "remote", "set-url", "origin", str(tmp_path / "gone"))

    fetch_commits(str(clone), ("--no-tags", "origin", "+refs/heads/main:refs/remotes/origin/main"))
