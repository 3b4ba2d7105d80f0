"""Streams of an endpoint that no dialect knows.

In: the chunks of a response, and what its headers say. Out: whether it was a stream, and whether it says itself that
it is complete. Never: understands its events: their chunks are kept, and their text.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceforge.canon import try_parse_json
from traceforge.http.event_stream import EventStreamParser
from traceforge.wire.dialect_declaration import BodyFraming
from traceforge.wire.stream_assembly import DONE_DATA

EVENT_STREAM_TYPE = "text/event-stream"


def is_unknown_stream(
    framing: BodyFraming, media_type: str, chunks: Sequence[bytes], *, has_length: bool, is_left: bool
) -> bool:
    """Whether a response was a stream: server-sent events with their content type, or chunks without a known end.

    A response with a length is not, although the network divides it; neither is a JSON document, even one that was
    cut off. `is_left`: the client did not wait for its end, so more chunks would have come.
    """
    label = media_type.partition(";")[0].strip().lower()
    if framing is BodyFraming.SSE and label == EVENT_STREAM_TYPE:
        return True
    if has_length:
        return False
    if framing is not BodyFraming.WHOLE:
        return True
    return sum(map(bool, chunks)) + is_left > 1 and not _is_document(label, b"".join(chunks))


def _is_document(label: str, data: bytes) -> bool:
    if not data.lstrip().startswith((b"{", b"[")):
        return False
    is_labelled = label == "application/json" or label.endswith("+json")
    return (is_labelled and b"}\n{" not in data) or try_parse_json(data) is not None


def ends_with_done(data: bytes) -> bool:
    """Whether the last event is `[DONE]`, which ends the streams of many servers."""
    if DONE_DATA not in data[-64:]:
        return False
    parser = EventStreamParser()
    events = [*parser.feed(data), *parser.finish()]
    return bool(events) and events[-1].data.strip() == DONE_DATA
