"""How calls are answered from recordings, whichever edge they come from.

In: a whole request. Out: the response that an edge sends, or None where the call goes to its upstream. Never: raises:
a failure is a response, too, or the client would try again; it counts as unmatched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from traceforge.capture.hook.in_flight_call import NO_CONVERSATION, Conversation, InFlightCall
from traceforge.capture.hook.pytest_scopes import current_scope
from traceforge.capture.hook.replayed_response import BODILESS_STATUSES, WAITS_ON, ReplayedResponse, make_refusal
from traceforge.capture.traceforge_headers import HeaderClaims, read_headers
from traceforge.exchange import Caller, Headers
from traceforge.replay.player import ReplayResult
from traceforge.replay.recorded_response import CancelCause, RecordedResponse
from traceforge.wire.endpoints import find_endpoint

if TYPE_CHECKING:
    from traceforge.replay.player import Player

RECORDING_HEADER = "X-TraceForge-Replayed"  # The recording's name, for a client that uses TraceForge's headers.
POLL_HEADER = "openai-poll-after-ms"
PACE_MAX = 1e6


def read_pace(text: str) -> float:
    """How many times as fast as recorded chunks are sent: "none" (0, at once), "recorded", or "x" and a number.

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


class ReplayResponder(Struct, frozen=True):
    """A player, and how its responses are sent."""

    player: Player
    pace: float = 0.0  # How many times as fast as recorded chunks are sent; 0: at once.
    allow_upstream: bool = False  # A request without a recording goes to its upstream, and is recorded.
    choose_player: Callable[[str], Player] | None = None  # by scope, where several players answer

    def restart_scope(self, scope: str, worker: str = "") -> None:
        """A test begins, perhaps again: it gets the same responses again."""
        player = self._find_player(scope)
        player.restart_scope(player.name_scope(scope), worker)

    def _find_player(self, scope: str) -> Player:
        return self.player if self.choose_player is None else self.choose_player(scope)

    def find(
        self,
        method: str,
        url: str,
        claims: HeaderClaims,
        body: bytes,
        *,
        prefers_upstream: bool = False,
        conversation: Conversation = NO_CONVERSATION,
    ) -> ReplayResult:
        """The recording for a request, or why there is none."""
        try:
            player = self._find_player(claims.caller.scope)
            if prefers_upstream and self.allow_upstream:
                return player.pass_upstream()
            if conversation.is_open:
                return player.play_part(
                    method, url, claims.upstream, body, claims.caller, conversation.id, conversation.start
                )
            player.conversations.end(conversation.id)
            return player.play(method, url, claims.upstream, body, claims.caller, allow_upstream=self.allow_upstream)
        except Exception as exc:  # noqa: BLE001
            return self._fail(method, url, f"the lookup of a recording failed ({type(exc).__name__})")

    def respond(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        caller: Caller,
        *,
        prefers_upstream: bool = False,
        conversation: Conversation = NO_CONVERSATION,
    ) -> ReplayedResponse | None:
        """The response to a request; None: the call goes upstream."""
        claims = read_headers(headers, caller)
        if claims.problems:  # It would be another call than the one that was meant.
            result = self._fail(method, url, "; ".join(claims.problems))
        else:
            result = self.find(
                method, url, claims, body, prefers_upstream=prefers_upstream, conversation=conversation
            )
            if result.goes_upstream:
                return None
        is_named = claims.wants_headers and result.source_name
        added: Headers = ((RECORDING_HEADER, result.source_name),) if is_named else ()
        if not self.pace:
            added += skip_polling_pause(headers)
        return self._to_replayed(method, result.response, added)

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        """A call was refused before it could be looked up; or, with `is_deviation`, after it was."""
        self._find_player(scope).count_unmatched(reason, needs_fresh=is_deviation, scope=scope)

    def compare_answers(self, answers: tuple[bytes, bytes], reason: str, scope: str) -> None:
        """An approved answer, and what an application or a tool of it answered in its place: count a difference."""
        try:
            is_same = self._find_player(scope).is_same_answer(*answers)
        except Exception:  # noqa: BLE001 (an answer that cannot be redacted is not the approved one)
            is_same = False
        if not is_same:
            self.count_refusal(reason, True, scope)

    def _fail(self, method: str, url: str, reason: str) -> ReplayResult:
        unmatched = self.player.count_unmatched(reason)
        return ReplayResult(unmatched.to_response(find_endpoint(method, url).dialect), unmatched=unmatched)

    def _to_replayed(self, method: str, response: RecordedResponse, extra_headers: Headers) -> ReplayedResponse:
        """With the length that the body has now; a stream has none, and that of a HEAD is the recorded one."""
        if response.cancellation is not None:
            return make_refusal(WAITS_ON)._replace(
                hold_s=response.cancellation.hold_s, times_out=response.cancellation.cause is CancelCause.TIMEOUT
            )
        replaced = {name.lower() for name, _ in extra_headers}
        headers = (*(pair for pair in response.headers if pair[0].lower() not in replaced), *extra_headers)
        if response.streamed or response.cut:
            pace = self.pace if response.streamed else 0.0
            return ReplayedResponse(
                response.status, headers, response.chunks, response.cut, pace, response.left_early
            )
        if response.status not in BODILESS_STATUSES and method.upper() != "HEAD":
            headers = (*headers, ("Content-Length", str(sum(len(chunk.data) for chunk in response.chunks))))
        return ReplayedResponse(response.status, headers, response.chunks)


def skip_polling_pause(request_headers: Headers) -> Headers:
    """The header with which OpenAI tells the polling helpers of its SDKs to ask again at once.

    They send whether they take the pause from it. A pause that the application chose is its own.
    """
    names = {name.lower(): value for name, value in request_headers}
    is_helper = names.get("x-stainless-poll-helper") == "true"
    return ((POLL_HEADER, "1"),) if is_helper and "x-stainless-custom-poll-interval" not in names else ()


def begin_unrecorded_call(method: str, url: str, headers: Headers) -> InFlightCall:
    """A call in this process that is replayed and never recorded; its call site is not needed."""
    scope = current_scope()
    return InFlightCall(_discard, method, url, headers, caller=Caller("", scope, scope))


def _discard(call: InFlightCall) -> None:
    pass
