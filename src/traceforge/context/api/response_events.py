"""A streamed response of `/v2`, as server-sent events.

In: a response as it begins, its texts, and as it ends. Out: events, each as its bytes. Never: the clock, or anything
else that would make the same response another stream: who asks again gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from traceforge.context.model.objects import Response
from traceforge.conversion import encode_json


def created_event(running: Response) -> bytes:
    """It has begun."""
    return encode_event("response.created", encode_json(running))


def delta_event(text: str) -> bytes:
    """A piece of its text."""
    return encode_event("response.text.delta", encode_json({"delta": text}))


def final_event(final: Response) -> bytes:
    """It is final."""
    return encode_event(f"response.{final.status.value}", encode_json(final))


def encode_stream(running: Response, texts: Iterable[str], final: Response) -> bytes:
    """All of it."""
    return b"".join((created_event(running), *map(delta_event, texts), final_event(final)))


def encode_event(name: str, data: bytes) -> bytes:
    """One event; its data has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
