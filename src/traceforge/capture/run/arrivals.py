"""What processes that were entered say, made exchanges.

In: frames of any number of connections, each in its own order. Out: exchanges in the sink, with their places in their
sessions, and counts for the summary. Never: trusts a frame: what cannot be understood is counted and left out.
"""

from __future__ import annotations

import hmac
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from traceforge.capture.engine import Engine
from traceforge.capture.source import with_source
from traceforge.clock import timestamp_text
from traceforge.exchange import Caller, Chunk, Exchange, Headers, Outcome


class Begun(NamedTuple):
    """A call of which the end has not been told yet."""

    started_at: str
    method: str
    url: str
    headers: Headers
    caller: Caller


class Arrivals:
    """Everything that was said so far. Safe to use from several threads."""

    def __init__(self, engine: Engine, token: str) -> None:
        self._engine = engine
        self._token = token
        self._lock = threading.Lock()
        self.processes: set[int] = set()  # that were entered
        self.hosts: Counter[str] = Counter()  # of calls that began
        self.notes: Counter[str] = Counter()  # what could not be seen into
        self.faults: Counter[str] = Counter()  # what failed in a process that was entered
        self.ended = 0
        self.unfinished = 0  # calls whose process went away without a word
        self.lost = 0  # calls that a process could not hand over
        self.malformed = 0  # frames that were none
        self.too_large = 0


class Conversation:
    """What one process says."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._all = arrivals
        self._begun: dict[str, Begun] = {}
        self._known = False

    def hear(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        """One frame. False: it is not one of ours, and nothing more is to be heard."""
        everything = self._all
        with everything._lock:
            try:
                return self._hear(head, pieces)
            except (KeyError, TypeError, ValueError, OverflowError):
                everything.malformed += 1
                return self._known

    def close(self) -> None:
        """The connection is over."""
        with self._all._lock:
            self._all.unfinished += len(self._begun)
            self._begun.clear()

    def _hear(self, head: dict[str, Any], pieces: list[bytes]) -> bool:
        kind = head["kind"]
        if not self._known:
            self._known = kind == "hello" and hmac.compare_digest(str(head["token"]), self._all._token)
            if self._known:
                self._all.processes.add(int(head["pid"]))
            return self._known
        if kind == "begin":
            self._begin(head)
        elif kind == "end":
            self._end(head, pieces)
        elif kind == "note":
            self._all.notes[str(head["what"])] += 1
        elif kind == "bye":
            self._all.lost += int(head["lost"])
            if head["faults"]:
                self._all.faults[str(head["fault"])] += int(head["faults"])
        else:
            raise ValueError(kind)
        return True

    def _begin(self, head: dict[str, Any]) -> None:
        headers, source = with_source(_headers(head["headers"]), head["source"], lambda: str(head["fallback"]))
        scope = str(head["scope"])
        placed = self._all._engine.place(headers, Caller(source, scope, scope))
        url = str(head["url"])
        self._all.hosts[urlsplit(url).netloc.rpartition("@")[2]] += 1
        started_at = timestamp_text(datetime.fromtimestamp(float(head["at"]), UTC))
        self._begun[head["id"]] = Begun(started_at, str(head["method"]), url, placed.upstream, placed.caller)

    def _end(self, head: dict[str, Any], pieces: list[bytes]) -> None:
        begun = self._begun.pop(head["id"])
        body, *chunks = pieces
        times = [float(time) for time in head["times"]]
        exchange = Exchange(
            str(head["id"]),
            begun.started_at,
            begun.method,
            begun.url,
            begun.headers,
            body,
            int(head["status"]),
            _headers(head["headers"]),
            tuple(Chunk(t_ms, data) for t_ms, data in zip(times, chunks, strict=True)),
            float(head["ms"]),
            Outcome(head["outcome"]),
            str(head["error"]),
            begun.caller,
        )
        self._all.ended += 1
        self._all.too_large += bool(head["too_large"])
        self._all._engine.close_call(exchange)


def _headers(pairs: list[list[str]]) -> Headers:
    return tuple((str(name), str(value)) for name, value in pairs)
