"""What waits, up to a size."""

from __future__ import annotations

from support.work import finish
from traceforge.capture.backlog import Backlog


def test_what_was_put_comes_out_in_its_order() -> None:
    """As much at once as was asked for."""
    backlog: Backlog[str] = Backlog(100)
    for item in "abc":
        backlog.put(item, 10)

    assert ["a", "b"] == backlog.get(0, 20)
    assert (["c"], 0) == (backlog.get(0, 20), backlog.bytes)
    assert [] == backlog.get(0, 20)


def test_what_does_not_fit_is_lost_and_counted() -> None:
    """Room that was made is used again."""
    backlog: Backlog[str] = Backlog(25)
    for item in "abc":
        backlog.put(item, 10)
    backlog.get(0, 1)
    backlog.put("d", 10)

    assert ["b", "d"] == backlog.get(0, 100)
    assert (4, 1) == (backlog.accepted, backlog.lost)


def test_what_is_given_up_is_lost() -> None:
    """Nobody gets it any more."""
    backlog: Backlog[str] = Backlog(100)
    backlog.put("a", 10)
    backlog.discard_all()

    assert [] == backlog.get(0, 100)
    assert (1, 1, 0) == (backlog.accepted, backlog.lost, backlog.bytes)


def test_a_wait_can_be_ended() -> None:
    """By somebody who has nothing to put."""
    backlog: Backlog[str] = Backlog(100)
    backlog.wake()

    assert [] == finish(lambda: backlog.get(3600, 100))
