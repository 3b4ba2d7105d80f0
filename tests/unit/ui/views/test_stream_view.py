"""A stream as frames: the text of each chunk, in the words of every provider."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.canon import json_bytes
from traceforge.exchange import Chunk
from traceforge.ui.views import stream_view
from traceforge.ui.views.stream_view import event_text, summarize_gaps, view_stream


def sse(*events: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % json_bytes(event) for event in events)


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (delta("a"), "a"),
        ({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{"}}]}}]}, "{"),
        ({"choices": [{"delta": {"reasoning_content": "r"}}]}, "r"),
        ({"choices": [{"text": "t"}]}, "t"),
        ({"type": "response.output_text.delta", "delta": "b"}, "b"),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "c"}}, "c"),
        ({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}}, "{}"),
        ({"candidates": [{"content": {"parts": [{"text": "d"}, {"text": "e"}]}}]}, "de"),
        ({"message": {"role": "assistant", "content": "f"}}, "f"),
        ({"response": "g", "done": False}, "g"),
        ({"choices": 3, "delta": [], "message": "x", "candidates": {}}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_an_event_adds_its_text(event: Any, text: str) -> None:
    """What is not of its type adds nothing."""
    assert text == event_text(event)


def test_a_frame_has_the_text_that_its_chunk_completes() -> None:
    """An event that is divided between chunks belongs to the chunk that ends it."""
    data = sse(delta("Hello"), delta(" world"))
    chunks = [Chunk(1.0, data[:20]), Chunk(5.0, data[20:-3]), Chunk(9.0, data[-3:])]
    view = view_stream(chunks)

    assert ([1.0, 5.0, 9.0], ["", "Hello", " world"]) == (view.times_ms, view.texts)
    assert (3, False) == (view.chunk_count, view.is_raw)


def test_lines_of_json_are_a_stream_too() -> None:
    lines = [json_bytes({"message": {"content": word}}) + b"\n" for word in ("a", "b")]

    assert ["a", "b"] == view_stream([Chunk(float(n), line) for n, line in enumerate(lines)]).texts


def test_a_stream_without_text_is_shown_as_it_came() -> None:
    """With its hidden characters visible, and its broken ones replaced."""
    view = view_stream([Chunk(1.0, b"\xff\xfe"), Chunk(2.0, "\u202ex".encode())])

    assert (True, ["\ufffd\ufffd", "\\u202ex"]) == (view.is_raw, view.texts)


def test_very_many_chunks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and the last frame has the last time."""
    monkeypatch.setattr(stream_view, "FRAMES_MAX", 4)
    view = view_stream([Chunk(float(n), sse(delta(str(n)))) for n in range(10)])

    assert (["012", "345", "678", "9"], [2.0, 5.0, 8.0, 9.0]) == (view.texts, view.times_ms)
    assert 10 == view.chunk_count


def test_the_gaps_are_summed_up() -> None:
    gaps = summarize_gaps([5.0, 15.0, 25.0, 325.0, 335.0])

    assert gaps == (10.0, 300.0, 300.0, 4)
    assert summarize_gaps([5.0]) is None
