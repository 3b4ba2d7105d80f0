"""No secret of a streamed answer reaches the disk, wherever a model divides it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from support.exchanges import COMPOSER, make_exchange
from support.fake_secrets import SECRETS
from support.split_streams import ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Events, lines, sse
from traceforge.canon import parse_json
from traceforge.exchange import Exchange
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor
from traceforge.replay.trace_recordings import response_from_trace
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_store import TraceStore
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import read_response

KEY = SECRETS["OPENAI_KEY"](Random(13))
ADDRESSES = {
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}
STREAMS: dict[str, Callable[[str, str], Events]] = {
    f"{dialect}: {place}": build
    for dialect, table in (
        ("anthropic", ANTHROPIC), ("responses", RESPONSES), ("chat", CHAT), ("gemini", GEMINI), ("ollama", OLLAMA)
    )
    for place, build in table.items()
}  # fmt: skip


def stream_exchange(place: str, events: Events, size: int = 0) -> Exchange:
    """A call whose answer is these events, cut off after `size` bytes."""
    dialect = place.partition(":")[0]
    body = lines(events) if dialect == "ollama" else sse(events)
    media_type = "application/x-ndjson" if dialect == "ollama" else "text/event-stream"
    return make_exchange(
        ADDRESSES[dialect],
        request={"model": "m", "stream": True, "messages": []},
        answer=body[:size] if size else body,
        media_type=media_type,
        cuts=range(0, len(body), 61),
    )


def assembled_text(exchange: Exchange) -> str:
    """What a recorded stream becomes when it is read again, as for a pending change."""
    stored = COMPOSER.compose(exchange)
    trace = parse_json(stored.trace)
    assert isinstance(trace, dict)
    response = response_from_trace(trace, stored.chunks)
    assert response is not None
    media_type = dict(exchange.response_headers)["Content-Type"]
    answer = read_response(find_endpoint("POST", exchange.url), 200, media_type, response.body)
    return json.dumps([answer.body, answer.unified])


@pytest.mark.parametrize("place", STREAMS)
def test_a_key_that_a_stream_divides_is_in_no_file(place: str, tmp_path: Path) -> None:
    """Neither whole nor its parts: not in the spool, a trace, a chunk, nor in what a snapshot would hold."""
    exchange = stream_exchange(place, STREAMS[place]("it is " + KEY[:14], KEY[14:] + " ok"))
    writer = SpoolWriter(str(tmp_path))
    writer.append(COMPOSER.compose(exchange))
    spooled = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    writer.seal()
    store = TraceStore(str(tmp_path))
    store.update_index()
    store.close()
    disk = spooled + b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert REDACTED.encode() in disk
    assert KEY[:14].encode() not in disk
    assert KEY[14:].encode() not in disk
    assert not Redactor().find_secrets(assembled_text(exchange))


@pytest.mark.parametrize("place", ["chat: content", "anthropic: text block", "responses: item", "ollama: message"])
def test_a_stream_that_broke_off_inside_a_key_leaves_no_part_of_it(place: str) -> None:
    events = STREAMS[place]("it is " + KEY[:14], KEY[14:] + " ok")
    body = lines(events) if place.startswith("ollama") else sse(events)
    size = body.index(KEY[14:].encode()) + 30

    stored = COMPOSER.compose(stream_exchange(place, events, size))

    assert KEY[14:40].encode() not in stored.trace + stored.chunks


def test_a_key_that_only_the_assembled_answer_shows_is_in_no_file() -> None:
    """A thought between two halves of a text: readers join the halves, so the stream is written anew."""
    parts = [{"text": "it is " + KEY[:14]}, {"text": " hm, no. ", "thought": True}, {"text": KEY[14:] + " ok"}]
    events = [{"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]} for part in parts]
    exchange = stream_exchange("gemini: ", events)

    stored = COMPOSER.compose(exchange)

    assert KEY[14:].encode() not in stored.trace + stored.chunks
    assert KEY[:14].encode() not in stored.trace + stored.chunks
    assert f"it is {REDACTED} ok" in assembled_text(exchange)
