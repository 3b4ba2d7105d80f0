"""How many levels of JSON text a marker is nested in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.json_texts import fuzz
from support.wire_transcripts import ndjson, sse
from traceforge.canon import json_bytes
from traceforge.redact.redactions import REDACTED as R
from traceforge.replay.echoes import escape_for_depth, find_marker_depths

ARGUMENTS = json.dumps({"to": R, "cc": [R], R: 1})


@pytest.mark.parametrize(
    ("data", "depths"),
    [
        (f"plain {R}, {R}".encode(), [0, 0]),
        (b"nothing", []),
        (json.dumps({"a": R, "b": [f"x {R} {R}"], R: {"c": R}}).encode(), [1, 1, 1, 1, 1]),
        (json.dumps({"arguments": ARGUMENTS, "content": R}).encode(), [2, 2, 2, 1]),
        (json.dumps([json.dumps({"x": ARGUMENTS})]).encode(), [3, 3, 3]),
        (json.dumps({"content": f'{R} said "{R}" to {{'}).encode(), [1, 1]),
        (json.dumps({"content": "{" + R}).encode(), [1]),
        (f'{{"a": "{R}", "a": "{R}"}}'.encode(), [1, 1]),
        (f'{{"a": "{R}"'.encode(), [1]),
        (sse({"delta": {"content": R}}, R, {"x": ARGUMENTS}, with_done=True), [1, 0, 2, 2, 2]),
        (ndjson({"message": {"content": R}}, {"message": {"tool": ARGUMENTS}}), [1, 2, 2, 2]),
    ],
)  # fmt: skip
def test_a_marker_is_as_deep_as_the_strings_around_it(data: bytes, depths: list[int]) -> None:
    """In text, in documents, in documents that are texts, and in streams of them."""
    assert depths == find_marker_depths(data)


@pytest.mark.parametrize("size", [1, 3, 7, 40])
def test_arguments_in_several_events_are_parsed_as_a_whole(size: int) -> None:
    """No piece of them is JSON."""
    text = ARGUMENTS.replace(R, "§")
    pieces = [text[place : place + size].replace("§", R) for place in range(0, len(text), size)]
    openai: list[Any] = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]}
        for piece in pieces
    ]
    anthropic: list[Any] = [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in pieces
    ]
    prose = [{"choices": [{"index": 0, "delta": {"content": f'say "{R}" '}}]} for _ in pieces]

    assert [2, 2, 2] == find_marker_depths(sse(*openai, with_done=True))
    assert [2, 2, 2] == find_marker_depths(sse(*anthropic))
    assert [1] * len(pieces) == find_marker_depths(sse(*prose))


def test_text_in_a_streamed_array_is_parsed_as_a_whole() -> None:
    """Gemini answers in JSON, an element a piece."""
    pieces = ['{"to": "', R, '"}']
    elements = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]

    assert [2] == find_marker_depths(json.dumps(elements).encode())


@fuzz(200)
@given(
    st.recursive(
        st.one_of(st.just(R), st.text(max_size=4), st.integers(0, 9)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
            inner.map(lambda value: json_bytes(value).decode() if isinstance(value, list | dict) else value),
        ),
        max_leaves=8,
    ),
    st.text(max_size=6),
)
@example(R, "{}")
def test_a_value_refilled_at_any_depth_reads_as_the_value(document: Any, value: str) -> None:
    """Refilled at its depth, every marker reads as the value, through all layers."""
    value = value.encode("utf-8", "replace").decode()
    data = json_bytes([document])

    depths = find_marker_depths(data)
    pieces = data.split(R.encode())
    filled = pieces[0] + b"".join(
        escape_for_depth(value, depth) + piece for depth, piece in zip(depths, pieces[1:], strict=True)
    )

    assert _unwrapped([document], value) == _unwrapped(json.loads(filled), value)


def _unwrapped(value: Any, refilled: str) -> Any:
    """The value with JSON texts read, and markers replaced; a refilled value that is JSON text itself is not read."""
    if isinstance(value, dict):
        return {key.replace(R, refilled): _unwrapped(child, refilled) for key, child in value.items()}
    if isinstance(value, list):
        return [_unwrapped(child, refilled) for child in value]
    if isinstance(value, str) and value[:1] in ("[", "{") and value not in (R, refilled):
        try:
            return _unwrapped(json.loads(value), refilled)
        except ValueError:
            pass
    return value.replace(R, refilled) if isinstance(value, str) else value
