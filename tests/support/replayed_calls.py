"""Recorded calls, and a proxy that replays them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from support.exchanges import chat_request, make_exchange
from support.raw_sockets import Proxy, Upstream
from support.replay_player import make_player
from support.wire_transcripts import CHAT, SSE, sse
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.exchange import Chunk, Exchange
from traceforge.replay.player import Player

QUESTION = json.dumps(chat_request("hello")).encode()
EVENTS = [
    sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
         "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})
    for text in ("Hel", "lo", "!")
] + [b"data: [DONE]\n\n"]  # fmt: skip


def recorded_call(answer: object, **more: Any) -> Exchange:
    """A recorded call with one question, without a media type, as the requests of these tests."""
    return make_exchange(CHAT, QUESTION, answer, request_media_type="", **more)


def streamed(pieces: list[bytes] = EVENTS, times: list[float] | None = None, **more: Any) -> Exchange:
    """One whose answer is a stream in these pieces."""
    exchange = recorded_call(b"".join(pieces), media_type=SSE, **more)
    chunks = tuple(Chunk(time, data) for time, data in zip(times or [1.0] * len(pieces), pieces, strict=True))
    return msgspec.structs.replace(exchange, chunks=chunks)


@contextmanager
def replaying(
    folder: Path, *exchanges: Exchange, loop: str = "uvloop", auto: bool = False, pace: float = 0.0
) -> Iterator[tuple[Upstream, Proxy, Player]]:
    """A proxy that replays, and an upstream that should get no call."""
    player = make_player(folder, *exchanges)
    upstream = Upstream()
    replay = ReplayResponder(player, pace, auto)
    proxy = Proxy({"up": upstream.url}, loop=loop, replay=replay, sink=None if auto else False)
    try:
        yield upstream, proxy, player
        assert auto or upstream.has_no_other_connection()
    finally:
        proxy.stop()
        upstream.close()
