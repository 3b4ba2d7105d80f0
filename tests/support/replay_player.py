"""Replay without a socket: exchanges stored as traces in a folder, and a player that answers from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from support.exchanges import REDACTOR
from traceforge.exchange import Caller, Exchange
from traceforge.redact.redactions import Redaction
from traceforge.redact.redactor import Redactor
from traceforge.replay.library import Library
from traceforge.replay.player import Player, ReplayResult
from traceforge.replay.request_key import KeyedRequest, RequestKeyer
from traceforge.replay.trace_recordings import TraceRecordings
from traceforge.replay.volatile import VolatileRules
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore

KEYS = RequestKeyer(REDACTOR, VolatileRules())
NO_CALLER = Caller()


def redactions_of(exchange: Exchange, keys: RequestKeyer = KEYS) -> list[Redaction]:
    """All redactions in a call's request."""
    return [*keys.find_header_redactions(exchange.request_headers), *keyed_request_of(exchange, keys).redactions]


def keyed_request_of(exchange: Exchange, keys: RequestKeyer = KEYS) -> KeyedRequest:
    """The keyed request of a call."""
    return keys.key_request(exchange.method, exchange.url, exchange.request_headers, exchange.request_body)


def stored_request_of(exchange: Exchange, keys: RequestKeyer = KEYS, redactor: Redactor = REDACTOR) -> KeyedRequest:
    """The keyed request of a call, read from its trace."""
    from support.exchanges import parse_object

    body = parse_object(TraceComposer(redactor).compose(exchange).trace)
    wire = body["wire"]
    lines = (line.partition(": ") for line in wire["request_headers"])
    return keys.key_stored_request(
        wire["method"], wire["url"], tuple((name, value) for name, _, value in lines), body["provider_request"]
    )


def store_exchanges(folder: Path, exchanges: Sequence[Exchange], *, match_key: bytes | None = None) -> TraceStore:
    """Store exchanges as traces, and open their store."""
    composer = TraceComposer(REDACTOR, match_key)
    writer = SpoolWriter(os.fspath(folder))
    for exchange in exchanges:
        writer.append(composer.compose(exchange))
    writer.seal()
    store = TraceStore(os.fspath(folder))
    store.update_index()
    return store


def make_player(
    folder: Path,
    *exchanges: Exchange,
    volatile: VolatileRules | None = None,
    recorded_with: bytes | None = None,
    match_key: bytes | None = None,
    trace_filter: TraceFilter = TraceFilter(),  # noqa: B008 (frozen)
    repeat: bool = True,
) -> Player:
    """A player of these calls; `recorded_with` and `match_key` are the match keys at recording and at replay."""
    keys = RequestKeyer(REDACTOR, volatile or VolatileRules())
    store = store_exchanges(folder, exchanges, match_key=recorded_with)
    recordings = TraceRecordings(store, keys)
    library = Library(recording._replace(repeats=repeat) for recording in recordings.load_recordings(trace_filter))
    store.close()
    return Player(keys, library, match_key=match_key)


def play(player: Player, exchange: Exchange, caller: Caller = NO_CALLER) -> ReplayResult:
    """Send a call's request to the player."""
    return player.play(exchange.method, exchange.url, exchange.request_headers, exchange.request_body, caller)
