"""The server-sent events of a streamed response of `/v2`.

Never: a time or anything else that differs between two encodings: a repeated request gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from traceforge.context.model.objects import Response
from traceforge.conversion import encode_json


def created_event(running: Response) -> bytes:
    return encode_event("response.created", encode_json(running))


def delta_event(text: str) -> bytes:
    return encode_event("response.text.delta", encode_json({"delta": text}))


def final_event(final: Response) -> bytes:
    return encode_event(f"response.{final.status.value}", encode_json(final))


def encode_stream(running: Response, texts: Iterable[str], final: Response) -> bytes:
    """Encode all events of a response, from created to its end."""
    return b"".join((created_event(running), *map(delta_event, texts), final_event(final)))


def encode_event(name: str, data: bytes) -> bytes:
    """One event; its data has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
