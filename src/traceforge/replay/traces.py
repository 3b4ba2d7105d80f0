"""Recordings from traces.

In: the traces of a project. Out: recordings, oldest first, and which traces cannot be read. Never: a call that got no
answer, or more of a trace in memory than its key until it is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from traceforge.canon import JSONObject
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.exchange import Headers
from traceforge.replay.answer import RecordedAnswer, answer_of_trace
from traceforge.replay.fingerprints import prints_of_request
from traceforge.replay.key import Asked, KeyMaker, Question
from traceforge.replay.library import Recording
from traceforge.traces.catalogue import read_any
from traceforge.traces.index import Filter, Row
from traceforge.traces.store import TraceStore

ANSWERS_REMEMBERED = 256
QUESTIONS_REMEMBERED = 256  # More than a miss compares, so that the next one reads nothing again.


class TraceRecordings:
    """The traces of a store as recordings. The store is read under a lock: it is made for one thread."""

    def __init__(self, store: TraceStore, keys: KeyMaker) -> None:
        self._store = store
        self._keys = keys
        self._lock = threading.Lock()
        self.unread: dict[str, str] = {}  # traces that cannot be read, and why
        self.answer = lru_cache(ANSWERS_REMEMBERED)(self._read_answer)
        self.question = lru_cache(QUESTIONS_REMEMBERED)(self._read_question)

    def recordings(self, narrowed: Filter = Filter()) -> Iterator[Recording]:  # noqa: B008 (frozen)
        """Every call that can be played again."""
        for row in self._store.rows(narrowed, oldest_first=True):
            try:
                body, _ = self._read(row)
            except (InvalidFile, NotFound, NotJSON, CannotRead) as exc:
                self.unread[row.summary.id] = exc.message
                continue
            wire = body.get("wire")
            if not isinstance(wire, dict) or not wire.get("status"):
                continue
            asked = self._asked(body)
            scope = body.get("scope")
            yield Recording(
                row.summary.id,
                asked.key,
                scope if isinstance(scope, str) else "",
                asked.endpoint,
                _TraceSource(self, row),
                prints_of_request(body.get("redacted"), body.get("provider_request"), self._keys.ignores),
            )

    def _asked(self, body: JSONObject) -> Asked:
        wire = cast("JSONObject", body["wire"])
        return self._keys.of_kept(
            str(wire.get("method", "POST")), str(wire.get("url", "")), _headers(wire), body.get("provider_request")
        )

    def _read(self, row: Row) -> tuple[JSONObject, bytes]:
        with self._lock:
            kept = self._store.read(row)
        return read_any(kept.trace)[0].body, kept.chunks

    def _read_answer(self, source: _TraceSource) -> RecordedAnswer:
        answer = answer_of_trace(*self._read(source.row))
        if answer is None:
            raise NotFound(f"the trace {source.row.summary.id} holds no answer any more")
        return answer

    def _read_question(self, source: _TraceSource) -> Question:
        return self._asked(self._read(source.row)[0]).question


class _TraceSource:
    """One trace, read when it is needed."""

    __slots__ = ("_recordings", "row")

    def __init__(self, recordings: TraceRecordings, row: Row) -> None:
        self._recordings = recordings
        self.row = row

    def answer(self) -> RecordedAnswer:
        return self._recordings.answer(self)

    def question(self) -> Question:
        return self._recordings.question(self)


def _headers(wire: JSONObject) -> Headers:
    lines = cast("list[str]", wire.get("request_headers", []))
    return tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
