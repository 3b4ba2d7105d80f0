"""Replay in this process: from here to there.

In: calls that HTTP clients of this process make. Out: the recorded answers, without a connection; at the end, an
error where a call had none. Never: lets a call to a provider reach the network, whatever goes wrong.

    with traceforge.replay() as replayed: ...       this context, and what it starts
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from traceforge.capture.inprocess import find_hook
from traceforge.capture.replay_responder import Replay, read_pace
from traceforge.config import current_folder, load_config
from traceforge.errors import CallNotRecorded
from traceforge.replay.player import Player
from traceforge.replay.project_player import open_trace_player

if TYPE_CHECKING:
    from traceforge.replay.unmatched import UnmatchedRequest


class Replayed:
    """What was replayed so far."""

    plays = strict = True  # for the hook

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.answer = replay.reply  # for the hook
        self._missed_before = len(replay.player.unmatched)
        self._played_before = replay.player.played_count

    @property
    def played(self) -> int:
        """Calls that were answered from recordings."""
        return self._replay.player.played_count - self._played_before

    @property
    def misses(self) -> Sequence[UnmatchedRequest]:
        """Calls that were not, and why; also those whose failure the application swallowed."""
        return self._replay.player.unmatched[self._missed_before :]

    def refused(self, why: str) -> None:
        """A call could not be replayed: for the hook alone."""
        self._replay.refused(why)

    def note(self, what: str) -> None:
        """Something that cannot be seen into, such as gRPC, is not replayed: for the hook alone."""


@contextmanager
def replay(*, session: str = "", pace: str = "none", player: Player | None = None) -> Iterator[Replayed]:
    """Answer the calls of this context from what was recorded until it ends.

    `session` names the one session to replay; `pace` is "none" (at once), "recorded", or "x10" for ten times as fast;
    `player` replays from somewhere else than the project's traces.

    Raises:
        ValueError: there is no such pace.
        CallNotRecorded: at the end, unless it ends with another error: a call was made that nothing recorded answers.
        InvalidConfig: the project's configuration cannot be used.
    """
    speed = read_pace(pace)
    loaded = load_config(current_folder())
    player = player or open_trace_player(loaded, session).player
    replayed = Replayed(Replay(player, speed))
    hub, clients = find_hook()
    config = loaded.config
    watch: Any = hub.Watch(replayed, root=loaded.project, skip=config.callsite.skip, hosts=config.hosts)
    clients.start(watch)
    try:
        yield replayed
    finally:
        clients.stop(watch)
    if replayed.misses:
        raise CallNotRecorded([miss.message for miss in replayed.misses])
