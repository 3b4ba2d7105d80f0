"""The text of a checkpoint: what was said on a merged branch, for a model that goes on without its events.

In: contents of events in causal order. Out: a text that depends on them alone: no ids, no times, so that equal
branches give equal prompts. It is written once, when branches are merged, and stored; it is never computed again.

    Another branch of this conversation went on with 2 events:

    User:
    Which kettle?

    Assistant:
    {"content":null,"tool_calls":[{"function":{"name":"search"}}]}

A content that is more than text is canonical JSON. Bytes that are not text are named by their type and size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

from traceforge.canon import JSON, canonical_bytes
from traceforge.context.history.artifacts import open_artifact
from traceforge.context.history.events import decrypt_event
from traceforge.context.model.content import unpack
from traceforge.context.model.objects import Content, EventType
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import artifacts
from traceforge.errors import ContentPurged

_SPEAKERS = {
    EventType.USER_MESSAGE: "User",
    EventType.ASSISTANT_MESSAGE: "Assistant",
    EventType.TOOL_RESULT: "Tool result",
    EventType.RETRIEVAL_RESULT: "Retrieved",
    EventType.CHECKPOINT: "Checkpoint",
    EventType.NOTE: "Note",
}


class EventContent(NamedTuple):
    """The content of an event; the media type is that of an artifact."""

    event_type: EventType
    content: Content | bytes
    media_type: str = ""


def open_events(tx: StoreTransaction, rows: Iterable[AnyRow]) -> list[EventContent]:
    """Decrypt the contents of events, inline or in artifacts.

    Raises:
        ContentPurged: an event was purged.
    """
    return [_open_event(tx, row) for row in rows]


def _open_event(tx: StoreTransaction, row: AnyRow) -> EventContent:
    if row.purged_by is not None:
        raise ContentPurged(row.id, row.purged_by)
    event_type = EventType(row.event_type)
    if row.payload_ref is None:
        return EventContent(event_type, unpack(row.kind, decrypt_event(tx, row)[1]))
    artifact = tx.find(artifacts, row.payload_ref)  # Also a deleted one: events that use it keep it.
    assert artifact is not None
    return EventContent(event_type, *open_artifact(tx, artifact))


def write_transcript(contents: list[EventContent]) -> str:
    """The text of a checkpoint."""
    count = f"{len(contents)} event{'' if len(contents) == 1 else 's'}"
    turns = [f"{_SPEAKERS[content.event_type]}:\n{_text(content)}" for content in contents]
    return "\n\n".join([f"Another branch of this conversation went on with {count}:", *turns])


def _text(event: EventContent) -> str:
    content = event.content
    if isinstance(content, bytes):
        return _text_of_bytes(content, event.media_type)
    if isinstance(content, str):
        return content
    plain = _plain_text(content)
    return canonical_bytes(cast("JSON", content)).decode() if plain is None else plain


def _text_of_bytes(content: bytes, media_type: str) -> str:
    if media_type.startswith("text/"):
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass
    return f"[{media_type}, {len(content)} bytes]"


def _plain_text(content: Content) -> str | None:
    """The text of a message or of parts that are nothing but text; None where they are more."""
    if isinstance(content, dict):
        is_plain = content.keys() <= {"role", "content"} and "content" in content
        return _plain_text(content["content"]) if is_plain else None
    if isinstance(content, list):
        texts = [_plain_part(part) for part in content]
        return None if None in texts or not texts else "\n".join(cast("list[str]", texts))
    return content if isinstance(content, str) else None


def _plain_part(part: JSON) -> str | None:
    is_text = isinstance(part, dict) and part.keys() == {"type", "text"} and part["type"] == "text"
    text = part["text"] if is_text and isinstance(part, dict) else None
    return text if isinstance(text, str) else None
