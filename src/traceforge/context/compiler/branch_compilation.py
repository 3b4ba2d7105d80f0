"""From a branch to its manifest, in time that grows with what is new.

In: a session, and a path of events. Out: a compiler's state at its end, and the blocks in order. Never: an order of
its own; the compiler's revision decides. Never content: blocks are known by their digests.

Two things are kept so that a long history is not read again. `prefixes` holds the state of a compiler at places where
it was compiled: the next time, only what came after it is folded. `pages` holds the block ids of many events in one
row. Both are made of events that never change, and are made anew where they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select

from traceforge.context.compiler.compiler_revisions import Compiler
from traceforge.context.compiler.compiler_state import CompilerState
from traceforge.context.history.branch_paths import Path, PathSegment, clip_path, event_rows
from traceforge.context.model.block_source import BlockSource
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import artifacts, bundle_items, events, pages, prefixes, session_bundles
from traceforge.errors import ContentPurged

_INCOMPLETE = "Nothing is compiled with a piece missing. Fork the branch at an event before it, and go on there."
PAGE_EVENTS = 256  # Events a page: 8 KB of ids. A full history of 10,000 is 40 rows.

_BASE = (
    select(
        bundle_items.c.block_id,
        bundle_items.c.role,
        bundle_items.c.bundle_id,
        artifacts.c.id.label("artifact_id"),
        artifacts.c.id,
        artifacts.c.kind,
        artifacts.c.content_digest,
        artifacts.c.purged_by,
    )
    .select_from(session_bundles)
    .join(bundle_items, bundle_items.c.bundle_id == session_bundles.c.bundle_id)
    .join(artifacts, artifacts.c.id == bundle_items.c.artifact_id)
    .where(session_bundles.c.session_id == bindparam("session"))
    .order_by(session_bundles.c.position, bundle_items.c.position)
)
_SOURCES = select(
    events.c.id,
    events.c.block_id,
    events.c.role,
    events.c.kind,
    events.c.content_digest,
    events.c.payload_ref,
    events.c.purged_by,
)
_BLOCK_IDS = select(events.c.block_id)
_NEAREST = (
    select(prefixes.c.sequence, prefixes.c.state)
    .where(
        prefixes.c.branch_id == bindparam("branch"),
        prefixes.c.revision == bindparam("revision"),
        prefixes.c.sequence > bindparam("low"),
        prefixes.c.sequence <= bindparam("high"),
    )
    .order_by(prefixes.c.sequence.desc())
    .limit(1)
)
_PAGES = (
    select(pages.c.page, pages.c.block_ids)
    .where(
        pages.c.branch_id == bindparam("branch"),
        pages.c.page >= bindparam("first"),
        pages.c.page < bindparam("end"),
    )
    .order_by(pages.c.page)
)
_THIN = delete(prefixes).where(
    prefixes.c.branch_id == bindparam("branch"),
    prefixes.c.revision == bindparam("revision"),
    prefixes.c.sequence > bindparam("low"),
    prefixes.c.sequence < bindparam("high"),
)


class FoldResult(NamedTuple):
    """A compiler's state at the end of a path, and up to which sequence it was known before."""

    state: CompilerState
    known_sequence: int


def path_version(path: Path) -> int:
    """The sequence of the last event of a path; 0 where there is none."""
    return path[-1].high if path else 0


def fold_path(tx: StoreTransaction, compiler: Compiler, session_id: str, path: Path) -> FoldResult:
    """The state at the end of a path.

    Raises:
        ContentPurged: something on the way was purged.
    """
    known_sequence, state = _nearest_prefix(tx, compiler, path)
    if state is None:
        state = compiler.fold(compiler.start(), [_source(row) for row in base_rows(tx, session_id)])
    newer = clip_path(path, known_sequence, path_version(path))
    if newer:
        state = compiler.fold(state, (_source(row) for row in event_rows(tx, newer, _SOURCES)))
    return FoldResult(state, known_sequence)


def fold_from(
    tx: StoreTransaction,
    compiler: Compiler,
    state: CompilerState,
    session_id: str,
    path: Path,
    after: int | None,
    upto: int,
) -> CompilerState:
    """The same, without anything that was kept: the events behind a sequence; None: from the beginning."""
    if after is None:
        state = compiler.fold(state, [_source(row) for row in base_rows(tx, session_id)])
    return compiler.fold(state, (_source(row) for row in event_rows(tx, clip_path(path, after or 0, upto), _SOURCES)))


def store_prefix(tx: StoreTransaction, compiler: Compiler, path: Path, state: CompilerState) -> None:
    """Keep a state for the next time. One a page stays; what lies between goes when it is not the newest any more."""
    if not path:
        return
    last = path[-1]
    page_start = max(last.low, (last.high - 1) // PAGE_EVENTS * PAGE_EVENTS)
    where = {"branch": last.branch_id, "low": page_start, "high": last.high}
    tx.connection.execute(_THIN, {**where, "revision": compiler.revision})
    row = {"branch_id": last.branch_id, "revision": compiler.revision, "sequence": last.high, "state": state}
    tx.insert_missing(prefixes, [row])


def read_block_ids(tx: StoreTransaction, session_id: str, path: Path, *, keep_pages: bool = False) -> list[str]:
    """The ids of all blocks in causal order: the base's, then the events'."""
    ids = [row.block_id for row in base_rows(tx, session_id)]
    for segment in path:
        ids += _segment_ids(tx, segment, keep_pages)
    return ids


def base_rows(tx: StoreTransaction, session_id: str) -> list[AnyRow]:
    """The items of a session's bundles, in order."""
    return list(tx.connection.execute(_BASE, {"session": session_id}).all())


class BlockOrigin(NamedTuple):
    """A source, and where it came from."""

    source: BlockSource
    artifact_id: str | None
    bundle_id: str | None
    event_id: str | None


def block_origins(tx: StoreTransaction, session_id: str, path: Path) -> list[BlockOrigin]:
    """All of it from the beginning, in causal order, and nothing that was kept.

    Raises:
        ContentPurged: something of it was purged.
    """
    base = [BlockOrigin(_source(row), row.artifact_id, row.bundle_id, None) for row in base_rows(tx, session_id)]
    rows = event_rows(tx, path, _SOURCES)
    return base + [BlockOrigin(_source(row), row.payload_ref, None, row.id) for row in rows]


def _source(row: AnyRow) -> BlockSource:
    if row.purged_by is not None:
        raise ContentPurged(row.id, row.purged_by, hint=_INCOMPLETE)
    return BlockSource(row.block_id, row.role, row.kind, row.content_digest)


def _nearest_prefix(tx: StoreTransaction, compiler: Compiler, path: Path) -> tuple[int, CompilerState | None]:
    for segment in reversed(path):
        interval = {"branch": segment.branch_id, "low": segment.low, "high": segment.high}
        row = tx.connection.execute(_NEAREST, {**interval, "revision": compiler.revision}).one_or_none()
        if row is not None:
            return row.sequence, CompilerState(row.state)
    return 0, None


def _segment_ids(tx: StoreTransaction, segment: PathSegment, keep_pages: bool) -> Iterator[str]:
    first, end = -(-segment.low // PAGE_EVENTS), segment.high // PAGE_EVENTS
    if first >= end:
        yield from _read_ids(tx, segment)
        return
    interval = {"branch": segment.branch_id, "first": first, "end": end}
    stored_pages = {row.page: row.block_ids for row in tx.connection.execute(_PAGES, interval)}
    yield from _read_ids(tx, segment._replace(high=first * PAGE_EVENTS))
    new_pages = []
    for page in range(first, end):
        if page in stored_pages:
            yield from stored_pages[page].split()
            continue
        ids = list(_read_ids(tx, PathSegment(segment.branch_id, page * PAGE_EVENTS, (page + 1) * PAGE_EVENTS)))
        new_pages.append({"branch_id": segment.branch_id, "page": page, "block_ids": " ".join(ids)})
        yield from ids
    if new_pages and keep_pages:
        tx.insert_missing(pages, new_pages)
    yield from _read_ids(tx, segment._replace(low=end * PAGE_EVENTS))


def _read_ids(tx: StoreTransaction, segment: PathSegment) -> Iterator[str]:
    if segment.high > segment.low:
        for row in event_rows(tx, [segment], _BLOCK_IDS):
            yield row.block_id
