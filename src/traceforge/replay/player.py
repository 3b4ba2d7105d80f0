"""Replay one live request: find the recording with its key and return the recorded response.

Never: opens a connection, or leaves an unmatched request uncounted because the application swallowed the error.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Headers
from traceforge.replay.fingerprints import fingerprint_redactions
from traceforge.replay.library import Library, LookupResult
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest, RequestKeyer
from traceforge.replay.unmatched import (
    UnmatchedRequest,
    explain_unmatched,
    explain_unreadable,
    unmatched_for_reason,
)


class ReplayResult(NamedTuple):
    """What the caller sends to the client."""

    response: RecordedResponse  # NO_ANSWER where the request is new and goes to its upstream
    recording_name: str = ""  # empty where nothing was recorded
    unmatched: UnmatchedRequest | None = None

    @property
    def is_new(self) -> bool:
        """Whether the request goes to its upstream, because it has no recording and may be new."""
        return self.response is NO_ANSWER


NO_ANSWER = RecordedResponse(0, (), (), streamed=False)


class FallbackSource(Protocol):
    """Answers requests that the library has no recording of, for example from a handwritten snapshot."""

    def find_response(self, request: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The name of the source of the response, and the response."""
        ...

    def explain_no_response(self, request: KeyedRequest) -> str:
        """Why there is no response; "" where the library's explanation is enough."""
        ...


class Player:
    """Answers requests from a library, then from `fallback`. Safe to use from several threads.

    With `match_key`, redacted parts of requests are compared; without it, calls that have such parts are counted.
    """

    def __init__(
        self,
        keyer: RequestKeyer,
        library: Library,
        *,
        match_key: bytes | None = None,
        fallback: FallbackSource | None = None,
    ) -> None:
        self._keyer = keyer
        self._library = library
        self._match_key = match_key
        self._fallback = fallback
        self._lock = threading.Lock()  # for the counts below
        self.unmatched: list[UnmatchedRequest] = []
        self.default_scope = ""  # of calls that belong to no test
        self.fresh_scopes: frozenset[str] = frozenset()  # in these, every request is new
        self.new_count = 0  # requests without a recording that may be new
        self.use_counts: Counter[tuple[str, str]] = Counter()  # by scope and recording
        self.volatile_counts: Counter[str] = Counter()  # by declaration of a volatile part
        self.synthesised_count = 0  # responses from the fallback
        self.redacted_count = 0  # responses in which a value replays as `[REDACTED]`
        self.uncompared_calls = 0  # calls with redacted parts that could not be compared
        self.uncompared_parts = 0

    @property
    def played_count(self) -> int:
        """How many calls got a recorded or synthesised response."""
        return self.use_counts.total()

    def play(
        self, method: str, url: str, headers: Headers, body: bytes, caller: Caller, *, allow_new: bool = False
    ) -> ReplayResult:
        """Answer one request. With `allow_new`, a request without a recording is new and not unmatched."""
        if not caller.scope and self.default_scope:
            caller = replace(caller, scope=self.default_scope)
        if allow_new and caller.scope in self.fresh_scopes:
            return self._count_new()
        request = self._keyer.key_request(method, url, headers, body, self._library.unredacted_keys)
        fingerprints = fingerprint_redactions(request.compared_redactions, self._match_key)
        lookup = self._library.find(request.key, caller.scope, fingerprints)
        if lookup.recording is None:
            return self._answer_unrecorded(request, caller, lookup, allow_new=allow_new)
        try:
            response = lookup.recording.source.load_response()
        except TraceForgeError as exc:
            return self._count_unreadable(request, caller, lookup.recording.name, exc)
        self._count_use(request, caller, lookup, response)
        if response.echoes:
            from traceforge.replay.echoes import refill_echoes  # 5 ms of CPU, and few responses have echoes.

            response = refill_echoes(response, [*self._keyer.find_header_redactions(headers), *request.redactions])
        return ReplayResult(response, lookup.recording.name)

    def restart_scope(self, scope: str) -> None:
        """Make the next request of a scope get the scope's first recording again."""
        self._library.restart_scope(scope)

    def count_failure(self, reason: str) -> UnmatchedRequest:
        """Count a request that could not be looked up as unmatched."""
        unmatched = UnmatchedRequest("", len(self._library), reason=reason)
        with self._lock:
            self.unmatched.append(unmatched)
        return unmatched

    def _answer_unrecorded(
        self, request: KeyedRequest, caller: Caller, lookup: LookupResult, *, allow_new: bool
    ) -> ReplayResult:
        """Try the fallback, then let the request go upstream or count it as unmatched."""
        fallback = self._fallback
        if fallback is not None and not lookup.differs_at:
            match = fallback.find_response(request)
            if match is not None:
                return self._count_synthesised(caller, *match)
        if allow_new:
            return self._count_new()
        reason = fallback.explain_no_response(request) if fallback is not None else ""
        if reason:
            return self._count_unmatched(request, caller, unmatched_for_reason(request, len(self._library), reason))
        in_scope = self._library.recordings_in_scope(caller.scope)
        unmatched = explain_unmatched(request, lookup, in_scope, self._library.recordings)
        return self._count_unmatched(request, caller, unmatched)

    def _count_use(
        self, request: KeyedRequest, caller: Caller, lookup: LookupResult, response: RecordedResponse
    ) -> None:
        assert lookup.recording is not None
        with self._lock:
            self.use_counts[caller.scope, lookup.recording.name] += 1
            self.volatile_counts.update(request.volatile_counts)
            if response.redacted_count:
                self.redacted_count += 1
            if not lookup.redactions_compared:
                self.uncompared_calls += 1
                self.uncompared_parts += len(request.compared_redactions) or 1

    def _count_synthesised(self, caller: Caller, name: str, response: RecordedResponse) -> ReplayResult:
        with self._lock:
            self.use_counts[caller.scope, name] += 1
            self.synthesised_count += 1
        return ReplayResult(response, name)

    def _count_new(self) -> ReplayResult:
        with self._lock:
            self.new_count += 1
        return ReplayResult(NO_ANSWER)

    def _count_unreadable(
        self, request: KeyedRequest, caller: Caller, name: str, error: TraceForgeError
    ) -> ReplayResult:
        return self._count_unmatched(request, caller, explain_unreadable(request, name, error, len(self._library)))

    def _count_unmatched(self, request: KeyedRequest, caller: Caller, unmatched: UnmatchedRequest) -> ReplayResult:
        without_values = request._replace(redactions=(), compared_redactions=())
        unmatched = unmatched._replace(caller=caller, request=without_values)
        with self._lock:
            self.unmatched.append(unmatched)
        return ReplayResult(unmatched.to_response(request.endpoint.dialect), unmatched=unmatched)
