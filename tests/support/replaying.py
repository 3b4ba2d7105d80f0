"""Replay without a socket: calls that are kept in a folder, and a player that answers from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from support.exchanges import REDACTOR
from traceforge.exchange import Caller, Exchange
from traceforge.redact import Redaction, Redactor
from traceforge.replay.key import Asked, KeyMaker
from traceforge.replay.library import Library
from traceforge.replay.player import Played, Player
from traceforge.replay.traces import TraceRecordings
from traceforge.replay.volatile import Volatile
from traceforge.traces.compose import Composer
from traceforge.traces.index import Filter
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.store import TraceStore

KEYS = KeyMaker(REDACTOR, Volatile())
NOBODY = Caller()


def redactions_of(exchange: Exchange, keys: KeyMaker = KEYS) -> list[Redaction]:
    """Everything that is redacted in a call's request."""
    return [*keys.log_of_headers(exchange.request_headers), *asked_of(exchange, keys).log]


def asked_of(exchange: Exchange, keys: KeyMaker = KEYS) -> Asked:
    """What a call asks."""
    return keys.of_request(exchange.method, exchange.url, exchange.request_headers, exchange.request_body)


def kept_of(exchange: Exchange, keys: KeyMaker = KEYS, redactor: Redactor = REDACTOR) -> Asked:
    """What its trace says that it asks."""
    from support.exchanges import object_of

    body = object_of(Composer(redactor).compose(exchange).trace)
    wire = body["wire"]
    lines = (line.partition(": ") for line in wire["request_headers"])
    return keys.of_kept(
        wire["method"], wire["url"], tuple((name, value) for name, _, value in lines), body["provider_request"]
    )


def keep(folder: Path, exchanges: Sequence[Exchange], *, match_key: bytes | None = None) -> TraceStore:
    """Record calls, and open the store that holds them."""
    composer = Composer(REDACTOR, match_key)
    writer = SpoolWriter(os.fspath(folder))
    for exchange in exchanges:
        writer.append(composer.compose(exchange))
    writer.seal()
    store = TraceStore(os.fspath(folder))
    store.bring_up_to_date()
    return store


def recorded(
    folder: Path,
    *exchanges: Exchange,
    volatile: Volatile | None = None,
    recorded_with: bytes | None = None,
    match_key: bytes | None = None,
    narrowed: Filter = Filter(),  # noqa: B008 (frozen)
    repeat: bool = True,
) -> Player:
    """A player of these calls; the keys are those of the day of the recording, and of today."""
    keys = KeyMaker(REDACTOR, volatile or Volatile())
    store = keep(folder, exchanges, match_key=recorded_with)
    recordings = TraceRecordings(store, keys)
    library = Library(one._replace(repeats=repeat) for one in recordings.recordings(narrowed))
    store.close()
    return Player(keys, library, match_key=match_key)


def play(player: Player, exchange: Exchange, caller: Caller = NOBODY) -> Played:
    """Ask again what a call asked."""
    return player.play(exchange.method, exchange.url, exchange.request_headers, exchange.request_body, caller)
