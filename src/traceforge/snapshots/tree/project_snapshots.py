"""What a run is held against: the approved calls of a project, checked and ready to answer.

In: a project. Out: its gate: the tree as verified, what was approved, and a player of it. Never: answers from a tree
that does not verify.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from traceforge.config import SNAPSHOTS_DIR, LoadedConfig, current_folder, find_match_key
from traceforge.findings import Finding
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.project_player import make_request_keyer
from traceforge.replay.request_key import RequestKeyer
from traceforge.snapshots.formats.tree_layout import is_interrupted
from traceforge.snapshots.record.run_scopes import Scopes, run_scope
from traceforge.snapshots.tree.approved_calls import Approved, approved_of, recordings
from traceforge.snapshots.tree.synthesised_answers import Synthesis
from traceforge.snapshots.tree.tree_verification import Held, TreeReport, verify_tree
from traceforge.tuples import NamedTuple


class Gate(NamedTuple):
    """Everything a run is held against."""

    loaded: LoadedConfig
    tree: TreeReport
    approved: list[Approved]
    keys: RequestKeyer
    player: Player

    @property
    def findings(self) -> Sequence[Finding]:
        """What is wrong with the tree: nothing is answered from it then."""
        return self.tree.findings


def open_gate(loaded: LoadedConfig, *, fresh: bool = False, words: Sequence[str] = ()) -> Gate:
    """Check the tree of a project, and load what it answers from; `fresh` answers nothing. `words` is the command
    that asks, where there is one.

    An approval that was cut short is finished first.

    Raises:
        InvalidConfig: what is declared as volatile cannot be read.
        BrokenJournal, PathInUse, CannotWrite: an approval was cut short and cannot be finished.
    """
    if is_interrupted(loaded.project):
        from traceforge.snapshots.tree.tree_transaction import finish_interrupted

        finish_interrupted(loaded.project)
    config = loaded.config
    root = os.path.join(loaded.project, SNAPSHOTS_DIR)
    held = Held()
    tree = verify_tree(root, config.models, held=held) if os.path.isdir(root) else TreeReport(0, 0, ())
    keys = make_request_keyer(loaded)
    approved = [] if tree.findings else approved_of(held, config.models)  # It answers from the bytes that it checked.
    answering = [] if fresh else approved
    player = Player(
        keys,
        Library(recordings(answering, keys)),
        match_key=find_match_key(loaded.project),
        fallback=Synthesis(answering, config.models),
    )
    if words:
        from traceforge.redact import Redactor

        player.default_scope = Redactor.from_config(config).text(run_scope(words))
    return Gate(loaded, tree, approved, keys, player)


def keys_of(approved: Iterable[Approved]) -> set[str]:
    """The names of the key variables that were set while these were recorded."""
    return {name for one in approved if one.wire is not None for name in one.wire.keys}


def scopes_of(loaded: LoadedConfig, ran: Collection[str]) -> Scopes:
    """The tests that ran, and how others of the project can be looked for."""
    return Scopes(ran, (current_folder(), loaded.project))
