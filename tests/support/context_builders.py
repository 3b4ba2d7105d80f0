"""Create artifacts, bundles, sessions, events and forks in a context store with one call each."""

from __future__ import annotations

from typing import Any

from support.operation_store import Store
from traceforge.context.model.inputs import Append, Merge, NewArtifact, NewBranch, NewBundle, NewEvent, NewSession
from traceforge.context.model.objects import (
    Artifact,
    ArtifactType,
    Branch,
    Bundle,
    BundleItem,
    Content,
    Event,
    EventType,
    Merged,
    MergeStrategy,
    Session,
)


def new_artifact(store: Store, content: Content = "You are helpful.", **more: Any) -> Artifact:
    """Create an artifact, by default a text."""
    kind = more.pop("artifact_type", ArtifactType.TEXT_CONTEXT)
    return store.create_artifact(NewArtifact(artifact_type=kind, content=content, **more))


def new_bundle(store: Store, *contents: Content) -> Bundle:
    """Create a bundle of these contents in the system role."""
    items = [BundleItem(artifact_id=new_artifact(store, content).id, role="system") for content in contents]
    return store.create_bundle(NewBundle(items=items))


def new_session(store: Store, *base: Content) -> Session:
    """Create a session, with a base bundle of these contents if there are any."""
    return store.create_session(NewSession(base_bundle_ids=[new_bundle(store, *base).id] if base else []))


def append_event(
    store: Store,
    branch: Branch | Session,
    content: Content = "hello",
    event_type: EventType = EventType.USER_MESSAGE,
    **more: Any,
) -> Event:
    """Append one event at the current head."""
    session_id, branch_id = branch_ids(branch)
    now = store.get_branch(session_id, branch_id)
    event = NewEvent(event_type=event_type, content=None if "payload_ref" in more else content, **more)
    body = Append(expected_version=now.version, expected_head_event_id=now.head_event_id, event=event)
    return store.append_event(session_id, branch_id, body)


def append_events(store: Store, branch: Branch | Session, count: int, word: str = "event") -> list[Event]:
    """Append `count` events with numbered texts."""
    return [append_event(store, branch, f"{word} {number}") for number in range(count)]


def fork_branch(store: Store, branch: Branch | Session, at: Event | None = None, label: str = "") -> Branch:
    """Fork a branch at its head, or at an event."""
    session_id, branch_id = branch_ids(branch)
    body = NewBranch(fork_from_branch_id=branch_id, fork_from_event_id=at.id if at else None, label=label)
    return store.fork_branch(session_id, body)


def branch_ids(branch: Branch | Session) -> tuple[str, str]:
    """Session id and branch id of a branch, or of a session's default branch."""
    return (branch.id, branch.default_branch_id) if isinstance(branch, Session) else (branch.session_id, branch.id)


def list_all_events(store: Store, branch: Branch | Session) -> list[Event]:
    events: list[Event] = []
    while True:
        page = store.list_events(*branch_ids(branch), limit=100, after=events[-1].id if events else None)
        events += page.data
        if not page.has_more:
            return events


def merge_branch(
    store: Store, source: Branch | Session, target: Branch | Session, strategy: MergeStrategy, **more: Any
) -> Merged:
    """Merge at the head of the target as it is now."""
    _, source_id = branch_ids(source)
    session_id, target_id = branch_ids(target)
    now = store.get_branch(session_id, target_id)
    expected = {"expected_version": now.version, "expected_head_event_id": now.head_event_id}
    if strategy is MergeStrategy.COMPACT:
        more.setdefault("summary", "they agreed")
    body = Merge(source_branch_id=source_id, strategy=strategy, **{**expected, **more})
    return store.merge_branch(session_id, target_id, body)
