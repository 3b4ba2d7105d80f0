"""How calls are answered from what was recorded, whichever edge they come from.

In: a whole request. Out: the answer that an edge sends, or none where the call goes on to its upstream. Never:
raises: a mistake of ours is an answer, too, or the client would try again; and in a strict replay it is a miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.guarded_call import pairs
from traceforge.capture.hook.replayed_response import BODILESS, Answer
from traceforge.capture.traceforge_headers import HeaderClaims, has_own_headers, is_ours, read_headers
from traceforge.exchange import Caller, Headers
from traceforge.replay.player import ReplayResult
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import is_key_header
from traceforge.tuples import NamedTuple
from traceforge.wire.endpoints import find_endpoint

if TYPE_CHECKING:
    from traceforge.replay.player import Player

NAME_HEADER = "X-TraceForge-Replayed"  # The recording's name, for a client that spoke to us.
PACE_MAX = 1e6
NAMES_REMEMBERED = 1000
HEADS_REMEMBERED = 512
_NOBODY = Caller()

RawHeader = tuple[bytes, bytes]
RawHeaders = tuple[RawHeader, ...]


class _Counts(dict[bytes, bool]):
    """Is a header of this name ours, or one that a key reads? Clients send the same names again and again."""

    def __missing__(self, name: bytes) -> bool:
        text = name.decode("latin-1")
        found = is_key_header[text] or is_ours[text]
        if len(self) < NAMES_REMEMBERED:
            self[name] = found
        return found


_counts = _Counts()
_known: dict[RawHeaders, Headers] = {}  # of headers that count, where none is ours


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

    def find(self, method: str, url: str, said: HeaderClaims, body: bytes) -> ReplayResult:
        """What was recorded for a request, or a miss."""
        return self._find(method, url, said.upstream, body, said.caller)

    def answer(self, method: str, url: str, headers: Headers, body: bytes, caller: Caller) -> Answer | None:
        """The answer for an edge in a process; None: the call goes on."""
        if not has_own_headers(headers):
            played = self._find(method, url, headers, body, caller)
            return None if played.is_new else self._to_send(played.response)
        said = read_headers(headers, caller)
        if said.problems:  # It would be another call than the one that was meant.
            played = self._fail(method, url, "; ".join(said.problems))
        else:
            played = self.find(method, url, said, body)
            if played.is_new:
                return None
        return self._finish(played.response, ((NAME_HEADER, played.recording_name),) if played.recording_name else ())

    def reply(self, method: str, url: str, raw: Sequence[RawHeader], body: bytes) -> Answer | None:
        """The same where headers are HTTP's bytes, and the test that runs is who asks.

        Most headers say nothing to us, and the others are the same in every call of a client.
        """
        scope = current_test()
        caller = Caller("", scope, scope) if scope else _NOBODY
        read = tuple([one for one in raw if _counts[one[0]]])
        headers = _known.get(read) or _learn(read)
        if headers is None or self.relays_misses:
            return self.answer(method, url, pairs(raw), body, caller)
        try:
            answer = self.player.play(method, url, headers, body, caller, raw_headers=raw).response
        except Exception as exc:  # noqa: BLE001
            answer = self._fail(method, url, _failure(exc)).response
        return answer.edge_cache.get(self.pace) or self._to_send(answer)

    def _find(self, method: str, url: str, headers: Headers, body: bytes, caller: Caller) -> ReplayResult:
        try:
            return self.player.play(method, url, headers, body, caller, allow_new=self.relays_misses)
        except Exception as exc:  # noqa: BLE001
            return self._fail(method, url, _failure(exc))

    def refused(self, why: str) -> None:
        """An edge could not even ask."""
        self.player.count_failure(why)

    def _fail(self, method: str, url: str, why: str) -> ReplayResult:
        miss = self.player.count_failure(why)
        return ReplayResult(miss.to_response(find_endpoint(method, url).dialect), unmatched=miss)

    def _to_send(self, answer: RecordedResponse) -> Answer:
        """It is made once for each pace, and kept for as long as the recorded answer is."""
        made = answer.edge_cache[self.pace] = answer.edge_cache.get(self.pace) or self._finish(answer, ())
        return made

    def _finish(self, answer: RecordedResponse, added: Headers) -> Answer:
        """With the length that its body has now; what was a stream has none."""
        headers = (*answer.headers, *added) if added else answer.headers
        if answer.streamed or answer.cut:
            return Answer(answer.status, headers, answer.chunks, answer.cut, self.pace if answer.streamed else 0.0)
        if answer.status not in BODILESS:
            headers = (*headers, ("Content-Length", str(sum([len(chunk.data) for chunk in answer.chunks]))))
        return Answer(answer.status, headers, answer.chunks)


def _learn(raw: RawHeaders) -> Headers | None:
    """The headers as text; None where one of them is ours."""
    headers = pairs(raw)
    if has_own_headers(headers):
        return None
    if len(_known) < HEADS_REMEMBERED:
        _known[raw] = headers
    return headers


def _failure(exc: Exception) -> str:
    return f"looking for one failed ({type(exc).__name__})"
