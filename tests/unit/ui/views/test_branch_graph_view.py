"""The order of branches: a fork stands below the branch whose event it left."""

from __future__ import annotations

from pathlib import Path

from support.context_builders import append_event, fork_branch, new_session
from support.context_project import open_project_store
from traceforge.ui.views.branch_graph_view import view_branches


def test_a_fork_at_an_inherited_event_stands_below_the_branch_that_has_it(tmp_path: Path) -> None:
    """The branch on which it was forked only shares that event."""
    store = open_project_store(tmp_path)
    session = new_session(store)
    first = append_event(store, session, "one")
    refund = fork_branch(store, session, label="refund")
    append_event(store, refund, "two")
    fork_branch(store, refund, at=first, label="retry")
    branches = store.list_branches(session.id).data
    events = {
        branch.id: [event for event in store.list_events(session.id, branch.id).data
                    if event.branch_id == branch.id]
        for branch in branches
    }  # fmt: skip
    rows = view_branches(branches, events, session.default_branch_id).rows
    store.close()

    assert {"refund": 1, "retry": 1} == {row.name: row.depth for row in rows[1:]}
    assert all(row.origin == f"{rows[0].name} at 1" for row in rows[1:])
