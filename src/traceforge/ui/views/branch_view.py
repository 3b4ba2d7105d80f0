"""A page of a branch as a conversation: each event with its turn, where it came from, and what begins there.

In: events, the contents that they refer to, and the forks of the session. Out: plain data for
`templates/context/branch.html`. Never: shows purged content as empty: such an event has its receipt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.context.model.block_source import event_role
from traceforge.context.model.objects import ArtifactContent, Branch, Event, EventType
from traceforge.ui.views.context_text import as_message, branch_name, title_words
from traceforge.ui.views.conversation_view import TurnView, view_messages

EVENTS_PER_PAGE = 100

_MESSAGES = frozenset({EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.TOOL_RESULT})


@dataclass(frozen=True)
class BranchLink:
    """A branch that a page names."""

    id: str
    name: str


@dataclass(frozen=True)
class EventView:
    """One event of a branch."""

    id: str
    sequence: int
    kind: str  # In words; "" for a message, whose turn says it.
    created_at: str
    turn: TurnView | None  # None: purged, or a tool result that stands under its call.
    is_result: bool = False  # The result of a tool that is shown under its call.
    purged_by: str = ""
    artifact_id: str = ""
    response_id: str = ""
    inherited_from: BranchLink | None = None
    merged_from: BranchLink | None = None
    is_copy: bool = False  # Of a rebase.
    forks: tuple[BranchLink, ...] = ()


def view_events(
    events: Sequence[Event],
    contents: Mapping[str, ArtifactContent | None],
    branch: Branch,
    branches: Sequence[Branch],
    sources: Mapping[str, str],
) -> list[EventView]:
    """The events of one page.

    Args:
        events: in their order.
        contents: of the artifacts that they refer to, by id; None: deleted.
        branch: the branch that is shown.
        branches: all branches of its session.
        sources: the branch of each event that was merged or copied, by the event's id.
    """
    names = {other.id: BranchLink(other.id, branch_name(other.label, other.id)) for other in branches}
    forks: dict[str, list[BranchLink]] = {}
    for other in branches:
        if other.forked_from_event_id is not None and other.id != branch.id:
            forks.setdefault(other.forked_from_event_id, []).append(names[other.id])
    readable = [event for event in events if event.purged_by is None]
    turns = {turn.number: turn for turn in view_messages(event_message(event, contents) for event in readable).turns}
    turn_of = {event.id: turns.get(place) for place, event in enumerate(readable)}
    return [
        EventView(
            id=event.id,
            sequence=event.sequence,
            kind="" if event.event_type in _MESSAGES else title_words(event.event_type.value),
            created_at=event.created_at,
            turn=turn_of.get(event.id),
            is_result=event.purged_by is None and turn_of.get(event.id) is None,
            purged_by=event.purged_by or "",
            artifact_id=event.payload_ref or "",
            response_id=_response_id(event),
            inherited_from=names.get(event.branch_id) if event.branch_id != branch.id else None,
            merged_from=names.get(sources.get(event.merged_from or event.rebased_from or "", "")),
            is_copy=event.rebased_from is not None,
            forks=tuple(forks.get(event.id, ())),
        )
        for event in events
    ]


def event_message(event: Event, contents: Mapping[str, ArtifactContent | None]) -> JSONObject:
    """The message of an event, with the content of its artifact."""
    role = event_role(event.event_type)
    if event.payload_ref is None:
        return as_message(role, cast("JSON", event.content))
    content = contents.get(event.payload_ref)
    if content is None:
        return {"role": role, "content": f"(the artifact {event.payload_ref} was deleted)"}
    if isinstance(content.content_base64, str):
        return {"role": role, "content": f"({content.content_media_type}, shown on no page)"}
    return as_message(role, cast("JSON", content.content))


def _response_id(event: Event) -> str:
    """The response that an event holds, as the store wrote it into its metadata."""
    value = event.metadata.get("response_id") if event.event_type is EventType.ASSISTANT_MESSAGE else None
    return value if isinstance(value, str) else ""
