"""The order of the review queue, its sections, and what a search leaves."""

from __future__ import annotations

import pytest

from support.proposals import approve_change, make_call, propose
from support.replay_player import KEYS
from support.review_queue import approved_queue, changed_queue
from traceforge.config import Config, LoadedConfig
from traceforge.snapshots.approve.pending_state import PendingState
from traceforge.ui.views.change_queue_view import ChangeListView, filter_changes, view_changes


@pytest.fixture(scope="module")
def page() -> ChangeListView:
    calls = [approve_change(change) for change in propose(*approved_queue()).changes]
    changes = propose(*changed_queue(), approved=calls).changes
    state = PendingState(LoadedConfig("/project", Config(), {}), list(changes), {c.id: c for c in calls}, 0, [])
    return view_changes(state, KEYS)


def test_the_edit_that_explains_most_calls_is_first(page: ChangeListView) -> None:
    """New calls of one file stand together at the end, and every change is there once."""
    titles = [(cause.title, len(cause.rows)) for cause in page.causes]

    assert [("The prompt changed.", 12), ("The model changed.", 4)] == titles[:2]
    assert ("8 calls that were never approved in shop/desk.py.", 8) in titles[-2:]
    assert (30, 30) == (page.total, len({item.id for item in page.items}))


def test_of_many_calls_with_one_cause_few_are_open(page: ChangeListView) -> None:
    many, few = page.causes[:2]

    assert (3, 9) == (len(many.open_rows), len(many.folded_rows))
    assert (4, 0) == (len(few.open_rows), len(few.folded_rows))


def test_what_cannot_be_approved_stands_before_everything_else() -> None:
    changes = propose(make_call("a"), make_call("b", temperature=0.7, seed=None), is_strict=True).changes
    state = PendingState(LoadedConfig("/project", Config(), {}), list(changes), {}, 0, [])

    assert ["Cannot be approved as it is.", "A call that was never approved."] == [
        cause.title for cause in view_changes(state, KEYS).causes
    ]


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        ("", "", 30), ("new", "", 9), ("changed (answer)", "", 2), ("", "HAIKU fog", 1), ("new", "test_french", 0),
        ("", "gpt-4.1-mini", 4), ("", "The tools changed", 2), ("", "tests/test_bot.py", 1), ("green", "", 0),
    ],
)  # fmt: skip
def test_a_search_leaves_the_changes_with_every_word(page: ChangeListView, kind: str, text: str, number: int) -> None:
    """Of a kind, in any field that the row shows; the counts of the kinds stay those of the queue."""
    found = filter_changes(page, kind, text)

    assert number == len(found.items)
    assert (30, page.counts) == (found.total, found.counts)
    assert all(cause.rows for cause in found.causes)
