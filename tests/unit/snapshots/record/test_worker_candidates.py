"""Which calls of several workers of a suite are one call, and which a cache may save in a single process."""

from __future__ import annotations

import pytest

from support.proposals import candidates_from, make_call, propose
from traceforge.snapshots.tree.approved_calls import ScopeTurn, read_turns

MENU = "@ session fixture menu"


def list_turns(*calls: tuple[str, str]) -> list[tuple[str, bool]]:
    """The scopes of the candidates of equal calls, given by worker and scope; and whether a cache may save them."""
    exchanges = [make_call("a", number=number, scope=scope) for number, (_, scope) in enumerate(calls)]
    workers = {exchange.id: worker for exchange, (worker, _) in zip(exchanges, calls, strict=True)}
    return [(candidate.scope, candidate.per_worker) for candidate in candidates_from(*exchanges, workers=workers)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("gw0", "x"), ("gw1", "y")], [("x", False), ("y", True)]),
        ([("gw1", "y"), ("gw0", "x"), ("gw2", "z")], [("y", False), ("x", True), ("z", True)]),
        ([("gw0", "x"), ("gw0", "x"), ("gw1", "y"), ("gw1", "y")], [("x", False)] * 2 + [("y", True)] * 2),
        ([("gw0", MENU), ("gw1", "y")], [(MENU, False), ("y", True)]),
        # No cache: two tests of a worker made the call, or one test made it more often.
        ([("gw0", "x"), ("gw1", "y"), ("gw1", "z")], [("x", False), ("y", False), ("z", False)]),
        ([("gw0", "x"), ("gw1", "y"), ("gw1", "y")], [("x", False), ("y", False), ("y", False)]),
        ([("", "x"), ("", "y")], [("x", False), ("y", False)]),
        # Each worker sets up a fixture, and with `--dist each` runs all tests: one call.
        ([("gw0", MENU), ("gw1", MENU)], [(MENU, False)]),
        ([("gw0", "x"), ("gw1", "x")], [("x", False)]),
        ([("gw0", "x"), ("gw1", "x"), ("gw0", "y"), ("gw1", "y")], [("x", False), ("y", False)]),
    ],
)
def test_a_call_in_one_test_of_each_worker_may_be_cached(
    calls: list[tuple[str, str]], expected: list[tuple[str, bool]]
) -> None:
    assert expected == list_turns(*calls)


def test_a_snapshot_says_which_calls_a_cache_may_save() -> None:
    """And the entry is read as it was written."""
    turn = ScopeTurn("y", 0, 1, per_worker=True)

    assert {"scope": "y", "calls": 1, "per_worker": True} == turn.to_json(is_numbered=False)
    assert [turn] == read_turns({"scopes": [turn.to_json(is_numbered=False)]})
    (change,) = propose(make_call("a", scope="x")).changes
    assert [ScopeTurn("x", 0, 1)] == change.turns
