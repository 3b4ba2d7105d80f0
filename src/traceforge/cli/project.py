"""The current project, as every command about snapshots loads it."""

from __future__ import annotations

import os

from traceforge.config import SNAPSHOTS_DIR, LoadedConfig, current_folder, load_config
from traceforge.snapshots.tree.state_folder import prepare_state_folder
from traceforge.terminal import print_text


def load_project() -> LoadedConfig:
    """Load the project's configuration, and finish an approval that was interrupted.

    Raises:
        InvalidConfig, CannotRead: as `load_config`.
        TrackedState, PathInUse, CannotWrite, BrokenJournal: as `prepare_state_folder`.
    """
    loaded = load_config(current_folder())
    if prepare_state_folder(loaded.project):
        print_text("finished an interrupted approval", err=True)
    return loaded


def snapshots_root(loaded: LoadedConfig) -> str:
    """The project's snapshot tree, relative to the current folder."""
    return os.path.relpath(os.path.join(loaded.project, SNAPSHOTS_DIR))
