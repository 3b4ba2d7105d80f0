"""Exchanges to record, written by hand or taken from the corpus, and readers for the traces they become."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from support.corpus_traffic import _ADDRESSES, Interaction
from support.wire_transcripts import CHAT
from traceforge.canon import JSON, JSONObject, parse_exact_json
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor
from traceforge.traces.body_reader import write_body
from traceforge.traces.chunk_file import read_chunks
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_format import read_trace
from traceforge.traces.trace_summary import StoredTrace

HOST = "http://127.0.0.1:8000"  # Where tests have a server, it is at another port: for a request key the same place.
STARTED = "2026-11-15T12:00:00.000Z"
JSON_TYPE = "application/json"
REDACTOR = Redactor()
COMPOSER = TraceComposer(REDACTOR)


def trace_id(number: int) -> str:
    """A UUID whose first digits are the number."""
    return str(uuid.UUID(int=(number << 96) | number))


def spread_id(number: int) -> str:
    """A UUID whose first digits look random."""
    return str(uuid.UUID(int=((number * 0x9E3779B1 & 0xFFFFFFFF) << 96) | number))


def timestamp(number: int) -> str:
    """The time this many seconds after STARTED, within half a day."""
    number %= 12 * 3600
    return f"2026-11-15T{12 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"


def make_exchange(
    address: str = CHAT,
    request: object = b"",
    answer: object = b"",
    *,
    number: int = 0,
    status: int = 200,
    media_type: str = JSON_TYPE,
    request_media_type: str = JSON_TYPE,
    encoding: str = "",
    cuts: Iterable[int] = (),
    outcome: CallOutcome = CallOutcome.ANSWERED,
    error: str = "",
    caller: Caller = Caller(),  # noqa: B008 (frozen)
    headers: Sequence[tuple[str, str]] = (),
    started_at: str = "",
) -> Exchange:
    """One exchange. Bodies are bytes or JSON values; the response body is cut into chunks at `cuts`."""
    body = _bytes(answer)
    borders = sorted({0, len(body), *(cut for cut in cuts if 0 < cut < len(body))})
    pieces = [body[first:second] for first, second in pairwise(borders)]
    return Exchange(
        trace_id(number),
        started_at or timestamp(number),
        "POST",
        address if "://" in address else HOST + address,
        (("Content-Type", request_media_type), ("Authorization", "Bearer nothing"), *headers),
        _bytes(request),
        status,
        (("Content-Type", media_type), *((("Content-Encoding", encoding),) if encoding else ())),
        tuple(Chunk(1.5 + place, piece) for place, piece in enumerate(pieces)),
        12.25,
        outcome,
        error,
        caller,
    )


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def chat_answer(content: str, **more: Any) -> dict[str, Any]:
    """A chat completion in OpenAI's format."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
        "choices": [choice], "usage": usage, **more,
    }  # fmt: skip


def chat_request(content: str, **more: Any) -> dict[str, Any]:
    """A chat request with one user message."""
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], **more}


def plain_trace(number: int, text: str = "hello", **fields: Any) -> StoredTrace:
    """The stored trace of a small call."""
    exchange = make_exchange(CHAT, chat_request(text), chat_answer(f"answer {number}"), number=number, **fields)
    return COMPOSER.compose(exchange)


def streamed_trace(number: int, *texts: str, **fields: Any) -> StoredTrace:
    """The stored trace of a small streamed call."""
    events = [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini",
         "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]}
        for text in texts or ("Hel", "lo")
    ]  # fmt: skip
    events.append({**events[0], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    cuts = range(40, len(body), 97)
    request = chat_request("hi", stream=True)
    return COMPOSER.compose(
        make_exchange(CHAT, request, body, number=number, media_type="text/event-stream", cuts=cuts, **fields)
    )


def corpus_exchange(interaction: Interaction, number: int = 0) -> Exchange:
    """A call of the corpus as an exchange."""
    address = _ADDRESSES.get(interaction.label, "/v1/other")
    return Exchange(
        trace_id(number),
        STARTED,
        interaction.method,
        HOST + address,
        (("Content-Type", JSON_TYPE),),
        interaction.request,
        interaction.status,
        (("Content-Type", interaction.media_type), ("X-Request-Id", f"req_{number}")),
        tuple(_chunks(interaction)),
        12.5,
    )


def recorded_exchange(interaction: Interaction, number: int = 0) -> Exchange:
    """A call of the corpus with its recorded URL and request headers."""
    url = interaction.url if "://" in interaction.url else HOST + interaction.url
    return msgspec.structs.replace(
        corpus_exchange(interaction, number), url=url, request_headers=interaction.request_headers
    )


def local_url(url: str) -> str:
    """The same path at a server of this machine."""
    return f"{HOST}/{url.partition('://')[2].partition('/')[2]}"


def _chunks(interaction: Interaction) -> Iterable[Chunk]:
    if not interaction.streaming or not interaction.chunk_sizes:
        yield Chunk(1.0, interaction.body)
        return
    place = 0
    for size in interaction.chunk_sizes:
        yield Chunk(1.0, interaction.body[place : place + size])
        place += size
    if place < len(interaction.body):
        yield Chunk(2.0, interaction.body[place:])


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object."""
    value = parse_exact_json(data)
    assert isinstance(value, dict)
    return value


def response_bytes(stored: StoredTrace) -> bytes:
    """The stored bytes of the response: chunks, the value in its layout, or the text."""
    body = parse_object(stored.trace)
    if stored.chunks:
        return b"".join(chunk.data for chunk in read_chunks(stored.chunks))
    wire = body["wire"]
    if "response_layout" in wire:
        return write_body(body["provider_response"], wire["response_layout"])
    value = body["provider_response"]
    if "response_text" in wire:
        return str(wire["response_text"]).encode("utf-8", "surrogatepass")
    return str(value).encode() if isinstance(value, str) else b""


def fill_markers(stored: StoredTrace, request: Mapping[str, JSON]) -> bytes:
    """The original response: each marker that refers to the request is replaced by the request's value."""
    body = parse_object(stored.trace)
    log = REDACTOR.redact_json(dict(request)).log
    pieces = response_bytes(stored).split(REDACTED.encode())
    filled = [pieces[0]]
    echoes = {echo["marker"]: echo for echo in body["redacted"]["echoes"]}
    for ordinal, piece in enumerate(pieces[1:]):
        echo = echoes.get(ordinal)
        secrets = [item.reveal() for item in log if echo and item.path == echo["path"]]
        filled += [secrets[echo["nth"]].encode() if echo else REDACTED.encode(), piece]
    return b"".join(filled)


def list_files(folder: Path) -> list[Path]:
    return sorted(Path(root) / name for root, _, names in os.walk(folder) for name in names)


def as_object(value: JSON) -> JSONObject:
    assert isinstance(value, dict)
    return value


def trace_body(stored: StoredTrace) -> dict[str, Any]:
    return read_trace(stored.trace).body
