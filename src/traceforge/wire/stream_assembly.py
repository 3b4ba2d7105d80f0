"""What the stream assemblers of all dialects share.

In: parsed events, one at a time. Out: the body that the provider would have sent without streaming, as far as it
arrived. Never: I/O, or an exception for an unknown event: it is counted, and the caller keeps the raw bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import NewType

from traceforge.canon import JSON, JSONObject, ecmascript_bytes

DONE_DATA = b"[DONE]"  # the last event of OpenAI's streams, and of many compatible servers

StreamFrame = NewType("StreamFrame", bytes)  # one event as it goes over the wire


class StreamAssembler(ABC):
    """An answer that is being put together."""

    def __init__(self) -> None:
        self.body: JSONObject = {}
        self.is_complete = False  # the final event has come
        self.has_failed = False  # an event reported an error
        self.unknown_events: Counter[str] = Counter()

    @abstractmethod
    def add_event(self, event: JSONObject, name: str = "") -> None:
        """Take one event; `name` is its SSE name."""

    @abstractmethod
    def finish(self) -> JSONObject:
        """The stream has ended: the body, as far as it came."""

    def add_done(self) -> None:  # noqa: B027 (most dialects have a final event of their own)
        """The stream ended with `[DONE]`."""

    def add_error(self, error: JSON) -> None:
        """The provider reports an error inside the stream."""
        self.has_failed = True
        self.body["error"] = error

    def count_unknown(self, kind: str) -> None:
        """Count something that was not known."""
        self.unknown_events[kind] += 1


def sse_frame(value: JSONObject, name: str = "") -> StreamFrame:
    """The bytes of a server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return StreamFrame(head + b"data: " + ecmascript_bytes(value) + b"\n\n")


def line_frame(value: JSONObject) -> StreamFrame:
    """The bytes of a line of NDJSON."""
    return StreamFrame(ecmascript_bytes(value) + b"\n")


def append_item(before: JSON, item: JSON) -> JSON:
    """Add an item to a list, in place; to what is none, a list of its own."""
    if not isinstance(before, list):
        return [item]
    before.append(item)
    return before


def append_delta(before: JSON, more: JSON) -> JSON:
    """Add a delta: strings and lists grow, objects merge, anything else is replaced; null adds nothing.

    A list grows in place, so that a stream of many items takes no work for those that came before.
    """
    if more is None:
        return before
    if isinstance(before, str) and isinstance(more, str):
        return before + more
    if isinstance(before, list) and isinstance(more, list):
        before.extend(more)
        return before
    if isinstance(before, dict) and isinstance(more, dict):
        return {**before, **more}
    return more
