"""How `git diff` shows snapshots: as lines that can be read.

Two halves. An attribute says which files are shown so; it is committed, and means nothing where the other half is
missing. A setting of the clone says by which command; Git runs it, so it never comes with a checkout: a person asks.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.config import SNAPSHOTS_DIR, find_project
from traceforge.errors import NotFound
from traceforge.project_setup import GITATTRIBUTES, add_lines, has_line
from traceforge.snapshots.tree.git_commands import GitUnavailable, find_git_setting, run_git

ATTRIBUTE = f"{SNAPSHOTS_DIR}/**/*.json diff=traceforge"
SETTING = "diff.traceforge.textconv"
COMMAND = "traceforge snapshot textconv"


def install_diff_driver(folder: str) -> Iterator[str]:
    """Set up both halves in the project around `folder`, and say each in one line. A setting that is there stays.

    Raises:
        NotFound: it is in no Git repository.
        CannotWrite: the attributes are not ours to write.
    """
    project = find_project(folder)
    yield add_lines(project, folder, GITATTRIBUTES, (ATTRIBUTE,), has_line)
    setting = find_git_setting(project, SETTING)
    if setting:
        yield f"kept      git config {SETTING}"
        return
    try:
        output = run_git(project, "config", "--local", SETTING, COMMAND)
    except GitUnavailable:
        output = None
    if output is None:
        raise NotFound("no Git repository to set the diff driver of", hint="Run `git init` first, or do without it.")
    yield f"set       git config {SETTING} '{COMMAND}' (of this clone)"
