"""Replay one live request: find the recording with the same request key and return the recorded response.

Never: opens a connection. Every request that is refused because nothing was recorded for it is counted, so the run
fails even if the application ignores the 418 that it gets.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Headers
from traceforge.replay.compared_frames import name_every_frame
from traceforge.replay.conversation_lookup import OpenConversations
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

NO_ANSWER = RecordedResponse(0, (), (), streamed=False)  # of a request that goes to its upstream
# Of the next frames of an open conversation; the statuses that `capture.hook.replayed_response` knows.
SAME_RECORDING = RecordedResponse(304, (), (), streamed=False)
SEND_ALL = RecordedResponse(412, (), (), streamed=False)


class ReplayResult(Struct, frozen=True):
    """The response to send, which is a 418 for an unmatched request, or NO_ANSWER; and where it comes from."""

    response: RecordedResponse  # NO_ANSWER where the request goes to its upstream
    source_name: str = ""  # the recording or fallback that answered; empty if nothing did, or the adopter did
    unmatched: UnmatchedRequest | None = None  # why nothing answered

    @property
    def goes_upstream(self) -> bool:
        """Whether the caller must send the request to its upstream, because no recording answered it."""
        return self.response is NO_ANSWER


class FallbackSource(Protocol):
    """Answers requests that the library has no recording of: from a snapshot without a raw response, or from a Model
    IO recording.
    """

    def find_response(self, request: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The name of the source of the response, and the response."""
        ...

    def explain_no_response(self, request: KeyedRequest) -> str:
        """Why the recordings have no response; "" where the library's explanation is enough."""
        ...


class SentRequest(Struct, frozen=True):
    """A request as the application sent it, with its secrets; never stored."""

    method: str
    url: str
    headers: Headers
    body: bytes


class ResponseAdopter(Protocol):
    """Answers requests that have no recording with the recorded response of another request: `record --adopt`."""

    def adopt_response(
        self, sent: SentRequest, request: KeyedRequest, caller: Caller, library: Library
    ) -> RecordedResponse | None:
        """The response; None where no recording is like the request."""
        ...

    def restart_scope(self, scope: str, worker: str) -> None:
        """A test begins, perhaps again."""
        ...


class WorkerUses:
    """How often recordings answered in one worker of a suite, by scope and recording."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.earlier_counts: Counter[tuple[str, str]] = (
            Counter()
        )  # the part of `counts` from before a test was repeated
        self._attempts: dict[str, dict[str, int]] = {}  # by scope: the recordings that were used since it began

    def add(self, scope: str, name: str) -> None:
        self.counts[scope, name] += 1
        attempt = self._attempts.setdefault(scope, {})
        attempt[name] = attempt.get(name, 0) + 1

    def restart_scope(self, scope: str) -> None:
        for name, times in self._attempts.pop(scope, {}).items():
            self.earlier_counts[scope, name] += times


class Player:
    """Answers requests from a library, then from `fallback`, then from `adopter`. Safe to use from several threads.

    With `match_key`, redacted parts of requests are compared; without it, such parts are ignored when matching, and
    the calls count as uncompared.

    A scope is a test or a run. A call gets the recordings of its own scope; if that has none for the request, those
    of all scopes.
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
        self.conversations = OpenConversations()
        self.default_scope = ""  # of calls that belong to no test
        self.scope_prefix = ""  # a folder in scopes of now that recorded ones lack: it is cut off
        # Whether recorded scopes hold `[REDACTED]`: then a live scope without recordings is redacted, too.
        self.redacts_scopes = False
        self._redacted_scopes: dict[str, str] = {}
        self.adopter: ResponseAdopter | None = None
        self.fresh_scopes: frozenset[str] = frozenset()  # with `allow_upstream`, all their requests go upstream
        # With `allow_upstream`, requests whose recordings were made without the match key go upstream.
        self.renews_uncompared = False
        self.upstream_count = 0  # requests that went to their upstream
        self.use_counts: Counter[tuple[str, str]] = Counter()  # by scope and recording
        self.worker_uses: dict[str, WorkerUses] = {}  # the same, by the worker of a suite; "" outside of workers
        self.volatile_counts: Counter[str] = Counter()  # by declaration of a volatile part
        self.uncompared_field_counts: Counter[str] = Counter()  # by the path of a field that is never compared
        self.synthesised_count = 0  # responses from the fallback
        self.redacted_response_count = 0  # responses in which a value replays as `[REDACTED]`
        self.uncompared_call_count = 0  # calls with redacted parts that could not be compared
        self.uncompared_part_count = 0
        self.unknown_head_count = 0  # calls whose recording lacks the address, or some of the headers

    @property
    def has_match_key(self) -> bool:
        """Whether redacted parts can be compared with those of recordings that were made with the key."""
        return self._match_key is not None

    @property
    def has_recordings(self) -> bool:
        """Whether there is anything to answer from; `record --fresh` answers nothing."""
        return len(self._library) > 0

    @property
    def played_count(self) -> int:
        """How many calls got a recorded or synthesised response; adopted ones are not counted."""
        return self.use_counts.total()

    def is_same_answer(self, recorded: bytes, now: bytes) -> bool:
        """Whether an answer of today, once it is redacted, is a recorded one. Both are JSON."""
        return self._keyer.is_same_answer(recorded, now)

    def play(
        self, method: str, url: str, headers: Headers, body: bytes, caller: Caller, *, allow_upstream: bool = False
    ) -> ReplayResult:
        """Answer one request: from a recording, else from the fallback, else from the adopter.

        Where none has a response, the request is unmatched; with `allow_upstream` it goes upstream. A recording that
        cannot be read makes it unmatched in both cases.
        """
        caller = self._name_caller(caller)
        if allow_upstream and caller.scope in self.fresh_scopes:
            return self.pass_upstream()
        request, lookup = self._look_up(method, url, headers, body, caller)
        if lookup.recording is None or (allow_upstream and self._is_renewed(lookup)):
            sent = SentRequest(method, url, headers, body)
            return self._answer_unrecorded(sent, request, caller, lookup, allow_upstream=allow_upstream)
        try:
            response = lookup.recording.source.load_response()
        except TraceForgeError as exc:
            return self._answer_unreadable(request, caller, lookup.recording.name, exc)
        self._count_use(request, caller, lookup, response)
        return ReplayResult(self._refill_echoes(response, headers, request), lookup.recording.name)

    def play_part(
        self, method: str, url: str, headers: Headers, body: bytes, caller: Caller, conversation: str, start: int = 0
    ) -> ReplayResult:
        """The recording of a conversation that begins like this, which counts as used when `play` gets all of it.

        With a `start`, the body has the frames from there on. The result is then SAME_RECORDING, or SEND_ALL where
        the frames before them are needed, too.
        """
        if start:
            is_same = self.conversations.is_as_recorded(conversation, start, body, self._library)
            return ReplayResult(SAME_RECORDING if is_same else SEND_ALL)
        caller = self._name_caller(caller)
        for scope in dict.fromkeys((caller.scope, "")):
            request = self._keyer.key_request(method, url, headers, body, scope=scope)
            follow = partial(self._keyer.follow_frames, method, url, headers, request)
            recording = self.conversations.choose_recording(
                conversation, request, caller.scope, self._library, follow
            )
            if recording is not None or not request.tests:
                break
        if recording is None:
            self.conversations.end(conversation)
            unmatched = explain_unmatched(request, LookupResult(None), caller.scope, self._library)
            return self._answer_unmatched(request, caller, unmatched)
        try:
            response = recording.source.load_response()
        except TraceForgeError as exc:
            return self._answer_unreadable(request, caller, recording.name, exc)
        return ReplayResult(self._refill_echoes(response, headers, request), recording.name)

    def _refill_echoes(self, response: RecordedResponse, headers: Headers, request: KeyedRequest) -> RecordedResponse:
        if not response.echoes:
            return response
        from traceforge.replay.echoes import (
            refill_echoes,
        )  # Deferred: the import takes 5 ms, and few responses have echoes.

        header_redactions = self._keyer.find_header_redactions(headers, request.redactions)
        return refill_echoes(response, [*header_redactions, *request.redactions])

    def _look_up(
        self, method: str, url: str, headers: Headers, body: bytes, caller: Caller
    ) -> tuple[KeyedRequest, LookupResult]:
        """Key a request and look it up. The key depends on where it is looked up.

        First come the recordings of the test itself, with the volatile parts that are declared for it. Only if it
        never had one for this request, those of other tests are looked up, without its declarations.
        """
        scope = caller.scope
        known_keys = self._library.unredacted_keys
        request = self._keyer.key_request(method, url, headers, body, known_keys, scope=scope)
        fingerprints = fingerprint_redactions(request.compared_redactions, self._match_key)
        lookup = self._library.find_request(request, scope, fingerprints, caller.worker)
        is_used_up = lookup.recording is None and self._library.has_own(request, scope, fingerprints)
        if lookup.recording is not None or not request.tests or is_used_up:
            return request, lookup
        shared_request = self._keyer.key_request(method, url, headers, body, known_keys)
        fingerprints = fingerprint_redactions(shared_request.compared_redactions, self._match_key)
        shared_lookup = self._library.find_request(shared_request, scope, fingerprints, caller.worker)
        return (request, lookup) if shared_lookup.recording is None else (shared_request, shared_lookup)

    @property
    def request_keys(self) -> dict[str, str]:
        """The request keys of the recordings, by name."""
        return {recording.name: recording.key for recording in self._library.recordings}

    def _name_caller(self, caller: Caller) -> Caller:
        if not caller.scope and self.default_scope:
            caller = replace(caller, scope=self.default_scope)
        if self.scope_prefix or self.redacts_scopes:
            caller = replace(caller, scope=self.name_scope(caller.scope))
        return caller

    def name_scope(self, scope: str) -> str:
        """The name under which a scope was recorded: as it is if recordings have it, else with its secrets redacted
        and its paths without `scope_prefix`.
        """
        if self.redacts_scopes and not self._library.recordings_in_scope(scope):
            scope = self._redact_scope(scope)
        prefix = self.scope_prefix
        if not prefix or prefix[:-1] not in scope or self._library.recordings_in_scope(scope):
            return scope
        if scope.startswith(prefix):
            return scope.removeprefix(prefix)
        # A fixture or an import, which names a folder or a file.
        return scope.replace(f" {prefix[:-1]}::", " ").replace(f" {prefix}", " ")

    def _redact_scope(self, scope: str) -> str:
        redacted = self._redacted_scopes.get(scope)
        if redacted is None:
            redacted = self._redacted_scopes[scope] = self._keyer.redact_label(scope)
        return redacted

    def restart_scope(self, scope: str, worker: str = "") -> None:
        """Count identical requests of a scope from the first again: a test begins, perhaps again."""
        self._library.restart_scope(scope, worker)
        with self._lock:
            if worker in self.worker_uses:
                self.worker_uses[worker].restart_scope(scope)
        if self.adopter is not None:
            self.adopter.restart_scope(scope, worker)

    def count_unmatched(self, reason: str, *, needs_fresh: bool = False, scope: str = "") -> UnmatchedRequest:
        """Count a failure that does not come from a lookup: the request could not even be looked up.

        With `needs_fresh` it was answered, but the application went on waiting or reading where it had left when the
        call was recorded, so the call must be recorded again.
        """
        unmatched = UnmatchedRequest(
            "", len(self._library), reason=reason, can_record=needs_fresh, needs_fresh=needs_fresh,
            caller=self._name_caller(Caller("", scope)),
        )  # fmt: skip
        with self._lock:
            self.unmatched.append(unmatched)
        return unmatched

    def _is_renewed(self, lookup: LookupResult) -> bool:
        """Whether a request is recorded again because its recording was made without the match key."""
        return self.renews_uncompared and self._match_key is not None and not lookup.redactions_compared

    def _answer_unrecorded(
        self, sent: SentRequest, request: KeyedRequest, caller: Caller, lookup: LookupResult, *, allow_upstream: bool
    ) -> ReplayResult:
        """Try the fallback and the adopter, then let the request go upstream or count it as unmatched."""
        fallback = self._fallback
        # A fallback does not compare redacted parts: it would answer a request that differs from a recording in one.
        if fallback is not None and not lookup.differs_at:
            match = fallback.find_response(request)
            if match is not None:
                return self._answer_synthesised(request, caller, *match)
        if self.adopter is not None:
            adopted = self.adopter.adopt_response(sent, request, caller, self._library)
            if adopted is not None:
                return ReplayResult(self._refill_echoes(adopted, sent.headers, request))
        if allow_upstream:
            return self.pass_upstream()
        reason = fallback.explain_no_response(request) if fallback is not None else ""
        if reason:
            return self._answer_unmatched(request, caller, unmatched_for_reason(request, len(self._library), reason))
        unmatched = explain_unmatched(request, lookup, caller.scope, self._library)
        return self._answer_unmatched(request, caller, unmatched)

    def _count_use(
        self, request: KeyedRequest, caller: Caller, lookup: LookupResult, response: RecordedResponse
    ) -> None:
        assert lookup.recording is not None
        with self._lock:
            self._count_in_scope(caller, lookup.recording.name)
            if request.volatile_counts:
                self.volatile_counts.update(request.volatile_counts)
            if request.uncompared_paths:
                self.uncompared_field_counts.update({name_every_frame(path) for path in request.uncompared_paths})
            if response.redacted_count:
                self.redacted_response_count += 1
            if not lookup.redactions_compared:
                self.uncompared_call_count += 1
                # If only the recorded request has redacted parts, their number is not known here: it counts as one.
                self.uncompared_part_count += len(request.compared_redactions) or 1
            if lookup.recording.unknown:
                self.unknown_head_count += 1

    def _answer_synthesised(
        self, request: KeyedRequest, caller: Caller, name: str, response: RecordedResponse
    ) -> ReplayResult:
        with self._lock:
            self._count_in_scope(caller, name)
            self.synthesised_count += 1
            self.uncompared_field_counts.update(request.uncompared_paths)
            if request.compared_redactions:
                self.uncompared_call_count += 1
                self.uncompared_part_count += len(request.compared_redactions)
        return ReplayResult(response, name)

    def _count_in_scope(self, caller: Caller, name: str) -> None:
        self.use_counts[caller.scope, name] += 1
        self.worker_uses.setdefault(caller.worker, WorkerUses()).add(caller.scope, name)

    def pass_upstream(self) -> ReplayResult:
        """Have the caller send the request to its upstream, and count it."""
        with self._lock:
            self.upstream_count += 1
        return ReplayResult(NO_ANSWER)

    def _answer_unreadable(
        self, request: KeyedRequest, caller: Caller, name: str, error: TraceForgeError
    ) -> ReplayResult:
        return self._answer_unmatched(request, caller, explain_unreadable(request, name, error, len(self._library)))

    def _redact_source(self, caller: Caller, request: KeyedRequest) -> Caller:
        """The caller with its source redacted: a header of the request may have named it, and reports show it."""
        return replace(caller, source=self._keyer.redact_label(caller.source, request.redactions))

    def _answer_unmatched(self, request: KeyedRequest, caller: Caller, unmatched: UnmatchedRequest) -> ReplayResult:
        without_values = request._replace(redactions=(), compared_redactions=())
        unmatched = unmatched._replace(caller=self._redact_source(caller, request), request=without_values)
        with self._lock:
            self.unmatched.append(unmatched)
        return ReplayResult(unmatched.to_response(request.endpoint.dialect), unmatched=unmatched)
