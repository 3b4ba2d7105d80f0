"""A player of what a project has recorded.

In: a project and its configuration. Out: a player, and how many traces cannot be read. Never: keeps a store open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from traceforge.config import LoadedConfig, find_match_key
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.request_key import RequestKeyer
from traceforge.replay.volatile import VolatileRules

if TYPE_CHECKING:
    from traceforge.redact import Redactor


class OpenedPlayer(NamedTuple):
    """A player, and what it lacks."""

    player: Player
    recording_count: int
    unreadable_count: int  # traces that cannot be read


def make_request_keyer(loaded: LoadedConfig) -> RequestKeyer:
    """What makes the keys of a project's requests.

    Raises:
        InvalidConfig: a volatile part is declared that cannot be, or a pattern to redact.
    """
    config = loaded.config
    volatile = VolatileRules(config.match.ignore, config.match.patterns, where=loaded.origins["match"])
    redactor: Redactor | None = None
    if config.redact_fields or config.redact_patterns or config.allow:
        from traceforge.redact import Redactor  # Where nothing is configured, nothing can be wrong with it.

        redactor = Redactor.from_config(config)
    return RequestKeyer(redactor, volatile)


def open_trace_player(loaded: LoadedConfig, session_id: str = "") -> OpenedPlayer:
    """Everything that was recorded, or one session of it.

    Raises:
        InvalidConfig: a volatile part is declared that cannot be.
    """
    from traceforge.replay.trace_recordings import (
        TraceRecordings,  # It brings a database, which snapshots do not need.
    )
    from traceforge.traces.trace_index import TraceFilter
    from traceforge.traces.trace_store import TraceStore

    keyer = make_request_keyer(loaded)
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    try:
        store.update_index()
        trace_recordings = TraceRecordings(store, keyer)
        library = Library(trace_recordings.load_recordings(TraceFilter(session_id=session_id)))
        unreadable_count = len({*trace_recordings.unreadable, *store.unreadable_files()})
    finally:
        store.close()
    return OpenedPlayer(
        Player(keyer, library, match_key=find_match_key(loaded.project)), len(library), unreadable_count
    )
