"""A stream decoded and assembled, against `json.loads` of its frames; and the coverage of the corpus."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import Row, measure
from traceforge.wire.endpoints import Endpoint, find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

GOAL = 3.0  # times the CPU time of reading the same JSON
CHUNKS = 100
WORDS = ["The ", "capital ", "of ", "France ", "is ", "Paris", ", ", "naïve ", "— ", "and "]


def chat() -> list[dict[str, Any]]:
    """An OpenAI chat stream: 100 chunks with text, one with the finish reason, one with the usage."""
    head = {
        "id": "chatcmpl-BxkWm1Yt2hQ9", "object": "chat.completion.chunk", "created": 1752000000,
        "model": "gpt-4o-2024-08-06", "service_tier": "default", "system_fingerprint": "fp_07871e2ad8",
    }  # fmt: skip
    texts = [
        {**head, "choices": [{"index": 0, "delta": {"content": word}, "logprobs": None, "finish_reason": None}],
         "usage": None, "obfuscation": "kTzQ8"}
        for word in _words()
    ]  # fmt: skip
    end = {**head, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}], "usage": None}
    usage = {"prompt_tokens": 14, "completion_tokens": 100, "total_tokens": 114}
    return [*texts, end, {**head, "choices": [], "usage": usage}]


def responses() -> list[dict[str, Any]]:
    """OpenAI Responses: named events with numbers."""
    item = {"id": "msg_68", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(_words())}
    completed_item = {**item, "status": "completed", "content": [part]}
    body = {"id": "resp_68", "object": "response", "created_at": 1752000000, "model": "gpt-5", "output": []}
    place = {"item_id": "msg_68", "output_index": 0, "content_index": 0}
    events = [
        {"type": "response.created", "response": {**body, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in _words()),
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": completed_item},
        {"type": "response.completed", "response": {**body, "status": "completed", "output": [completed_item]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def messages() -> list[dict[str, Any]]:
    """Anthropic messages."""
    usage = {"input_tokens": 14, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    head = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    return [
        {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in _words()
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 100}},
        {"type": "message_stop"},
    ]


def gemini() -> list[dict[str, Any]]:
    """Gemini: every chunk is a complete answer."""
    return [
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": word}], "role": "model"},
                    "index": 0,
                    **({"finishReason": "STOP"} if number == CHUNKS - 1 else {}),
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 14,
                "candidatesTokenCount": number,
                "totalTokenCount": 14 + number,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 14}],
            },
            "modelVersion": "gemini-2.5-flash",
            "responseId": "YSewaNSeEt3skdUP",
        }
        for number, word in enumerate(_words())
    ]


def ollama() -> list[dict[str, Any]]:
    """Ollama's lines."""
    head = {"model": "llama3.2", "created_at": "2025-07-08T12:00:00.000000Z"}
    last = {"done_reason": "stop", "done": True, "total_duration": 5, "prompt_eval_count": 14, "eval_count": 100}
    return [
        *({**head, "message": {"role": "assistant", "content": word}, "done": False} for word in _words()),
        {**head, "message": {"role": "assistant", "content": ""}, **last},
    ]


def _words() -> list[str]:
    return [WORDS[number % len(WORDS)] for number in range(CHUNKS)]


def events_of(values: list[dict[str, Any]]) -> bytes:
    """Server-sent events, named where they have a type."""
    return b"".join(
        (f"event: {value['type']}\n" if "type" in value else "").encode() + b"data: " + _json(value) + b"\n\n"
        for value in values
    )


def lines_of(values: list[dict[str, Any]]) -> bytes:
    """One value a line."""
    return b"".join(_json(value) + b"\n" for value in values)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


StreamFactory = Callable[[], list[dict[str, Any]]]
STREAMS: list[tuple[str, str, StreamFactory, Callable[[list[dict[str, Any]]], bytes], str]] = [
    ("openai chat", "/v1/chat/completions", chat, events_of, "text/event-stream"),
    ("openai responses", "/v1/responses", responses, events_of, "text/event-stream"),
    ("anthropic messages", "/v1/messages", messages, events_of, "text/event-stream"),
    ("gemini, events", "/v1beta/models/g:streamGenerateContent", gemini, events_of, "text/event-stream"),
    ("gemini, array", "/v1beta/models/g:streamGenerateContent", gemini, _json, "application/json"),
    ("ollama chat", "/api/chat", ollama, lines_of, "application/x-ndjson"),
]


def rows() -> Iterator[Row]:
    """A ratio for a synthetic stream of every dialect and for the corpus's streams; the coverage of the corpus."""
    for name, address, make, divide, media_type in STREAMS:
        values = make()
        endpoint = find_endpoint("POST", address)
        yield compare(
            f"{name}, {CHUNKS} chunks", [(endpoint, media_type, divide(values), [_json(v) for v in values])], 60
        )
    yield from _corpus_rows()


Stream = tuple[Endpoint, str, bytes, list[bytes]]


def compare(title: str, streams: list[Stream], loops: int) -> Row:
    """CPU time of decode and assemble, against `json.loads` of the frames alone."""
    for endpoint, media_type, body, _ in streams:
        assert read_response(endpoint, 200, media_type, body).ending is ResponseEnding.COMPLETE, title

    def ours() -> None:
        for endpoint, media_type, body, _ in streams:
            read_response(endpoint, 200, media_type, body)

    def peer() -> None:
        for *_, frames in streams:
            for frame in frames:
                json.loads(frame)

    mine, theirs = measure(ours, peer, 15, loops, time.process_time)
    cost = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    result = f"{cost:.2f}x the CPU time, goal {GOAL:g}x"
    return Row(title, min(mine), min(theirs), "json.loads of the frames", 1 / cost, result, cost <= GOAL)


def _corpus_rows() -> Iterator[Row]:
    from support.corpus import shared_path
    from support.corpus_traffic import coverage, interactions, judge
    from support.extractor import split

    folder = shared_path("corpus/llm")
    if not folder.exists():
        print(f"  the corpus is absent: {folder}; no coverage and no recorded streams")
        return
    traffic = interactions(folder)
    streams: dict[str, list[Stream]] = {}
    for interaction in traffic:
        if (
            interaction.generates
            and interaction.streaming
            and interaction.read().ending is ResponseEnding.COMPLETE
            and len(interaction.body) > 20_000
        ):
            frames = [_json(value) for value in split(interaction.body)[1]]
            streams.setdefault(str(interaction.endpoint.dialect), []).append(
                (interaction.endpoint, interaction.media_type, interaction.body, frames)
            )
    for dialect, bodies in sorted(streams.items()):
        yield compare(f"{dialect}: {len(bodies[:40])} long recorded streams", bodies[:40], 1)
    print("\n" + coverage(judge(interaction) for interaction in traffic if interaction.generates) + "\n")
