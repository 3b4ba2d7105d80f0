"""`traceforge.replay`: replay traces or snapshots in this process.

In: the name of a source. Out: the context manager `traceforge.replay`. Never: answers from a snapshot tree that does
not verify.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from traceforge.capture import inprocess_replay
from traceforge.capture.inprocess_replay import InProcessReplay
from traceforge.config import current_folder, load_config
from traceforge.errors import InvalidFile
from traceforge.replay.player import Player
from traceforge.snapshots.tree.project_snapshots import open_snapshots

SOURCES = ("traces", "snapshots")


@contextmanager
def replay(
    *, source: str = "traces", session: str = "", pace: str = "none", player: Player | None = None
) -> Iterator[InProcessReplay]:
    """Answer the model calls made in this context from traces or snapshots.

    `source` is "traces" or "snapshots"; `session` names the one session of traces to replay; `pace` is "none" (at
    once), "recorded", or "x10" for ten times as fast; `player` replays from somewhere else.

    Raises:
        ValueError: the source or the pace is unknown.
        CallNotRecorded: at the end, unless it ends with another error: a call was made that could not be replayed.
        InvalidFile: the snapshot tree does not verify.
        InvalidConfig: the project's configuration cannot be used.
    """
    if source not in SOURCES:
        raise ValueError(f"there is no source {source!r}: it is one of {', '.join(SOURCES)}")
    if source == "snapshots" and player is None:
        snapshots = open_snapshots(load_config(current_folder()))
        if snapshots.findings:
            raise InvalidFile(tuple(snapshots.findings))
        player = snapshots.player
    with inprocess_replay.replay(session=session, pace=pace, player=player) as replayed:
        yield replayed
