"""Refuse a state folder that Git tracks.

In: a project. Out: nothing, or an error that names the files. Never: reads a file of it.

`.ai-tests` is what one machine keeps for itself: pending changes, the match key, traces, the journal of an approval.
What Git tracks there was brought by a commit, and the author of the commit has chosen what it says.
"""

from __future__ import annotations

import os

from traceforge.build_environment import is_ci
from traceforge.config import find_repository
from traceforge.errors import CannotRead, TrackedState
from traceforge.files import STATE_DIR
from traceforge.snapshots.tree.git_commands import GitUnavailable, run_git

HARMLESS = f"{STATE_DIR}/.gitignore"
_UNKNOWN_HINT = (
    "Install Git, or allow it here: git config --global --add safe.directory FOLDER. Remove files that make a folder "
    "look like a repository: HEAD, config, objects and refs."
)


def refuse_tracked_state(project: str) -> None:
    """Check that nothing in the project's state folder was brought by a commit.

    Outside of a repository, no file was. On a developer's machine, a Git that cannot answer stops no command: an
    approval has its own proof, and a person reads pending changes.

    Raises:
        TrackedState: Git tracks a file there.
        CannotRead: in CI, Git cannot say whether it does.
    """
    if not os.path.lexists(os.path.join(project, STATE_DIR)):
        return
    try:
        output = run_git(project, "ls-files", "-z", "--", STATE_DIR)
    except GitUnavailable:
        output = None
    if output is None:
        if is_ci() and os.path.lexists(os.path.join(find_repository(project), ".git")):
            raise CannotRead(STATE_DIR, "Git cannot say whether a commit brought it", hint=_UNKNOWN_HINT)
        return
    files = [os.fsdecode(name) for name in output.split(b"\0") if name]
    tracked = [file for file in files if file != HARMLESS]
    if tracked:
        raise TrackedState(tracked)
