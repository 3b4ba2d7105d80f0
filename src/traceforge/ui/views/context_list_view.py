"""A context session as a row of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from traceforge.context.model.objects import Branch, Event, Release, ReplayRun, Session
from traceforge.report.context_text import clip
from traceforge.ui.views.branch_view import BranchLink
from traceforge.ui.views.context_text import LINE_CHARS, branch_name, event_line
from traceforge.ui.views.json_view import json_line

BRANCHES_MAX = 4  # Names of branches in a row; more are counted.


class ContextSessionItem(NamedTuple):
    """A session of the store in the list."""

    id: str
    title: str  # The beginning of its first event, which says most about it.
    metadata: str
    status: str
    branches: tuple[BranchLink, ...]
    branch_count: int
    events: int  # Of the longest branch.
    created_at: str


class ReplayRunItem(NamedTuple):
    """A replay run in the list, and what it compares."""

    run: ReplayRun
    baseline: str
    candidate: str


def release_name(release: Release) -> str:
    """What a release is called: its alias, or its targets."""
    return release.alias or ", ".join(f"{target.provider}/{target.model}" for target in release.targets)


def list_session_item(session: Session, branches: Sequence[Branch], first: Sequence[Event]) -> ContextSessionItem:
    """The row of a session; `first` has its first event, if there is one."""
    links = tuple(BranchLink(branch.id, branch_name(branch.label, branch.id)) for branch in branches[:BRANCHES_MAX])
    return ContextSessionItem(
        id=session.id,
        title=event_line(first[0]) if first else "",
        metadata=clip(json_line(session.metadata), LINE_CHARS) if session.metadata else "",
        status=session.status.value,
        branches=links,
        branch_count=len(branches),
        events=max((branch.version for branch in branches), default=0),
        created_at=session.created_at,
    )
