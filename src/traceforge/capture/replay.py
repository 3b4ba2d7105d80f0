"""How calls are answered from what was recorded, whichever edge they come from.

In: a whole request. Out: the answer that an edge sends, or none where the call goes on to its upstream. Never:
raises: a mistake of ours is an answer, too, or the client would try again; and in a strict replay it is a miss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traceforge.capture.headers import Said, are_spoken, read_headers
from traceforge.capture.hook.played import BODILESS, Answer
from traceforge.exchange import Caller, Headers
from traceforge.replay.answer import RecordedAnswer
from traceforge.replay.player import Played
from traceforge.wire.registry import find_endpoint

if TYPE_CHECKING:
    from traceforge.replay.player import Player

NAME_HEADER = "X-TraceForge-Replayed"  # The recording's name, for a client that spoke to us.
PACE_MAX = 1e6


def read_pace(text: str) -> float:
    """How many times as fast as they came chunks are sent: "none" (0, at once), "recorded", or "x" and a number.

    Raises:
        ValueError: it is something else.
    """
    if text in ("none", "recorded"):
        return float(text == "recorded")
    try:
        speed = float(text[1:]) if text.startswith("x") else 0.0
    except ValueError:
        speed = 0.0
    if not 0 < speed < PACE_MAX:
        raise ValueError("a pace must be none, recorded, or x and a number, such as x10")
    return speed


class Replay(NamedTuple):
    """A player, and how its answers are sent."""

    player: Player
    pace: float = 0.0  # How many times as fast as they came chunks are sent; 0: at once.
    relays_misses: bool = False  # A request that nothing answers goes to its upstream, and is recorded.

    def find(self, method: str, url: str, said: Said, body: bytes) -> Played:
        """What was recorded for a request, or a miss."""
        return self._find(method, url, said.upstream, body, said.caller)

    def answer(self, method: str, url: str, headers: Headers, body: bytes, caller: Caller) -> Answer | None:
        """The answer for an edge in a process; None: the call goes on."""
        if not are_spoken(headers):
            played = self._find(method, url, headers, body, caller)
            return None if played.is_new else self._to_send(played.answer, ())
        said = read_headers(headers, caller)
        if said.problems:  # It would be another call than the one that was meant.
            played = self._fail(method, url, "; ".join(said.problems))
        else:
            played = self.find(method, url, said, body)
            if played.is_new:
                return None
        return self._to_send(played.answer, ((NAME_HEADER, played.name),) if played.name else ())

    def _find(self, method: str, url: str, headers: Headers, body: bytes, caller: Caller) -> Played:
        try:
            return self.player.play(method, url, headers, body, caller, may_be_new=self.relays_misses)
        except Exception as exc:  # noqa: BLE001
            return self._fail(method, url, f"looking for one failed ({type(exc).__name__})")

    def refused(self, why: str) -> None:
        """An edge could not even ask."""
        self.player.failed(why)

    def _fail(self, method: str, url: str, why: str) -> Played:
        miss = self.player.failed(why)
        return Played(miss.answer(find_endpoint(method, url).dialect), miss=miss)

    def _to_send(self, answer: RecordedAnswer, added: Headers) -> Answer:
        """With the length that its body has now; what was a stream has none."""
        headers = (*answer.headers, *added) if added else answer.headers
        if answer.streamed or answer.cut:
            return Answer(answer.status, headers, answer.chunks, answer.cut, self.pace if answer.streamed else 0.0)
        if answer.status not in BODILESS:
            headers = (*headers, ("Content-Length", str(sum([len(chunk.data) for chunk in answer.chunks]))))
        return Answer(answer.status, headers, answer.chunks)
