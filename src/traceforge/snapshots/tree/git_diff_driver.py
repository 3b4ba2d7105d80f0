"""The diff driver that makes `git diff` show snapshots as readable lines.

It has two parts. A committed attribute names the files; alone it has no effect. A setting of the clone names the
command. Git runs that command, so the setting never comes with a checkout: the user installs it.
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
    """Install both parts in the project around `folder`; yields a line for each. An existing setting is kept.

    Raises:
        NotFound: the project is not in a Git repository.
        CannotWrite: the attributes file cannot be written.
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
        hint = "Run `git init` first, or do without it."
        raise NotFound("the diff driver needs a Git repository, and there is none", hint=hint)
    yield f"set       git config {SETTING} '{COMMAND}' (of this clone)"
