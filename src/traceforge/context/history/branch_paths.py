"""The causal path of a branch: its own events, and those it inherited where it was forked.

In: a branch. Out: segments, the oldest first. Never: walks events one by one; a fork inherits the version of its
parent, so `sequence` has no gap along a path and an interval of sequences identifies the events.
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
    """A branch as a transaction has read it, with the status of its session and the generation of its project."""

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
    """A branch and its ancestors, the oldest first, each with the interval of sequences that it adds to the path."""
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
    """Whether an event is on the path."""
    return any(segment.branch_id == branch_id and segment.low < sequence <= segment.high for segment in path)


def clip_path(path: Path, after: int, upto: int) -> Path:
    """The part of a path with after < sequence <= upto."""
    clipped = (segment._replace(low=max(segment.low, after), high=min(segment.high, upto)) for segment in path)
    return [segment for segment in clipped if segment.high > segment.low]


def common_version(path: Path, other: Path) -> int:
    """The sequence of the last event that two paths share; 0 where they share none."""
    common = 0
    for mine, theirs in zip(path, other, strict=False):
        if mine.branch_id != theirs.branch_id or mine.low != theirs.low:
            break
        common = min(mine.high, theirs.high)
        if mine.high != theirs.high:
            break
    return common


def event_rows(tx: StoreTransaction, path: Path, columns: Select[Any] = _ALL_COLUMNS) -> Iterator[AnyRow]:
    """The events of a path in causal order.

    Each segment is read to its end before its first row is yielded: a caller may stop in the middle, and an
    unfinished SQLite statement keeps its old state on the connection, where the next user could not write.
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
