"""Compiles a branch incrementally: the cost grows with the new events, not with the history.

In: a session, and a path of events. Out: a compiler's state at the end of the path, and the block ids in order.
Never: an order of its own (the compiler's revision decides), or content (a block is known by its digest).

Two tables save reading a long history again. `prefixes` holds the state of a compiler at some events; the next
compilation folds only the later events. `pages` holds the block ids of many events in one row. Both derive
from events, which never change, and are computed again where they are missing.
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

_INCOMPLETE = "A branch with purged content cannot be compiled. Fork it at an event before, and continue there."
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
    """A compiler's state at the end of a path, and the sequence of the stored state that it began with."""

    state: CompilerState
    known_sequence: int


def path_version(path: Path) -> int:
    """The sequence of the last event of a path; 0 where there is none."""
    return path[-1].high if path else 0


def fold_path(tx: StoreTransaction, compiler: Compiler, session_id: str, path: Path) -> FoldResult:
    """The state at the end of a path, from the nearest stored state on.

    Raises:
        ContentPurged: an event or artifact on the path was purged.
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
    """Fold the events after a sequence into a state, without stored states; `after` None: from the beginning."""
    if after is None:
        state = compiler.fold(state, [_source(row) for row in base_rows(tx, session_id)])
    return compiler.fold(state, (_source(row) for row in event_rows(tx, clip_path(path, after or 0, upto), _SOURCES)))


def store_prefix(tx: StoreTransaction, compiler: Compiler, path: Path, state: CompilerState) -> None:
    """Store a state for the next compilation. Of the states in one page of events, only the newest stays."""
    if not path:
        return
    last = path[-1]
    page_start = max(last.low, (last.high - 1) // PAGE_EVENTS * PAGE_EVENTS)
    where = {"branch": last.branch_id, "low": page_start, "high": last.high}
    tx.connection.execute(_THIN, {**where, "revision": compiler.revision})
    row = {"branch_id": last.branch_id, "revision": compiler.revision, "sequence": last.high, "state": state}
    tx.insert_missing(prefixes, [row])


def read_block_ids(tx: StoreTransaction, session_id: str, path: Path, *, keep_pages: bool = False) -> list[str]:
    """The ids of all blocks in causal order: those of the base bundles, then those of the events."""
    ids = [row.block_id for row in base_rows(tx, session_id)]
    for segment in path:
        ids += _segment_ids(tx, segment, keep_pages)
    return ids


def base_rows(tx: StoreTransaction, session_id: str) -> list[AnyRow]:
    """The items of a session's bundles, in order."""
    return list(tx.connection.execute(_BASE, {"session": session_id}).all())


class BlockOrigin(NamedTuple):
    """A source, and the artifact, bundle or event it came from."""

    source: BlockSource
    artifact_id: str | None
    bundle_id: str | None
    event_id: str | None


def block_origins(tx: StoreTransaction, session_id: str, path: Path) -> list[BlockOrigin]:
    """Every source of a path with its origin, in causal order, read without stored states.

    Raises:
        ContentPurged: an event or artifact of it was purged.
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
