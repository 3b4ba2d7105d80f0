"""Lists: oldest first, a page at a time; `after` is the id of the last object that the caller has.

In: a condition on rows, `limit` and `after`. Out: a page. Never: a page that repeats or skips an object that existed
when the list began; `after` may name an object that was deleted since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import ColumnElement, Table, select

from traceforge.context.model.objects import Page
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, is_id
from traceforge.errors import StoreRefused

__all__ = ["LIMIT", "LIMIT_MAX", "Page", "check_limit", "list_page", "slice_page", "unknown_cursor"]

LIMIT = 20
LIMIT_MAX = 100

T = TypeVar("T")


def check_limit(limit: int) -> int:
    """The limit itself.

    Raises:
        StoreRefused: it is not between 1 and LIMIT_MAX.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise StoreRefused(f"`limit` must be from 1 to {LIMIT_MAX}", reason="invalid_limit", param="limit")
    return limit


def unknown_cursor(after: str) -> StoreRefused:
    """The error for an `after` that is not in the list."""
    return StoreRefused(f"`after`: {after} is not in this list", reason="invalid_cursor", status=404, param="after")


def list_page(
    tx: StoreTransaction,
    table: Table,
    where: Sequence[ColumnElement[bool]],
    to_objects: Callable[[list[AnyRow]], list[T]],
    *,
    limit: int,
    after: str | None,
    visible: Sequence[ColumnElement[bool]] = (),
    cursor: str = "id",
) -> Page[T]:
    """A page of the rows of this project that meet `where` and `visible`; `after` may name an invisible one."""
    check_limit(limit)
    statement = select(table).where(table.c.project_id == tx.project_id, *where)
    page_rows = statement.where(*visible).order_by(table.c.seq).limit(limit + 1)
    if after is not None:
        is_valid = is_id(after) if cursor == "id" else after.isascii() and "\0" not in after  # As names are.
        last = tx.fetch_one(statement.where(table.c[cursor] == after)) if is_valid else None
        if last is None:
            raise unknown_cursor(after)
        page_rows = page_rows.where(table.c.seq > last.seq)
    rows = tx.fetch_all(page_rows)
    return Page(data=to_objects(rows[:limit]), has_more=len(rows) > limit)


def slice_page(items: Sequence[T], names: Sequence[str], *, limit: int, after: str | None) -> Page[T]:
    """A page of a list that is in memory; `names` are the ids of its items."""
    check_limit(limit)
    start = 0
    if after is not None:
        try:
            start = names.index(after) + 1
        except ValueError:
            raise unknown_cursor(after) from None
    return Page(data=list(items[start : start + limit]), has_more=len(items) > start + limit)
