"""The library: every recorded call, found by its key.

In: recordings. Out: the one that answers a request, in its scope and its turn. Never: compares a request with any
that does not have its key: a lookup costs the same among ten and among a hundred thousand.

Within a scope (a test, or a run), the n-th identical request gets the n-th recording; past the last one, the last
answers again if it `repeats`. A scope that nothing was recorded in falls back to all recordings of the key. One call
may stand for several, in one scope or in many: it is given once for each, under one name.
Requests are identical if their keys are, and, where both sides have fingerprints, what was redacted in them, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from traceforge.canon import Digest
from traceforge.replay.fingerprints import NOTHING_REDACTED, Fingerprints, find_differing_path
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyFields
from traceforge.wire.endpoints import Endpoint


class RecordingSource(Protocol):
    """Where a recording is kept. It is read when it is needed."""

    def load_response(self) -> RecordedResponse:
        """What came back.

        Raises:
            InvalidFile, NotFound, NotJSON, CannotRead: it was removed or damaged since.
        """

    def load_key_fields(self) -> KeyFields:
        """What was asked, for explanations; raises the same."""


class Recording(NamedTuple):
    """One recorded call."""

    name: str
    key: Digest
    scope: str
    endpoint: Endpoint
    source: RecordingSource
    fingerprints: Fingerprints = NOTHING_REDACTED
    repeats: bool = True  # Does it answer again, once all of its scope have answered?


class LookupResult(NamedTuple):
    """What the library has for a request."""

    recording: Recording | None
    redactions_compared: bool = True  # False: something was redacted, and could not be compared
    differs_at: str = (
        ""  # Without a recording: the place at which only a redacted part differs from one that there is
    )
    nearest: str = ""  # and the name of that one


_IndexKey = tuple[str | None, Digest, Fingerprints | str]  # None is every scope, ANY all that was redacted
ANY_REDACTION = "any"


class Library:
    """Recordings by key. Safe to use from several threads."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._index: dict[_IndexKey, list[Recording]] = {}
        self._turns: dict[tuple[str, _IndexKey], int] = {}
        self._lock = threading.Lock()
        self.recordings: list[Recording] = []
        self._by_scope: dict[str, list[Recording]] = {}
        self.unredacted_keys: set[Digest] = set()  # Keys of requests in which nothing was redacted.
        redacted: set[Digest] = set()
        names: set[str] = set()
        for recording in recordings:
            is_known = recording.name in names
            (self.unredacted_keys if recording.fingerprints == NOTHING_REDACTED else redacted).add(recording.key)
            self._by_scope.setdefault(recording.scope, []).append(recording)
            if not is_known:
                names.add(recording.name)
                self.recordings.append(recording)
            for fingerprints in (
                (recording.fingerprints,)
                if recording.fingerprints == NOTHING_REDACTED
                else (recording.fingerprints, ANY_REDACTION)
            ):
                for scope in (recording.scope,) if is_known else (recording.scope, None):
                    self._index.setdefault((scope, recording.key, fingerprints), []).append(recording)
        self.unredacted_keys -= redacted
        # Most requests were made once, and nothing in them was redacted: it is always its turn.
        self.single_results = {
            recording.key: LookupResult(recording)
            for recording in self.recordings
            if recording.repeats
            and recording.key in self.unredacted_keys
            and len(self._index[None, recording.key, NOTHING_REDACTED]) == 1
        }

    def __len__(self) -> int:
        return len(self.recordings)

    def find(self, key: Digest, scope: str, fingerprints: Fingerprints = NOTHING_REDACTED) -> LookupResult:
        """The recording whose turn it is; none where there is none, or none is left."""
        if fingerprints == NOTHING_REDACTED and key in self.single_results:
            return self.single_results[key]
        if fingerprints is not None and (recording := self._take_next(key, scope, fingerprints)) is not None:
            return LookupResult(recording)
        if not self._has(key, ANY_REDACTION) and not self._has(key, NOTHING_REDACTED):
            return LookupResult(None)
        if fingerprints is None:  # Nobody can say: of those in which something was redacted, or else of all.
            return LookupResult(
                self._take_next(key, scope, ANY_REDACTION if self._has(key, ANY_REDACTION) else NOTHING_REDACTED),
                redactions_compared=False,
            )
        if self._has(key, None):
            return LookupResult(self._take_next(key, scope, None), redactions_compared=False)
        return self._explain_difference(key, scope, fingerprints)

    def recordings_in_scope(self, scope: str) -> list[Recording]:
        """What was recorded in a scope."""
        return self._by_scope.get(scope, [])

    def restart_scope(self, scope: str) -> None:
        """A scope begins again: its first request gets the first recording."""
        with self._lock:
            for turn in [turn for turn in self._turns if turn[0] == scope]:
                del self._turns[turn]

    def _has(self, key: Digest, fingerprints: Fingerprints | str) -> bool:
        return (None, key, fingerprints) in self._index

    def _take_next(self, key: Digest, scope: str, fingerprints: Fingerprints | str) -> Recording | None:
        scoped_key: _IndexKey = (scope, key, fingerprints)
        index_key = scoped_key if scoped_key in self._index else (None, key, fingerprints)
        recordings = self._index.get(index_key)
        if not recordings:
            return None
        with self._lock:
            turn = self._turns.get((scope, index_key), 0)
            self._turns[scope, index_key] = turn + 1
        if turn < len(recordings):
            return recordings[turn]
        return recordings[-1] if recordings[-1].repeats else None

    def _explain_difference(self, key: Digest, scope: str, fingerprints: Fingerprints) -> LookupResult:
        places = ((where, key, what) for what in (ANY_REDACTION, NOTHING_REDACTED) for where in (scope, None))
        alike = next(found for place in places if (found := self._index.get(place)))
        nearest = alike[-1]
        return LookupResult(
            None, differs_at=find_differing_path(nearest.fingerprints, fingerprints), nearest=nearest.name
        )
