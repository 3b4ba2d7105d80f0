"""Replay in this process: the calls of one context.

In: calls that HTTP clients of this process make. Out: the recorded responses, without a connection; at the end, an
error where a call had none. Never: lets a call to a provider reach the network, even after an error.

    with traceforge.replay() as replayed: ...       this context, and what it starts
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.hook.replayed_response import ReplayedResponse
from traceforge.capture.hook.watcher import Watcher
from traceforge.capture.inprocess import find_hook
from traceforge.capture.replay_responder import ReplayResponder, begin_unrecorded_call, read_pace
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.config import current_folder, load_config
from traceforge.errors import CallNotRecorded
from traceforge.exchange import Headers
from traceforge.replay.player import Player
from traceforge.replay.trace_recordings import open_trace_player

if TYPE_CHECKING:
    from traceforge.replay.unmatched import UnmatchedRequest


class InProcessReplay(Watcher):
    """The calls that were replayed so far. Methods of `Watcher` are for the hook."""

    replays = is_strict = True
    needs_call_site = False

    def __init__(self, responder: ReplayResponder) -> None:
        self._responder = responder
        self._unmatched_before = len(responder.player.unmatched)
        self._played_before = responder.player.played_count

    @property
    def played(self) -> int:
        """How many calls were answered from recordings."""
        return self._responder.player.played_count - self._played_before

    @property
    def unmatched(self) -> Sequence[UnmatchedRequest]:
        """Calls that were not, and why; also those whose failure the application swallowed."""
        return self._responder.player.unmatched[self._unmatched_before :]

    def begin_call(self, method: str, url: str, headers: Headers, source: str) -> InFlightCall:
        return begin_unrecorded_call(method, url, headers)

    def replay_call(self, call: InFlightCall, body: bytes) -> ReplayedResponse | None:
        return self._responder.respond(
            call.method, call.url, call.client_headers, body, call.caller, conversation=call.conversation
        )

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self._responder.count_refusal(reason, is_deviation, scope)

    def compare_answers(self, answers: tuple[bytes, bytes], reason: str, scope: str) -> None:
        self._responder.compare_answers(answers, reason, scope)


@contextmanager
def replay(*, session: str = "", pace: str = "none", player: Player | None = None) -> Iterator[InProcessReplay]:
    """Answer the calls of this context from what was recorded until it ends.

    `session` names the one session to replay; `pace` is "none" (at once), "recorded", or "x10" for ten times as fast;
    `player` replays from somewhere else than the project's traces.

    Raises:
        ValueError: the pace is unknown.
        CallNotRecorded: at the end, unless it ends with another error: a call was made that could not be replayed.
        InvalidConfig: the project's configuration cannot be used.
    """
    speed = read_pace(pace)
    loaded = load_config(current_folder())
    player = player or open_trace_player(loaded, session).player
    replayed = InProcessReplay(ReplayResponder(player, speed))
    dispatch, clients = find_hook()
    config = loaded.config
    subscription: Any = dispatch.Subscription(
        replayed, root=loaded.project, skip=config.callsite.skip, hosts=list_watched_hosts(config)
    )
    clients.start(subscription)
    try:
        yield replayed
    finally:
        clients.stop(subscription)
    if replayed.unmatched:
        can_record = any(request.can_record for request in replayed.unmatched)
        raise CallNotRecorded([request.message for request in replayed.unmatched], can_record=can_record)
