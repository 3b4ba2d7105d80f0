"""The current project, as every command about snapshots loads it."""

from __future__ import annotations

import os

from traceforge.capture.proxy.effective_upstreams import find_run_upstreams
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig, current_folder, load_config
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.snapshots.tree.tree_transaction import finish_interrupted_approval
from traceforge.terminal import one_line, print_text


def load_project() -> LoadedConfig:
    """Load the project's configuration, and finish an approval that was interrupted.

    Raises:
        InvalidConfig, CannotRead: as `load_config`.
        TrackedState: Git tracks files of the state folder.
        PathInUse, CannotWrite, BrokenJournal: as `finish_interrupted_approval`.
    """
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    if finish_interrupted_approval(loaded.project):
        print_text("finished an interrupted approval", err=True)
    return loaded


def print_upstreams(loaded: LoadedConfig) -> None:
    """Print where a run sends its calls, wherever that is not at the providers' own addresses. Otherwise nothing: the
    terminal is the command's.
    """
    for line in find_run_upstreams(loaded, os.environ).changes:
        print_text(f"traceforge: {one_line(line)}", err=True)


def snapshots_root(loaded: LoadedConfig) -> str:
    """The project's snapshot tree, relative to the current folder."""
    return os.path.relpath(os.path.join(loaded.project, SNAPSHOTS_DIR))
