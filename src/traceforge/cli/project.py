"""The project around the person, ready to be read: what every command about snapshots starts with."""

from __future__ import annotations

import os

import click

from traceforge.config import SNAPSHOTS_DIR, LoadedConfig, current_folder, load_config
from traceforge.snapshots.tree.tree_transaction import finish_interrupted_approval


def load_project() -> LoadedConfig:
    """The project's configuration; what an approval that was cut short had yet to do is done first.

    Raises:
        InvalidConfig, CannotRead: as `load_config`.
        PathInUse, CannotWrite, BrokenJournal: as `finish_interrupted`.
    """
    loaded = load_config(current_folder())
    if finish_interrupted_approval(loaded.project):
        click.echo("finished an approval that was cut short", err=True)
    return loaded


def snapshots_root(loaded: LoadedConfig) -> str:
    """The project's snapshot tree, as seen from where the person stands."""
    return os.path.relpath(os.path.join(loaded.project, SNAPSHOTS_DIR))
