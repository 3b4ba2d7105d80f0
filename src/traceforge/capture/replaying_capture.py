"""Answering first, and recording what is left: in this process, from now on.

In: calls that HTTP clients of this process make, and what answers them. Out: recorded answers; where the replay
relays misses, the others go on and are recorded. Never: a call that is answered leaves a trace; and in a strict
replay, none reaches the network.

    watching = Answering(loaded, Replay(player, relays_misses=True), ThreadRecorder(setting))
    watching.start() … watching.stop()
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.replayed_response import Answer
from traceforge.capture.inprocess import Capture
from traceforge.capture.replay_responder import Replay
from traceforge.config import LoadedConfig
from traceforge.exchange import Caller, Headers

if TYPE_CHECKING:
    from traceforge.capture.engine import Call
    from traceforge.capture.recorder import Recorder


class AnsweredCall:
    """One call, which is answered when its request is whole, or goes on to be recorded."""

    __slots__ = (
        "_answering",
        "_asked",
        "_call",
        "answered",
        "came",
        "ended",
        "headers",
        "id",
        "reply_headers",
        "sent",
    )

    plays = True

    def __init__(self, answering: Answering, call: Call, asked: tuple[str, str, Headers, Caller]) -> None:
        self._answering = answering
        self._call = call
        self._asked = asked
        self.id = call.id
        self.headers, self.reply_headers = call.headers, call.reply_headers
        self.sent, self.answered, self.came, self.ended = call.sent, call.answered, call.came, call.ended

    def play(self, body: bytes) -> Answer | None:
        """The answer; None: it goes on."""
        method, url, headers, caller = self._asked
        answer = self._answering.replay.answer(method, url, headers, body, caller)
        if answer is not None:
            self._answering.forget(self._call)
        return answer

    def refused(self, why: str) -> None:
        """It could not be answered."""
        self._answering.refused(why)


class Answering(Capture):
    """The calls of this process. Those of scopes that are in `spared` are left alone: neither answered nor seen."""

    plays = True  # for the hook

    def __init__(
        self,
        loaded: LoadedConfig,
        replay: Replay,
        sink: Recorder,
        *,
        session_id: str = "",
        spared: Set[str] = frozenset(),
    ) -> None:
        super().__init__(loaded, sink, session_id)
        self.replay = replay
        self.strict = not replay.relays_misses
        self.answer = replay.reply  # for the hook, of a strict replay
        self.left_alone = 0
        self.spared = spared  # for the hook, which looks whether there are any: it may change

    def spares(self) -> bool:
        """A call begins: is it left alone? For the hook alone."""
        if not self.spared or current_test() not in self.spared:
            return False
        self.left_alone += 1
        return True

    def begin(self, method: str, url: str, headers: Headers, source: str) -> Any:  # noqa: ANN401 (for the hook)
        """A call begins that may go on: for the hook alone."""
        if self.spares():
            return None
        scope = current_test()
        call = super().begin(method, url, headers, source)
        return AnsweredCall(self, call, (method, url, headers, Caller(source, scope, scope)))

    def refused(self, why: str) -> None:
        """A call could not be answered: for the hook alone."""
        self.replay.refused(why)
