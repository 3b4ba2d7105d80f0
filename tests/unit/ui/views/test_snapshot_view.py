"""Two snapshots for their page: what is the same is folded where there is much of it."""

from __future__ import annotations

from traceforge.ui.views.snapshot_view import BlockChangeView, group_same


def change(kind: str) -> BlockChangeView:
    return BlockChangeView(kind, "user", "user message", 1, 1, None, "hello", None)


def runs(*kinds: str) -> list[tuple[int, bool]]:
    return [(len(run.changes), run.is_folded) for run in group_same([change(kind) for kind in kinds])]


def test_blocks_that_are_the_same_are_folded_between_others() -> None:
    assert [(4, True), (2, False), (3, True)] == runs(*["same"] * 4, "added", "added", *["same"] * 3)


def test_few_blocks_that_are_the_same_stay_open() -> None:
    assert [(2, False), (1, False), (1, False)] == runs("same", "same", "changed", "same")


def test_two_equal_snapshots_are_shown() -> None:
    """Otherwise the page would show nothing."""
    assert [(40, False)] == runs(*["same"] * 40)
