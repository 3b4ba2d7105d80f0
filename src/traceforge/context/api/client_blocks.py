"""Read the blocks of a snapshot with their content, through any client.

Snapshots keep the content of a deleted artifact and the events of a deleted session, but a client can no longer read
them: such a block has only its digest.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from traceforge.canon import JSON
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import ArtifactContent, Block, Event
from traceforge.errors import StoreRefused

if TYPE_CHECKING:  # The client needs the packages of the extra `context`.
    from traceforge.context.api.store_client import Client


def open_blocks(client: Client, snapshot_id: str) -> list[ContentBlock]:
    """Every block of a snapshot, with its content.

    Raises:
        ContentPurged: content was purged.
        StoreRefused: the snapshot does not exist.
    """
    return open_contents(client, snapshot_id, list(client.iterate_blocks(snapshot_id)))


def open_contents(client: Client, snapshot_id: str, blocks: Sequence[Block]) -> list[ContentBlock]:
    """Some blocks of a snapshot, with their contents.

    Raises:
        ContentPurged: content was purged.
    """
    has_events = any(block.event_id is not None for block in blocks)
    events = _events(client, snapshot_id) if has_events else {}
    contents: dict[str, ArtifactContent | None] = {}
    return [_open(client, block, events, contents) for block in blocks]


def _events(client: Client, snapshot_id: str) -> dict[str, Event]:
    """The events of a snapshot by id; none if its session was deleted."""
    snapshot = client.get_snapshot(snapshot_id)
    events: dict[str, Event] = {}
    try:
        for event in client.iterate_events(snapshot.session_id, snapshot.branch_id):
            events[event.id] = event
            if event.sequence >= snapshot.branch_version:
                break
    except StoreRefused as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        return {}
    return events


def _open(
    client: Client, block: Block, events: dict[str, Event], contents: dict[str, ArtifactContent | None]
) -> ContentBlock:
    event = events.get(block.event_id or "")
    if event is not None and event.payload_ref is None:
        return ContentBlock(block.id, block.role, block.kind, cast("JSON", event.content))
    artifact_id = block.artifact_id or (event.payload_ref if event is not None else None)
    if artifact_id is not None and artifact_id not in contents:
        contents[artifact_id] = find_artifact_content(client, artifact_id)
    artifact_content = contents[artifact_id] if artifact_id is not None else None
    if artifact_content is None:
        return ContentBlock(block.id, block.role, block.kind, None, hidden=block.content_digest)
    if isinstance(artifact_content.content_base64, str):
        return ContentBlock(
            block.id,
            block.role,
            block.kind,
            b64decode(artifact_content.content_base64),
            artifact_content.content_media_type,
        )
    return ContentBlock(block.id, block.role, block.kind, cast("JSON", artifact_content.content))


def find_artifact_content(client: Client, artifact_id: str) -> ArtifactContent | None:
    """The content of an artifact; None if the artifact was deleted."""
    try:
        return client.get_artifact_content(artifact_id)
    except StoreRefused as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        return None
