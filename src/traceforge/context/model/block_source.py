"""The source of a block: one item of a bundle or one event, as the compiler sees it.

In: the type, the role and the content of an item or event. Out: a `BlockSource`, which has the digest of the content.
Never: an order that depends on a content.

A bundle gives each of its items a role. The role of an event follows from its type: messages of the assistant have
the role assistant, results of tools the role tool, and all others the role user. None has the role system: some
providers move system messages to the front, where a late event would change the beginning of the prompt and cost its
cache.
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
    """One block before the compiler has put it in order."""

    block_id: str
    role: str
    kind: str
    content_digest: str

    @property
    def is_retrieved(self) -> bool:
        """Whether this is a retrieval result. A chunk in a bundle is not: a bundle fixes its order."""
        return type_of(self.kind) == EventType.RETRIEVAL_RESULT


def event_role(event_type: EventType) -> Role:
    """The role of an event."""
    return _ROLES[event_type]


def kind_of(type_name: str, content: JSON | bytes) -> str:
    """The kind of a block: its type, with `+json` or `+binary` where the content is not a text.

    So a text and a JSON value that is written the same have different digests.
    """
    if isinstance(content, bytes):
        return type_name + _BINARY
    return str(type_name) if isinstance(content, str) else type_name + _JSON  # A plain text, also of an enum.


def type_of(kind: str) -> str:
    """The type of the artifact or event, without `+json` or `+binary`."""
    return kind.partition("+")[0]


def content_digest(content: JSON | bytes) -> Digest:
    """The digest of a text's UTF-8, of a value's canonical text, or of bytes as they are."""
    if isinstance(content, bytes):
        return digest_bytes(content)
    return digest_text(content) if isinstance(content, str) else digest_canonical(content)
