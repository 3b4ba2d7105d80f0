"""What becomes a block: one item of a bundle or one event, as the compiler sees it.

In: the type, the role and the content of an item or event. Out: a `Source`, which knows the content by its digest
alone. Never: reads a content to decide an order.

A bundle says as whom each of its items speaks. An event has one of three roles: the assistant's messages are the
assistant's, a tool's results are the tool's, and everything else is the user's: his messages, what was retrieved for
him, checkpoints and notes. Not the system's: some providers take what the system says out of the conversation and put
it in front, where one late event would change the beginning of the prompt and cost its cache.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.canon import JSON, Digest, digest_bytes, digest_canonical, digest_text
from traceforge.context.model.objects import EventType, Role

_ROLES: dict[EventType, Role] = {
    EventType.USER_MESSAGE: "user",
    EventType.ASSISTANT_MESSAGE: "assistant",
    EventType.TOOL_RESULT: "tool",
    EventType.RETRIEVAL_RESULT: "user",
    EventType.CHECKPOINT: "user",
    EventType.NOTE: "user",
}
_JSON = "+json"
_BINARY = "+binary"


class BlockSource(NamedTuple):
    """One block before it has a place."""

    block_id: str
    role: str
    kind: str
    content_digest: str

    @property
    def is_retrieved(self) -> bool:
        """Is this an event that brought what was retrieved? A chunk in a bundle is not: a bundle fixes its order."""
        return type_of(self.kind) == EventType.RETRIEVAL_RESULT


def event_role(event_type: EventType) -> Role:
    """As whom an event speaks."""
    return _ROLES[event_type]


def kind_of(type_name: str, content: JSON | bytes) -> str:
    """The kind of a block: its type, and behind it what the content is where that is no text.

    So a text never has the name of a value that is written the same.
    """
    if isinstance(content, bytes):
        return type_name + _BINARY
    return str(type_name) if isinstance(content, str) else type_name + _JSON  # A plain text, also of an enum.


def type_of(kind: str) -> str:
    """The type of the artifact or event, without what its content is."""
    return kind.partition("+")[0]


def content_digest(content: JSON | bytes) -> Digest:
    """The digest of a text's UTF-8, of a value's canonical text, or of bytes as they are."""
    if isinstance(content, bytes):
        return digest_bytes(content)
    return digest_text(content) if isinstance(content, str) else digest_canonical(content)


def event_source(block_id: str, event_type: EventType, content: JSON | bytes) -> BlockSource:
    """The block that an event becomes; `content` is the artifact's where the event refers to one."""
    return BlockSource(block_id, event_role(event_type), kind_of(event_type, content), content_digest(content))
