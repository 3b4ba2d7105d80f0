"""Read the events of the branches of a session, through any client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from traceforge.context.api.operation_types import LIMIT_MAX
from traceforge.context.model.objects import Branch, Event

if TYPE_CHECKING:  # The client needs the packages of the extra `context`.
    from traceforge.context.api.store_client import Client


def list_own_events(client: Client, session_id: str, branches: Iterable[Branch]) -> dict[str, list[Event]]:
    """The events that each branch appended itself, without those it inherited."""
    return {branch.id: _own_events(client, session_id, branch) for branch in branches}


def _own_events(client: Client, session_id: str, branch: Branch) -> list[Event]:
    own: list[Event] = []
    after = branch.forked_from_event_id
    while True:
        page = client.list_events(session_id, branch.id, limit=LIMIT_MAX, after=after)
        own += page.data
        if not page.has_more:
            return own
        after = page.data[-1].id
