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
from typing import Protocol

from traceforge.canon import Digest
from traceforge.replay.answer import RecordedAnswer
from traceforge.replay.fingerprints import NOTHING, Prints, find_difference
from traceforge.replay.key import Question
from traceforge.tuples import NamedTuple
from traceforge.wire.registry import Endpoint


class Source(Protocol):
    """Where a recording is kept. It is read when it is needed."""

    def answer(self) -> RecordedAnswer:
        """What came back.

        Raises:
            InvalidFile, NotFound, NotJSON, CannotRead: it was removed or damaged since.
        """

    def question(self) -> Question:
        """What was asked, for explanations; raises the same."""


class Recording(NamedTuple):
    """One recorded call."""

    name: str
    key: Digest
    scope: str
    endpoint: Endpoint
    source: Source
    prints: Prints = NOTHING
    repeats: bool = True  # Does it answer again, once all of its scope have answered?


class Found(NamedTuple):
    """What the library has for a request."""

    recording: Recording | None
    compared: bool = True  # False: something was redacted, and could not be compared
    differs: str = ""  # Without a recording: the place at which only a redacted part differs from one that there is
    nearest: str = ""  # and the name of that one


_Place = tuple[str | None, Digest, Prints | str]  # None is every scope, ANY all that was redacted
ANY = "any"


class Library:
    """Recordings by key. Safe to use from several threads."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._index: dict[_Place, list[Recording]] = {}
        self._turns: dict[tuple[str, _Place], int] = {}
        self._lock = threading.Lock()
        self.all: list[Recording] = []
        self._by_scope: dict[str, list[Recording]] = {}
        self.plain: set[Digest] = set()  # Keys of requests in which nothing was redacted.
        redacted: set[Digest] = set()
        names: set[str] = set()
        for recording in recordings:
            known = recording.name in names
            (self.plain if recording.prints == NOTHING else redacted).add(recording.key)
            self._by_scope.setdefault(recording.scope, []).append(recording)
            if not known:
                names.add(recording.name)
                self.all.append(recording)
            for prints in (recording.prints,) if recording.prints == NOTHING else (recording.prints, ANY):
                for scope in (recording.scope,) if known else (recording.scope, None):
                    self._index.setdefault((scope, recording.key, prints), []).append(recording)
        self.plain -= redacted
        self.alone = {  # Most requests were made once, and nothing in them was redacted: it is always its turn.
            one.key: Found(one)
            for one in self.all
            if one.repeats and one.key in self.plain and len(self._index[None, one.key, NOTHING]) == 1
        }

    def __len__(self) -> int:
        return len(self.all)

    def find(self, key: Digest, scope: str, prints: Prints = NOTHING) -> Found:
        """The recording whose turn it is; none where there is none, or none is left."""
        if prints == NOTHING and key in self.alone:
            return self.alone[key]
        if prints is not None and (recording := self._take(key, scope, prints)) is not None:
            return Found(recording)
        if not self._has(key, ANY) and not self._has(key, NOTHING):
            return Found(None)
        if prints is None:  # Nobody can say: of those in which something was redacted, or else of all.
            return Found(self._take(key, scope, ANY if self._has(key, ANY) else NOTHING), compared=False)
        if self._has(key, None):
            return Found(self._take(key, scope, None), compared=False)
        return self._differing(key, scope, prints)

    def of_scope(self, scope: str) -> list[Recording]:
        """What was recorded in a scope."""
        return self._by_scope.get(scope, [])

    def forget(self, scope: str) -> None:
        """A scope begins again: its first request gets the first recording."""
        with self._lock:
            for place in [place for place in self._turns if place[0] == scope]:
                del self._turns[place]

    def _has(self, key: Digest, prints: Prints | str) -> bool:
        return (None, key, prints) in self._index

    def _take(self, key: Digest, scope: str, prints: Prints | str) -> Recording | None:
        here: _Place = (scope, key, prints)
        place = here if here in self._index else (None, key, prints)
        found = self._index.get(place)
        if not found:
            return None
        with self._lock:
            turn = self._turns.get((scope, place), 0)
            self._turns[scope, place] = turn + 1
        if turn < len(found):
            return found[turn]
        return found[-1] if found[-1].repeats else None

    def _differing(self, key: Digest, scope: str, prints: Prints) -> Found:
        places = ((where, key, what) for what in (ANY, NOTHING) for where in (scope, None))
        alike = next(found for place in places if (found := self._index.get(place)))
        nearest = alike[-1]
        return Found(None, differs=find_difference(nearest.prints, prints), nearest=nearest.name)
