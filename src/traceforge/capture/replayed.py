"""Replay in this process: from here to there.

In: calls that HTTP clients of this process make. Out: the recorded answers, without a connection; at the end, an
error where a call had none. Never: lets a call to a provider reach the network, whatever goes wrong.

    with traceforge.replay() as replayed: ...       this context, and what it starts
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.played import Answer
from traceforge.capture.inprocess import find_hook
from traceforge.capture.replay import Replay, read_pace
from traceforge.config import current_folder, load_config
from traceforge.errors import ReplayMissed
from traceforge.exchange import Caller, Headers
from traceforge.replay.miss import Miss
from traceforge.replay.opening import open_traces
from traceforge.replay.player import Player

_NOBODY = Caller()


class Replayed:
    """What was replayed so far."""

    plays = True  # for the hook
    places = False  # a player does not ask where a call was made

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._missed_before = len(replay.player.misses)
        self._played_before = replay.player.played

    @property
    def played(self) -> int:
        """Calls that were answered from recordings."""
        return self._replay.player.played - self._played_before

    @property
    def misses(self) -> Sequence[Miss]:
        """Calls that were not, and why; also those whose failure the application swallowed."""
        return self._replay.player.misses[self._missed_before :]

    def begin(self, method: str, url: str, headers: Headers, source: str) -> PlayedCall:
        """A call begins: for the hook alone."""
        return PlayedCall(self._replay, method, url, headers)

    def refused(self, why: str) -> None:
        """A call could not be replayed: for the hook alone."""
        self._replay.refused(why)

    def note(self, what: str) -> None:
        """Something that cannot be seen into, such as gRPC, is not replayed: for the hook alone."""


class PlayedCall:
    """One call, which is answered when its request is whole."""

    __slots__ = ("_method", "_replay", "_url", "headers")

    plays = True
    reply_headers: Headers = ()

    def __init__(self, replay: Replay, method: str, url: str, headers: Headers) -> None:
        self._replay = replay
        self._method = method
        self._url = url
        self.headers = headers

    def play(self, body: bytes) -> Answer | None:
        """The answer."""
        scope = current_test()
        caller = Caller("", scope, scope) if scope else _NOBODY
        return self._replay.answer(self._method, self._url, self.headers, body, caller)

    def refused(self, why: str) -> None:
        """It could not be answered."""
        self._replay.refused(why)


@contextmanager
def replay(*, session: str = "", pace: str = "none", player: Player | None = None) -> Iterator[Replayed]:
    """Answer the calls of this context from what was recorded until it ends.

    `session` names the one session to replay; `pace` is "none" (at once), "recorded", or "x10" for ten times as fast;
    `player` replays from somewhere else than the project's traces.

    Raises:
        ValueError: there is no such pace.
        ReplayMissed: at the end, unless it ends with another error: a call was made that nothing recorded answers.
        BadConfig: the project's configuration cannot be used.
    """
    speed = read_pace(pace)
    loaded = load_config(current_folder())
    player = player or open_traces(loaded, session).player
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
        raise ReplayMissed([miss.message for miss in replayed.misses])
