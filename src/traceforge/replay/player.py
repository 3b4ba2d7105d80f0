"""The player: a live request in, a recorded answer out.

In: requests, from any edge and any thread. Out: for each the recorded answer, refilled from the request, or a miss
that is explained and counted. Never: opens a connection, or lets a miss go uncounted because the application
swallowed it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Headers
from traceforge.replay.answer import RecordedAnswer, refill
from traceforge.replay.fingerprints import prints_of_parts
from traceforge.replay.key import Asked, KeyMaker
from traceforge.replay.library import Library
from traceforge.tuples import NamedTuple

if TYPE_CHECKING:
    from traceforge.replay.miss import Miss


class Played(NamedTuple):
    """What an edge sends, and whether it was recorded."""

    answer: RecordedAnswer  # NOTHING_SAID where the request is new, and goes to its upstream
    name: str = ""  # of the recording; empty on a miss
    miss: Miss | None = None

    @property
    def is_new(self) -> bool:
        """Does nothing answer it, and is that no miss?"""
        return self.answer is NOTHING_SAID


_make = tuple.__new__  # a named tuple, without a call of its constructor
NOTHING_SAID = RecordedAnswer(0, (), (), streamed=False)


class Beside(Protocol):
    """What can answer where nothing was recorded, such as a snapshot that a person wrote."""

    def find(self, asked: Asked) -> tuple[str, RecordedAnswer] | None:
        """The name of what answers this, and its answer."""
        ...

    def why_not(self, asked: Asked) -> str:
        """Why it does not answer; "" where the library's explanation says it all."""
        ...


class Player:
    """Answers from a library, and then from what stands `beside` it.

    `match_key` lets it compare what was redacted; without it that is only counted.
    """

    def __init__(
        self, keys: KeyMaker, library: Library, *, match_key: bytes | None = None, beside: Beside | None = None
    ) -> None:
        self._keys = keys
        self._library = library
        self._match_key = match_key
        self._beside = beside
        self._lock = threading.Lock()
        self.misses: list[Miss] = []
        self.scope = ""  # of calls that belong to no test
        self.fresh: frozenset[str] = frozenset()  # scopes in which nothing is answered: they ask everything anew
        self.new = 0  # requests that nothing answers, where that is no miss
        self.used: Counter[tuple[str, str]] = Counter()  # recordings, by scope and name
        self.volatile: Counter[str] = Counter()  # declarations of volatile parts that were used
        self.synthesised = 0  # answers that were made from what a person wrote
        self.redacted = 0  # answers in which something replays as `[REDACTED]`
        self.uncompared_calls = 0  # calls in which something was redacted that could not be compared
        self.uncompared_parts = 0

    @property
    def played(self) -> int:
        """How many calls were answered."""
        return self.used.total()

    def play(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        caller: Caller,
        *,
        may_be_new: bool = False,
        raw: Iterable[tuple[bytes, bytes]] | None = None,
    ) -> Played:
        """Answer one request. Where it `may_be_new`, one that nothing answers is counted as such, and is no miss.

        `headers` may be those alone that a key reads, where `raw` are all of them as HTTP's bytes.
        """
        if not caller.scope and self.scope:
            caller = replace(caller, scope=self.scope)
        if may_be_new and caller.scope in self.fresh:
            with self._lock:
                self.new += 1
            return Played(NOTHING_SAID)
        read = self._keys.of_request if raw is None else self._keys.of_read
        library = self._library
        asked = read(method, url, headers, body, library.plain)
        if asked.parts:
            found = library.find(asked.key, caller.scope, prints_of_parts(asked.parts, self._match_key))
        else:
            found = library.alone.get(asked.key) or library.find(asked.key, caller.scope)
        if found.recording is None:
            made = self._beside.find(asked) if self._beside is not None and not found.differs else None
            if made is not None:
                with self._lock:
                    self.used[caller.scope, made[0]] += 1
                    self.synthesised += 1
                return Played(made[1], made[0])
            if may_be_new:
                with self._lock:
                    self.new += 1
                return Played(NOTHING_SAID)
            from traceforge.replay.miss import Miss, explain

            why = self._beside.why_not(asked) if self._beside is not None else ""
            if why:
                endpoint = f"{asked.endpoint.dialect or 'an unknown dialect'} {asked.endpoint.kind}"
                return self._miss(asked, caller, Miss(endpoint, len(self._library), why=why))
            here = self._library.of_scope(caller.scope)
            return self._miss(asked, caller, explain(asked, found, here, self._library.all))
        try:
            answer = found.recording.source.answer()
        except TraceForgeError as exc:
            from traceforge.replay.miss import unreadable

            return self._miss(asked, caller, unreadable(asked, found.recording.name, exc, len(self._library)))
        place = caller.scope, found.recording.name
        with self._lock:
            self.used[place] = self.used.get(place, 0) + 1
            if answer.redacted:
                self.redacted += 1
            if asked.used:
                self.volatile += asked.used
            if not found.compared:
                self.uncompared_calls += 1
                self.uncompared_parts += len(asked.parts) or 1
        if answer.references:
            if raw is not None:
                headers = tuple((str(name, "latin-1"), str(value, "latin-1")) for name, value in raw)
            answer = refill(answer, [*self._keys.log_of_headers(headers), *asked.log])
        return _make(Played, (answer, found.recording.name, None))

    def forget(self, scope: str) -> None:
        """A scope begins again: its first request gets the first recording."""
        self._library.forget(scope)

    def failed(self, why: str) -> Miss:
        """A request that could not even be looked up: counted as a miss."""
        from traceforge.replay.miss import Miss

        miss = Miss("", len(self._library), why=why)
        with self._lock:
            self.misses.append(miss)
        return miss

    def _miss(self, asked: Asked, caller: Caller, miss: Miss) -> Played:
        miss = miss._replace(caller=caller, asked=asked._replace(log=(), parts=()))
        with self._lock:
            self.misses.append(miss)
        return Played(miss.answer(asked.endpoint.dialect), miss=miss)
