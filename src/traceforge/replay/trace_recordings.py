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
from traceforge.replay.fingerprints import read_fingerprints
from traceforge.replay.library import Recording
from traceforge.replay.recorded_response import RecordedResponse, response_from_trace
from traceforge.replay.request_key import KeyedRequest, KeyFields, RequestKeyer
from traceforge.traces.index_update import read_any_version
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore

RESPONSES_CACHED = 256
KEY_FIELDS_CACHED = 256  # More than a miss compares, so that the next one reads nothing again.


class TraceRecordings:
    """The traces of a store as recordings. The store is read under a lock: it is made for one thread."""

    def __init__(self, store: TraceStore, keyer: RequestKeyer) -> None:
        self._store = store
        self._keyer = keyer
        self._lock = threading.Lock()
        self.unreadable: dict[str, str] = {}  # traces that cannot be read, and why
        self.load_response = lru_cache(RESPONSES_CACHED)(self._read_response)
        self.load_key_fields = lru_cache(KEY_FIELDS_CACHED)(self._read_key_fields)

    def load_recordings(self, trace_filter: TraceFilter = TraceFilter()) -> Iterator[Recording]:  # noqa: B008 (frozen)
        """Every call that can be played again."""
        for row in self._store.list_rows(trace_filter, oldest_first=True):
            try:
                body, _ = self._read(row)
            except (InvalidFile, NotFound, NotJSON, CannotRead) as exc:
                self.unreadable[row.summary.id] = exc.message
                continue
            wire = body.get("wire")
            if not isinstance(wire, dict) or not wire.get("status"):
                continue
            request = self._key_trace(body)
            scope = body.get("scope")
            yield Recording(
                row.summary.id,
                request.key,
                scope if isinstance(scope, str) else "",
                request.endpoint,
                _TraceSource(self, row),
                read_fingerprints(body.get("redacted"), body.get("provider_request"), self._keyer.is_volatile),
            )

    def _key_trace(self, body: JSONObject) -> KeyedRequest:
        wire = cast("JSONObject", body["wire"])
        return self._keyer.key_stored_request(
            str(wire.get("method", "POST")),
            str(wire.get("url", "")),
            _request_headers(wire),
            body.get("provider_request"),
        )

    def _read(self, row: TraceRow) -> tuple[JSONObject, bytes]:
        with self._lock:
            stored = self._store.read_stored(row)
        return read_any_version(stored.trace)[0].body, stored.chunks

    def _read_response(self, source: _TraceSource) -> RecordedResponse:
        response = response_from_trace(*self._read(source.row))
        if response is None:
            raise NotFound(f"the trace {source.row.summary.id} holds no answer any more")
        return response

    def _read_key_fields(self, source: _TraceSource) -> KeyFields:
        return self._key_trace(self._read(source.row)[0]).key_fields


class _TraceSource:
    """One trace, read when it is needed."""

    __slots__ = ("_recordings", "row")

    def __init__(self, recordings: TraceRecordings, row: TraceRow) -> None:
        self._recordings = recordings
        self.row = row

    def load_response(self) -> RecordedResponse:
        return self._recordings.load_response(self)

    def load_key_fields(self) -> KeyFields:
        return self._recordings.load_key_fields(self)


def _request_headers(wire: JSONObject) -> Headers:
    lines = cast("list[str]", wire.get("request_headers", []))
    return tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
