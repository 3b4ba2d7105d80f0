"""Replaying first, and recording what has no recording: in this process, from now on.

In: calls that HTTP clients of this process make, and what answers them. Out: recorded responses; where the replay
allows it, unmatched requests go upstream and are recorded. Never: a call that is answered leaves a trace; in a
strict replay, none reaches the network.

    capture = ReplayingCapture(loaded, ReplayResponder(player, allow_upstream=True), recorder)
    capture.start(process_wide=True) … capture.stop()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import TYPE_CHECKING

from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.hook.library_answers import LibraryScope
from traceforge.capture.hook.pytest_scopes import current_scope, current_worker
from traceforge.capture.hook.replayed_response import ReplayedResponse
from traceforge.capture.inprocess import Capture
from traceforge.capture.replay_responder import ReplayResponder, begin_unrecorded_call
from traceforge.config import LoadedConfig
from traceforge.exchange import Caller, Headers

if TYPE_CHECKING:
    from traceforge.capture.recorder import Recorder


class ReplayingCapture(Capture):
    """The calls of this process. Those of `excluded_scopes` are left alone: neither answered nor recorded."""

    replays = True

    def __init__(
        self,
        loaded: LoadedConfig,
        responder: ReplayResponder,
        sink: Recorder,
        *,
        session_id: str = "",
        excluded_scopes: Set[str] = frozenset(),
    ) -> None:
        super().__init__(loaded, sink, session_id)
        self.responder = responder
        self.is_strict = not responder.allow_upstream
        self.needs_call_site = responder.allow_upstream
        self.excluded_scopes = excluded_scopes  # may change
        self.excluded_calls = 0
        self.library_answers: Counter[LibraryScope] = Counter()  # calls that other libraries answered

    def begin_call(self, method: str, url: str, headers: Headers, source: str) -> InFlightCall | None:
        if self.excluded_scopes and current_test() in self.excluded_scopes:
            self.excluded_calls += 1
            return None
        if self.is_strict:
            return begin_unrecorded_call(method, url, headers)
        return super().begin_call(method, url, headers, source)

    def replay_call(self, call: InFlightCall, body: bytes) -> ReplayedResponse | None:
        scope = call.caller.scope
        caller = Caller(call.caller.source, scope, scope, worker=current_worker())
        response = self.responder.respond(
            call.method, call.url, call.client_headers, body, caller,
            prefers_upstream=call.prefers_upstream, conversation=call.conversation,
        )  # fmt: skip
        if response is not None:
            self.forget_call(call)
        return response

    def count_library_answer(self, library: str) -> None:
        self.library_answers[library, current_scope()] += 1

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self.responder.count_refusal(reason, is_deviation, scope)

    def compare_answers(self, answers: tuple[bytes, bytes], reason: str, scope: str) -> None:
        self.responder.compare_answers(answers, reason, scope)
