"""A streamed response of `/v2`, as server-sent events.

In: a response as it begins, its texts, and as it ends. Out: events, each as its bytes. Never: the clock, or anything
else that would make the same response another stream: who asks again gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from traceforge.context.api.request_decoding import answer_bytes
from traceforge.context.model.objects import Response


def created(running: Response) -> bytes:
    """It has begun."""
    return event("response.created", answer_bytes(running))


def delta(text: str) -> bytes:
    """A piece of its text."""
    return event("response.text.delta", answer_bytes({"delta": text}))


def ended(final: Response) -> bytes:
    """It is final."""
    return event(f"response.{final.status.value}", answer_bytes(final))


def stream_of(running: Response, texts: Iterable[str], final: Response) -> bytes:
    """All of it."""
    return b"".join((created(running), *map(delta, texts), ended(final)))


def event(name: str, data: bytes) -> bytes:
    """One event; its data has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
