"""A queue up to a number of bytes."""

from __future__ import annotations

from support.work_counts import run_with_deadline
from traceforge.capture.backlog import Backlog


def test_items_come_out_in_their_order() -> None:
    """As many bytes at once as asked for."""
    backlog: Backlog[str] = Backlog(100)
    for item in "abc":
        backlog.put(item, 10)

    assert ["a", "b"] == backlog.get(0, 20)
    assert (["c"], 0) == (backlog.get(0, 20), backlog.bytes)
    assert [] == backlog.get(0, 20)


def test_items_that_do_not_fit_are_lost_and_counted() -> None:
    """Room that becomes free is used again."""
    backlog: Backlog[str] = Backlog(25)
    for item in "abc":
        backlog.put(item, 10)
    backlog.get(0, 1)
    backlog.put("d", 10)

    assert ["b", "d"] == backlog.get(0, 100)
    assert (4, 1) == (backlog.accepted, backlog.lost)


def test_discarded_items_are_counted_as_lost() -> None:
    """`get` no longer returns them."""
    backlog: Backlog[str] = Backlog(100)
    backlog.put("a", 10)
    backlog.discard_all()

    assert [] == backlog.get(0, 100)
    assert (1, 1, 0) == (backlog.accepted, backlog.lost, backlog.bytes)


def test_wake_ends_a_wait() -> None:
    """Without an item."""
    backlog: Backlog[str] = Backlog(100)
    backlog.wake()

    assert [] == run_with_deadline(lambda: backlog.get(3600, 100))
