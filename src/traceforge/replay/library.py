"""The library: every recorded call, found by its key in constant time.

Within a scope (a test or a run), the n-th identical request gets the n-th recording. After the last one, the last
recording answers again if it `repeats`; each worker of a suite counts for itself. A scope without recordings of the
key uses those of all scopes, one as often as the scope that uses it most. A recording that answers several calls, in
one scope or in many, is given once for each under the same name.

Two requests are identical if their keys are equal and, where both have fingerprints, their redacted parts are equal.
A recording of a test for which parts are declared as volatile has two keys: with these declarations, for all tests to
which they apply, and without them, for every other test.

A recording that does not know where its request went, or which headers it had, comes after those that do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from msgspec import Struct

from traceforge.canon import Digest
from traceforge.replay.fingerprints import NOTHING_REDACTED, Fingerprints, find_differing_path, keep_known_headers
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import ALL_KNOWN, KeyedRequest, KeyFields, UnknownParts
from traceforge.wire.endpoints import Endpoint


class RecordingSource(Protocol):
    """Where a recording is stored. It is read when it is needed."""

    def load_response(self) -> RecordedResponse:
        """The recorded response.

        Raises:
            InvalidFile, NotFound, NotJSON, CannotRead: the recording was removed or damaged since.
        """

    def load_key_fields(self) -> KeyFields:
        """The recorded request, for explanations; raises the same."""


class RecordedKey(Struct, frozen=True):
    """A key, and the fingerprints of the redacted parts that are compared with it."""

    key: Digest
    fingerprints: Fingerprints


class Recording(NamedTuple):
    """A recorded call that the library can match and replay."""

    name: str
    key: Digest
    scope: str
    endpoint: Endpoint
    source: RecordingSource
    fingerprints: Fingerprints = NOTHING_REDACTED
    repeats: bool = True  # whether it answers again after all recordings of its scope have answered
    unknown: UnknownParts = ALL_KNOWN  # what its request does not say about itself
    cycles: bool = False  # whether they then answer again from the first: each worker of a suite runs its scope
    shared: RecordedKey | None = None  # without the declarations for its test, if that is another one


class LookupResult(Struct, frozen=True):
    """The recording of a request; without one, whether only a redacted part differs from a recording."""

    recording: Recording | None
    redactions_compared: bool = True  # False: something was redacted and could not be compared
    differs_at: str = ""  # the path of the redacted part that differs
    nearest: str = ""  # the name of the recording that it differs from


ANY_REDACTION = "any"  # in an index key, in place of any redacted part
ScopeRun = tuple[str, str]  # a scope, and the worker of a suite that runs it
_IndexKey = tuple[str | None, Digest, Fingerprints | str]  # scope (None: every scope), key, redacted parts


class Library:
    """Recordings by key. Safe to use from several threads."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._index: dict[_IndexKey, list[Recording]] = {}
        self._turns: dict[_IndexKey, dict[ScopeRun, int]] = {}  # how many recordings each scope has used
        self._lock = threading.Lock()  # for the turns
        self._by_scope: dict[str, list[Recording]] = {}
        by_name: dict[str, Recording] = {}
        in_scope: Counter[tuple[str, str, RecordedKey]] = Counter()  # recordings of a name
        for_every_scope: Counter[tuple[str, RecordedKey]] = Counter()  # of these, as many as one scope has
        for recording in recordings:
            self._by_scope.setdefault(recording.scope, []).append(recording)
            own_key = RecordedKey(recording.key, recording.fingerprints)
            self._index_recording(recording, recording.scope, own_key)
            by_name.setdefault(recording.name, recording)
            for key in {own_key, recording.shared or own_key}:
                in_scope[recording.scope, recording.name, key] += 1
                if in_scope[recording.scope, recording.name, key] > for_every_scope[recording.name, key]:
                    for_every_scope[recording.name, key] += 1
                    self._index_recording(recording, None, key)
        self.recordings = list(by_name.values())
        redacted_keys = {key for _, key, redaction in self._index if redaction == ANY_REDACTION}
        self.unredacted_keys = {recording.key for recording in self.recordings} - redacted_keys

    def _index_recording(self, recording: Recording, scope: str | None, key: RecordedKey) -> None:
        redactions: list[Fingerprints | str] = [key.fingerprints]
        if key.fingerprints != NOTHING_REDACTED:
            redactions.append(ANY_REDACTION)
        for redaction in redactions:
            self._index.setdefault((scope, key.key, redaction), []).append(recording)

    def __len__(self) -> int:
        return len(self.recordings)

    def find(
        self, key: Digest, scope: str, fingerprints: Fingerprints = NOTHING_REDACTED, worker: str = ""
    ) -> LookupResult:
        """The next recording for a request of this key in this scope, as a worker runs it."""
        run = (scope, worker)
        if fingerprints is not None and (recording := self._take_next(key, run, fingerprints)) is not None:
            return LookupResult(recording)
        if not self._has(key, ANY_REDACTION) and not self._has(key, NOTHING_REDACTED):
            return LookupResult(None)
        if fingerprints is None:  # The request cannot be compared: prefer recordings in which something was redacted.
            redaction = ANY_REDACTION if self._has(key, ANY_REDACTION) else NOTHING_REDACTED
            return LookupResult(self._take_next(key, run, redaction), redactions_compared=False)
        if self._has(key, None):  # a recording that cannot be compared
            return LookupResult(self._take_next(key, run, None), redactions_compared=False)
        return self._explain_difference(key, scope, fingerprints)

    def find_request(
        self, request: KeyedRequest, scope: str, fingerprints: Fingerprints, worker: str = ""
    ) -> LookupResult:
        """The next recording for a request: one with the same key, else one of which something is unknown."""
        result = self.find(request.key, scope, fingerprints, worker)
        for unknown, key in request.partial_keys:
            if result.recording is not None:
                break
            known_fingerprints = fingerprints
            if unknown.known_headers is not None:
                known_fingerprints = keep_known_headers(fingerprints, unknown.known_headers)
            partial_result = self.find(key, scope, known_fingerprints, worker)
            if partial_result.recording is not None or not result.differs_at:
                result = partial_result
        return result

    def has_own(self, request: KeyedRequest, scope: str, fingerprints: Fingerprints) -> bool:
        """Whether a scope has recordings of its own for a request, used up or not."""
        return (scope, request.key, fingerprints) in self._index

    def recordings_in_scope(self, scope: str) -> list[Recording]:
        return self._by_scope.get(scope, [])

    def has_answered(self, recording: Recording) -> bool:
        """Whether a call of the recording's own scope got it, or one like it, since the scope began."""
        index_key: _IndexKey = (recording.scope, recording.key, recording.fingerprints)
        with self._lock:
            used = max(self._turns.get(index_key, {}).values(), default=0)
        return used > self._index[index_key].index(recording)

    def restart_scope(self, scope: str, worker: str = "") -> None:
        """Count identical requests of a scope from the first again."""
        with self._lock:
            for turns in self._turns.values():
                turns.pop((scope, worker), None)

    def _has(self, key: Digest, fingerprints: Fingerprints | str) -> bool:
        return (None, key, fingerprints) in self._index

    def _take_next(self, key: Digest, run: ScopeRun, fingerprints: Fingerprints | str) -> Recording | None:
        scoped_key: _IndexKey = (run[0], key, fingerprints)
        index_key = scoped_key if scoped_key in self._index else (None, key, fingerprints)
        recordings = self._index.get(index_key)
        if not recordings:
            return None
        with self._lock:
            turns = self._turns.setdefault(index_key, {})
            turn = turns.get(run, 0)
            turns[run] = turn + 1
        if turn < len(recordings):
            return recordings[turn]
        if recordings[-1].repeats:
            return recordings[-1]
        return recordings[turn % len(recordings)] if recordings[-1].cycles else None

    def _explain_difference(self, key: Digest, scope: str, fingerprints: Fingerprints) -> LookupResult:
        index_keys: list[_IndexKey] = [
            (scope_or_all, key, redaction)
            for redaction in (ANY_REDACTION, NOTHING_REDACTED)
            for scope_or_all in (scope, None)
        ]
        nearest = next(self._index[index_key] for index_key in index_keys if index_key in self._index)[-1]
        differs_at = find_differing_path(nearest.fingerprints, fingerprints)
        return LookupResult(None, differs_at=differs_at, nearest=nearest.name)
