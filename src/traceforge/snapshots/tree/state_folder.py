"""What every command does about a project's state folder before it reads the snapshot tree.

In: a project. Out: whether an approval that was cut short is finished now. Never: costs anything where there is no
state folder: what runs Git and what writes a tree are imported only where there is one.
"""

from __future__ import annotations

import os

from traceforge.files import STATE_DIR

RECORD_FIRST_HINT = "Record and approve first: traceforge record -- COMMAND"
JOURNAL_NAME = "approve.journal"  # in the state folder, which is never committed


def prepare_state_folder(project: str) -> bool:
    """Refuse a state folder that Git tracks, and finish an approval that was interrupted; True if there was one.

    Raises:
        TrackedState, CannotRead: as `refuse_tracked_state`.
        PathInUse, CannotWrite, BrokenJournal: as `finish_interrupted_approval`.
    """
    if not os.path.lexists(os.path.join(project, STATE_DIR)):
        return False
    from traceforge.snapshots.tree import tracked_state, tree_transaction

    tracked_state.refuse_tracked_state(project)
    return has_interrupted_approval(project) and tree_transaction.finish_interrupted_approval(project)


def has_interrupted_approval(project: str) -> bool:
    """Whether an approval was cut short; `tree_transaction` finishes it."""
    return os.path.lexists(os.path.join(project, STATE_DIR, JOURNAL_NAME))
