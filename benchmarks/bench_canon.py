"""Parse, canonical text, SHA-256: against orjson with sorted keys, which is not exact, and rfc8785, which is slow."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator

import orjson
import rfc8785

from harness import Row, at_least
from traceforge.canon import canonicalize
from traceforge.snapshots.formats.snapshot_format import write_document

WORDS = """the model answers what it was asked and nothing else while a person reads every change
before it lands in production where nobody wants to find out from a customer""".split()  # noqa: SIM905 (prose)
ACCENTS = [*WORDS, "naïve", "façade", "—", "§", "über", "“quoted”"]


def documents() -> Iterator[tuple[str, bytes, float, float]]:
    """Name, text, goal against orjson, goal against rfc8785.

    With accents, decoding and encoding UTF-8 is most of the work, so no writer can be far ahead.
    """
    source = random.Random(8785)
    yield "2 KB snapshot", snapshot(source), 0.5, 5
    yield "100 KB of text", _text(conversation(source, 100_000)), 0.8, 5
    yield "100 KB of text with accents", _text(conversation(source, 100_000, ACCENTS)), 0.8, 3
    yield "100 KB of floats", _text([source.uniform(-1, 1) for _ in range(4_900)]), 0.35, 4


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def conversation(source: random.Random, size: int, words: list[str] = WORDS) -> list[dict[str, str]]:
    """Messages of ordinary prose, with line breaks and quotation marks."""
    messages = []
    while size > 0:
        text = " ".join(source.choices(words, k=100)) + '.\n\n"Quoted", said the user.'
        messages.append({"role": source.choice(["user", "assistant"]), "content": text})
        size -= len(text.encode()) + 36
    return messages


def snapshot(source: random.Random) -> bytes:
    """A snapshot document as TraceForge writes it."""
    return write_document(
        [
            {
                "id": "bench-snapshot",
                "timestamp": "2026-01-09T10:30:00Z",
                "source": {"file": "src/agents/summarizer.py", "line": 12, "function": "generate_summary"},
                "request": {
                    "model": "gpt-4-turbo",
                    "messages": conversation(source, 1_000),
                    "temperature": 0,
                    "max_tokens": 100,
                    "top_p": 1,
                    "seed": 42,
                },
                "response": {"content": "Yes.", "tokens_used": 12, "latency_ms": 450, "finish_reason": "stop"},
            }
        ]
    )


def rows() -> Iterator[Row]:
    """Every comparison."""
    for name, data, orjson_goal, rfc_goal in documents():

        def ours(data: bytes = data) -> str:
            return hashlib.sha256(canonicalize(data)).hexdigest()

        def with_orjson(data: bytes = data) -> str:
            return hashlib.sha256(orjson.dumps(orjson.loads(data), option=orjson.OPT_SORT_KEYS)).hexdigest()

        def with_rfc8785(data: bytes = data) -> str:
            return hashlib.sha256(rfc8785.dumps(json.loads(data))).hexdigest()

        assert ours() == with_rfc8785(), "the exact peer must agree"
        loops = max(1, 400_000 // len(data))
        yield at_least(name, ours, with_orjson, peer_name="orjson, not exact", goal=orjson_goal, loops=loops)
        yield at_least(
            name, ours, with_rfc8785, peer_name="rfc8785", goal=rfc_goal, rounds=7, loops=max(1, loops // 5)
        )
