"""The player: a live request in, a recorded answer out.

In: requests, from any edge and any thread. Out: for each the recorded answer, refilled from the request, or a miss
that is explained and counted. Never: opens a connection, or lets a miss go uncounted because the application
swallowed it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Headers
from traceforge.replay.fingerprints import fingerprint_redactions
from traceforge.replay.library import Library
from traceforge.replay.recorded_response import RecordedResponse, refill_echoes
from traceforge.replay.request_key import KeyedRequest, RequestKeyer

if TYPE_CHECKING:
    from traceforge.replay.unmatched import UnmatchedRequest


class ReplayResult(NamedTuple):
    """What an edge sends, and whether it was recorded."""

    response: RecordedResponse  # NOTHING_SAID where the request is new, and goes to its upstream
    recording_name: str = ""  # of the recording; empty on a miss
    unmatched: UnmatchedRequest | None = None

    @property
    def is_new(self) -> bool:
        """Does nothing answer it, and is that no miss?"""
        return self.response is NO_ANSWER


_make = tuple.__new__  # a named tuple, without a call of its constructor
NO_ANSWER = RecordedResponse(0, (), (), streamed=False)


class FallbackSource(Protocol):
    """What can answer where nothing was recorded, such as a snapshot that a person wrote."""

    def find_response(self, request: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The name of what answers this, and its answer."""
        ...

    def explain_no_response(self, request: KeyedRequest) -> str:
        """Why it does not answer; "" where the library's explanation says it all."""
        ...


class Player:
    """Answers from a library, and then from what stands `beside` it.

    `match_key` lets it compare what was redacted; without it that is only counted.
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
        self._lock = threading.Lock()
        self.unmatched: list[UnmatchedRequest] = []
        self.default_scope = ""  # of calls that belong to no test
        self.fresh_scopes: frozenset[str] = (
            frozenset()
        )  # scopes in which nothing is answered: they ask everything anew
        self.new_count = 0  # requests that nothing answers, where that is no miss
        self.use_counts: Counter[tuple[str, str]] = Counter()  # recordings, by scope and name
        self.volatile_counts: Counter[str] = Counter()  # declarations of volatile parts that were used
        self.synthesised_count = 0  # answers that were made from what a person wrote
        self.redacted_count = 0  # answers in which something replays as `[REDACTED]`
        self.uncompared_calls = 0  # calls in which something was redacted that could not be compared
        self.uncompared_parts = 0

    @property
    def played_count(self) -> int:
        """How many calls were answered."""
        return self.use_counts.total()

    def play(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        caller: Caller,
        *,
        allow_new: bool = False,
        raw_headers: Iterable[tuple[bytes, bytes]] | None = None,
    ) -> ReplayResult:
        """Answer one request. Where it `may_be_new`, one that nothing answers is counted as such, and is no miss.

        `headers` may be those alone that a key reads, where `raw` are all of them as HTTP's bytes.
        """
        if not caller.scope and self.default_scope:
            caller = replace(caller, scope=self.default_scope)
        if allow_new and caller.scope in self.fresh_scopes:
            with self._lock:
                self.new_count += 1
            return ReplayResult(NO_ANSWER)
        read = self._keyer.key_request if raw_headers is None else self._keyer.key_filtered_request
        library = self._library
        request = read(method, url, headers, body, library.unredacted_keys)
        if request.compared_redactions:
            lookup = library.find(
                request.key, caller.scope, fingerprint_redactions(request.compared_redactions, self._match_key)
            )
        else:
            lookup = library.single_results.get(request.key) or library.find(request.key, caller.scope)
        if lookup.recording is None:
            fallback = (
                self._fallback.find_response(request)
                if self._fallback is not None and not lookup.differs_at
                else None
            )
            if fallback is not None:
                with self._lock:
                    self.use_counts[caller.scope, fallback[0]] += 1
                    self.synthesised_count += 1
                return ReplayResult(fallback[1], fallback[0])
            if allow_new:
                with self._lock:
                    self.new_count += 1
                return ReplayResult(NO_ANSWER)
            from traceforge.replay.unmatched import UnmatchedRequest, explain_unmatched

            reason = self._fallback.explain_no_response(request) if self._fallback is not None else ""
            if reason:
                endpoint = f"{request.endpoint.dialect or 'an unknown dialect'} {request.endpoint.kind}"
                return self._count_unmatched(
                    request, caller, UnmatchedRequest(endpoint, len(self._library), reason=reason)
                )
            in_scope = self._library.recordings_in_scope(caller.scope)
            return self._count_unmatched(
                request, caller, explain_unmatched(request, lookup, in_scope, self._library.recordings)
            )
        try:
            response = lookup.recording.source.load_response()
        except TraceForgeError as exc:
            from traceforge.replay.unmatched import explain_unreadable

            return self._count_unmatched(
                request, caller, explain_unreadable(request, lookup.recording.name, exc, len(self._library))
            )
        use = caller.scope, lookup.recording.name
        with self._lock:
            self.use_counts[use] = self.use_counts.get(use, 0) + 1
            if response.redacted_count:
                self.redacted_count += 1
            if request.volatile_counts:
                self.volatile_counts += request.volatile_counts
            if not lookup.redactions_compared:
                self.uncompared_calls += 1
                self.uncompared_parts += len(request.compared_redactions) or 1
        if response.echoes:
            if raw_headers is not None:
                headers = tuple((str(name, "latin-1"), str(value, "latin-1")) for name, value in raw_headers)
            response = refill_echoes(response, [*self._keyer.find_header_redactions(headers), *request.redactions])
        return _make(ReplayResult, (response, lookup.recording.name, None))

    def restart_scope(self, default_scope: str) -> None:
        """A scope begins again: its first request gets the first recording."""
        self._library.restart_scope(default_scope)

    def count_failure(self, reason: str) -> UnmatchedRequest:
        """A request that could not even be looked up: counted as a miss."""
        from traceforge.replay.unmatched import UnmatchedRequest

        unmatched = UnmatchedRequest("", len(self._library), reason=reason)
        with self._lock:
            self.unmatched.append(unmatched)
        return unmatched

    def _count_unmatched(self, request: KeyedRequest, caller: Caller, unmatched: UnmatchedRequest) -> ReplayResult:
        unmatched = unmatched._replace(caller=caller, request=request._replace(redactions=(), compared_redactions=()))
        with self._lock:
            self.unmatched.append(unmatched)
        return ReplayResult(unmatched.to_response(request.endpoint.dialect), unmatched=unmatched)
