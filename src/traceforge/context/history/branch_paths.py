"""The causal path of a branch: its own events, and those it inherited where it was forked.

In: a branch. Out: segments, the oldest first. Never: walks events one by one; `sequence` goes on without a gap along
a path, because a fork inherits the version, so an interval of sequences says which events are meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Integer, Select, bindparam, case, cast, literal, select

from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import branches, events


class PathSegment(NamedTuple):
    """The events of one branch with low < sequence <= high."""

    branch_id: str
    low: int
    high: int


class BranchState(NamedTuple):
    """A branch as it is found in a transaction, with what an append must know of its session and project."""

    id: str
    version: int
    head_event_id: str | None
    parent_branch_id: str | None
    session_id: str
    status: str
    generation: int


Path = list[PathSegment]
_ALL_COLUMNS = select(events)


def branch_path(tx: StoreTransaction, branch: AnyRow | BranchState, version: int | None = None) -> Path:
    """The path of a branch up to a version, by default up to its head."""
    high = branch.version if version is None else version
    if branch.parent_branch_id is None:
        return [PathSegment(branch.id, 0, high)] if high else []
    rows = tx.connection.execute(_ANCESTRY, {"branch": branch.id, "high": high}).all()
    return [PathSegment(row.id, row.low, row.high) for row in rows if row.high > row.low]


def _ancestry() -> Select[tuple[str, int, int]]:
    """A branch and those it was forked from, the oldest first, each with the interval it gives to the path."""
    line = (
        select(
            branches.c.id,
            branches.c.parent_branch_id,
            branches.c.forked_at.label("low"),
            cast(bindparam("high"), branches.c.version.type).label("high"),
            literal(0, Integer).label("depth"),
        )
        .where(branches.c.id == bindparam("branch"))
        .cte("line", recursive=True)
    )
    line = line.union_all(
        select(
            branches.c.id,
            branches.c.parent_branch_id,
            branches.c.forked_at,
            case((line.c.high < line.c.low, line.c.high), else_=line.c.low),
            line.c.depth + 1,
        ).join(line, branches.c.id == line.c.parent_branch_id)
    )
    return select(line.c.id, line.c.low, line.c.high).order_by(line.c.depth.desc())


_ANCESTRY = _ancestry()


def is_on_path(path: Path, branch_id: str, sequence: int) -> bool:
    """Does this event stand on the path?"""
    return any(one.branch_id == branch_id and one.low < sequence <= one.high for one in path)


def clip_path(path: Path, after: int, upto: int) -> Path:
    """The part of a path with after < sequence <= upto."""
    clipped = (PathSegment(one.branch_id, max(one.low, after), min(one.high, upto)) for one in path)
    return [one for one in clipped if one.high > one.low]


def common_version(one: Path, other: Path) -> int:
    """How far two paths are the same: the sequence of the last event that stands on both; 0 where none does."""
    common = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.branch_id != theirs.branch_id or mine.low != theirs.low:
            break
        common = min(mine.high, theirs.high)
        if mine.high != theirs.high:
            break
    return common


def event_rows(tx: StoreTransaction, path: Path, columns: Select[Any] = _ALL_COLUMNS) -> Iterator[AnyRow]:
    """The events of a path in causal order.

    Those of a branch are read to their end before the first is handed out. A statement of SQLite that is left in the
    middle, because one of them was refused, holds the state that it saw: whoever gets the connection next would see
    the past, and could not write.
    """
    statement = columns.where(
        events.c.branch_id == bindparam("branch"),
        events.c.sequence > bindparam("low"),
        events.c.sequence <= bindparam("high"),
    ).order_by(events.c.sequence)
    for segment in path:
        yield from tx.connection.execute(
            statement, {"branch": segment.branch_id, "low": segment.low, "high": segment.high}
        ).all()
