"""Replay traces: the traces of a project as recordings, and a player that answers from them.

Only the keys of traces are kept in memory; a trace is read again when its response is needed.
"""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.config import LoadedConfig
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.exchange import CallOutcome, Chunk, Headers
from traceforge.match_key import find_match_key
from traceforge.redact.redactions import REDACTED
from traceforge.replay.fingerprints import drop_credentials, list_head_redactions
from traceforge.replay.library import Library, RecordedKey, Recording
from traceforge.replay.player import Player
from traceforge.replay.recorded_response import RecordedResponse, read_echoes
from traceforge.replay.request_key import KeyedRequest, KeyFields, RequestKeyer, UnknownParts, make_request_keyer
from traceforge.traces.body_reader import write_body
from traceforge.traces.chunk_file import read_chunks
from traceforge.traces.index_update import read_any_version
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.wire.content_encoding import EncodingState
from traceforge.wire.response_reader import ResponseEnding

RESPONSES_CACHED = 256
KEY_FIELDS_CACHED = 256  # More than one unmatched request is compared with, so the next one reads nothing again.

# They describe the connection or the encoding of the original response; lengths are computed again.
DROPPED_HEADERS = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_SENDABLE_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*"  # RFC 9110: a name, and no control


class TracePlayer(NamedTuple):
    """A player that answers from traces, and how many it has."""

    player: Player
    recording_count: int
    unreadable_count: int  # traces that cannot be read


def open_trace_player(loaded: LoadedConfig, session_id: str = "") -> TracePlayer:
    """A player of all traces of a project, or of one session.

    Raises:
        InvalidConfig: a declaration of volatile parts, or a pattern to redact, is invalid.
    """
    keyer = make_request_keyer(loaded)
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    try:
        store.update_index()
        trace_recordings = TraceRecordings(store, keyer)
        library = Library(trace_recordings.load_recordings(TraceFilter(session_id=session_id)))
        unreadable_count = len({*trace_recordings.unreadable, *store.unreadable_files()})
    finally:
        store.close()
    player = Player(keyer, library, match_key=find_match_key(loaded.project))
    return TracePlayer(player, len(library), unreadable_count)


class TraceRecordings:
    """The traces of a store as recordings. Reads the store under a lock, because a store is for one thread."""

    def __init__(self, store: TraceStore, keyer: RequestKeyer) -> None:
        self._store = store
        self._keyer = keyer
        self._lock = threading.Lock()
        self.unreadable: dict[str, str] = {}  # traces that cannot be read, and why
        self.load_response = lru_cache(RESPONSES_CACHED)(self._read_response)
        self.load_key_fields = lru_cache(KEY_FIELDS_CACHED)(self._read_key_fields)

    def load_recordings(self, trace_filter: TraceFilter = TraceFilter()) -> Iterator[Recording]:  # noqa: B008 (frozen)
        """Every call that got a response, oldest first."""
        for row in self._store.list_rows(trace_filter, oldest_first=True):
            try:
                body, _ = self._read(row)
            except (InvalidFile, NotFound, NotJSON, CannotRead) as exc:
                self.unreadable[row.summary.id] = exc.message
                continue
            wire = body.get("wire")
            if not isinstance(wire, dict) or not wire.get("status"):
                continue
            scope = _read_scope(body)
            request, unknown = self._key_trace(body, scope)
            shared = None
            if request.tests:
                shared_request, _ = self._key_trace(body, "")
                shared_fingerprints = self._keyer.read_fingerprints(shared_request, body.get("redacted"))
                shared = RecordedKey(shared_request.key, shared_fingerprints)
            yield Recording(
                row.summary.id,
                request.key,
                scope,
                request.endpoint,
                _TraceSource(self, row),
                self._keyer.read_fingerprints(request, body.get("redacted")),
                unknown=unknown,
                shared=shared,
            )

    def _key_trace(self, body: JSONObject, scope: str) -> tuple[KeyedRequest, UnknownParts]:
        wire = cast("JSONObject", body["wire"])
        url, unknown = str(wire.get("url", "")), find_unknown_parts(wire)
        headers = request_headers(body)
        method, value = str(wire.get("method", "POST")), body.get("provider_request")
        return self._keyer.key_stored_request(method, url, headers, value, unknown=unknown, scope=scope), unknown

    def _read(self, row: TraceRow) -> tuple[JSONObject, bytes]:
        with self._lock:
            stored = self._store.read_stored(row)
        return read_any_version(stored.trace)[0].body, stored.chunks

    def _read_response(self, source: _TraceSource) -> RecordedResponse:
        response = response_from_trace(*self._read(source.row))
        if response is None:
            raise NotFound(f"the trace {source.row.summary.id} has no response any more")
        return response

    def _read_key_fields(self, source: _TraceSource) -> KeyFields:
        body = self._read(source.row)[0]
        return self._key_trace(body, _read_scope(body))[0].key_fields


def _read_scope(body: JSONObject) -> str:
    scope = body.get("scope")
    return scope if isinstance(scope, str) else ""


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


def request_headers(body: JSONObject) -> Headers:
    """The headers of the request in a trace, without credentials."""
    lines = cast("list[str]", cast("JSONObject", body["wire"]).get("request_headers", []))
    pairs = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return drop_credentials(pairs, list_head_redactions(body.get("redacted"), body.get("provider_request")))


def find_unknown_parts(wire: JSONObject) -> UnknownParts:
    """What a trace does not say about its request: an imported one lacks the headers that were filtered out."""
    lines = cast("list[str]", wire.get("request_headers", []))
    has_all = "request_headers" in wire and not wire.get("request_headers_filtered")
    known_headers = None if has_all else frozenset(line.partition(":")[0].lower() for line in lines)
    return UnknownParts("//" not in str(wire.get("url", "")), known_headers)


def response_from_trace(body: JSONObject, chunk_lines: bytes) -> RecordedResponse | None:
    """The response in a trace; None where the call got no response, or one that could not be decoded.

    Raises:
        InvalidFile: a chunk line is invalid.
    """
    wire, value = body.get("wire"), body.get("provider_response")
    if not isinstance(wire, dict) or not wire.get("status"):
        return None
    if (
        isinstance(value, dict)
        and "omitted" in value
        and "response_layout" not in wire
        and "response_text" not in wire
    ):
        return None  # It could not be decoded, so it was not stored.
    chunks = read_chunks(chunk_lines) if chunk_lines else [Chunk(_first_byte_ms(wire), _response_body(body, wire))]
    redacted_field = body.get("redacted")
    redacted = redacted_field if isinstance(redacted_field, dict) else {}
    echoes = read_echoes(redacted)
    redaction_count = len(cast("list[JSON]", redacted.get("response", [])))
    return RecordedResponse(
        int(str(wire["status"])),
        _sendable_headers(wire),
        tuple(chunks),
        bool(chunk_lines),
        echoes,
        max(0, redaction_count - len(echoes)),
        _is_cut(wire),
    )


def _response_body(body: JSONObject, wire: JSONObject) -> bytes:
    value = body.get("provider_response")
    if isinstance(wire.get("response_layout"), str):
        return write_body(value, str(wire["response_layout"]))
    if isinstance(wire.get("response_text"), str):
        return str(wire["response_text"]).encode()
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
        return base64.b64decode(str(value["b64"]))
    if value is None:
        return b""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json_bytes(value)


def _is_cut(wire: JSONObject) -> bool:
    """Whether the call ended before the response did; a response that said it was complete was not cut."""
    return (
        wire.get("outcome") in (CallOutcome.CUT, CallOutcome.CLIENT_LEFT)
        and wire.get("ending") != ResponseEnding.COMPLETE
    )


def _first_byte_ms(wire: JSONObject) -> float:
    time = wire.get("first_byte_ms")
    return float(time) if isinstance(time, int | float) else 0.0


def _is_sendable(line: str) -> bool:
    """Whether a header can be sent again: whole, or a redirect, which a client follows without its secrets, too.

    A redacted user and password would make a URL that no client can read.
    """
    if not re.fullmatch(_SENDABLE_HEADER, line):
        return False
    return REDACTED not in line or (line[:9].lower() == "location:" and f"{REDACTED}@" not in line)


def _sendable_headers(wire: JSONObject) -> Headers:
    still_encoded = (EncodingState.FAILED, EncodingState.TOO_LARGE)  # Stored as it came: the header is true.
    true_headers = {"content-encoding"} if wire.get("encoding") in still_encoded else set()
    if str(wire.get("method", "")).upper() == "HEAD":
        true_headers.add("content-length")  # There is no body from which the length could be computed again.
    dropped = DROPPED_HEADERS - true_headers
    lines: Iterable[str] = cast("list[str]", wire.get("response_headers", []))
    pairs = (line.partition(": ")[::2] for line in lines if _is_sendable(line))
    return tuple((name, value) for name, value in pairs if name.lower() not in dropped)
