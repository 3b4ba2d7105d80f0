"""Refuse a state folder that Git tracks.

In: a project. Out: nothing, or an error that names the files. Never: reads a file of it.

`.ai-tests` is what one machine keeps for itself: pending changes, the match key, traces, the journal of an approval.
What Git tracks there was brought by a commit, and the author of the commit has chosen what it says.
"""

from __future__ import annotations

import os

from traceforge.errors import TrackedState
from traceforge.files import STATE_DIR
from traceforge.snapshots.tree.git_commands import GitUnavailable, run_git

HARMLESS = f"{STATE_DIR}/.gitignore"


def refuse_tracked_state(project: str) -> None:
    """Check that nothing in the project's state folder was brought by a commit.

    Raises:
        TrackedState: Git tracks a file there. Without Git, or outside of a repository, nothing does.
    """
    if not os.path.lexists(os.path.join(project, STATE_DIR)):
        return
    try:
        output = run_git(project, "ls-files", "-z", "--", STATE_DIR)
    except GitUnavailable:
        return
    files = [os.fsdecode(name) for name in (output or b"").split(b"\0") if name]
    tracked = [file for file in files if file != HARMLESS]
    if tracked:
        raise TrackedState(tracked)
