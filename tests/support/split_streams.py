"""Streams in which a text begins, continues and is repeated at every place where a provider may put it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

Events = list[dict[str, Any]]


def sse(events: Sequence[Any]) -> bytes:
    """Events as a provider sends them."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def lines(events: Sequence[Any]) -> bytes:
    """A document a line, as Ollama sends them."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def _block(kind: str, field: str, delta: str, delta_field: str) -> Callable[[str, str], Events]:
    def build(first: str, rest: str) -> Events:
        start = {"type": "content_block_start", "index": 0, "content_block": {"type": kind, field: first}}
        return [
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
            start,
            {"type": "content_block_delta", "index": 0, "delta": {"type": delta, delta_field: rest}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_stop"},
        ]

    return build


def _message_start(first: str, rest: str) -> Events:
    content = [{"type": "text", "text": first}]
    return [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": content}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": rest}},
        {"type": "message_stop"},
    ]


def _two_blocks(first: str, rest: str) -> Events:
    return [
        event
        for index, text in enumerate((first, rest))
        for event in (
            {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": index},
        )
    ]


def _item(
    item: dict[str, Any], kind: str, delta: dict[str, Any], done: dict[str, Any]
) -> Callable[[str, str], Events]:
    """An item of the Responses API that begins in `output_item.added`, goes on in a delta, and is repeated."""

    def build(first: str, rest: str) -> Events:
        return [
            {"type": "response.created", "response": {"id": "r", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": _fill(item, first)},
            {"type": f"{kind}.delta", "item_id": "i", "output_index": 0, **_fill(delta, rest)},
            {"type": f"{kind}.done", "item_id": "i", "output_index": 0, **_fill(done, first + rest)},
            {"type": "response.output_item.done", "output_index": 0, "item": _fill(item, first + rest)},
            {"type": "response.completed", "response": {"id": "r", "output": [_fill(item, first + rest)]}},
        ]

    return build


def _fill(value: Any, text: str) -> Any:
    return json.loads(json.dumps(value).replace("%", json.dumps(text)[1:-1]))


def _content_part(first: str, rest: str) -> Events:
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    item = {"id": "i", "type": "message", "role": "assistant", "content": []}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": {"type": "output_text", "text": first}},
        {"type": "response.output_text.delta", **place, "delta": rest},
    ]


def _response_created(first: str, rest: str) -> Events:
    item = {"id": "i", "type": "message", "content": [{"type": "output_text", "text": first}]}
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "response": {"id": "r", "output": [item]}},
        {"type": "response.output_text.delta", **place, "delta": rest},
    ]


def _chat(*deltas: dict[str, Any]) -> Events:
    return [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]


def _gemini(*parts: dict[str, Any]) -> Events:
    return [{"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]} for part in parts]


_MESSAGE = {"id": "i", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "%"}]}
_REASONING = {"id": "i", "type": "reasoning", "summary": [{"type": "summary_text", "text": "%"}]}
_CALL = {"id": "i", "type": "function_call", "call_id": "c", "name": "f", "arguments": "%"}
_CUSTOM = {"id": "i", "type": "custom_tool_call", "call_id": "c", "name": "f", "input": "%"}
_CODE = {"id": "i", "type": "code_interpreter_call", "code": "%"}

ANTHROPIC = {
    "text block": _block("text", "text", "text_delta", "text"),
    "thinking block": _block("thinking", "thinking", "thinking_delta", "thinking"),
    "tool block": _block("tool_use", "input", "input_json_delta", "partial_json"),
    "unknown block": _block("poem", "verse", "verse_delta", "verse"),
    "message start": _message_start,
    "two text blocks": _two_blocks,
}
RESPONSES = {
    "item": _item(
        _MESSAGE, "response.output_text", {"content_index": 0, "delta": "%"}, {"content_index": 0, "text": "%"}
    ),
    "summary": _item(
        _REASONING,
        "response.reasoning_summary_text",
        {"summary_index": 0, "delta": "%"},
        {"summary_index": 0, "text": "%"},
    ),
    "arguments": _item(_CALL, "response.function_call_arguments", {"delta": "%"}, {"arguments": "%"}),
    "custom input": _item(_CUSTOM, "response.custom_tool_call_input", {"delta": "%"}, {"input": "%"}),
    "code": _item(_CODE, "response.code_interpreter_call_code", {"delta": "%"}, {"code": "%"}),
    "content part": _content_part,
    "created": _response_created,
}
CHAT = {
    "content": lambda a, b: _chat({"role": "assistant", "content": a}, {"content": b}),
    "content, then parts": lambda a, b: _chat({"content": a}, {"content": [{"type": "text", "text": b}]}),
    "parts": lambda a, b: _chat(*({"content": [{"type": "text", "text": text}]} for text in (a, b))),
    "unknown member": lambda a, b: _chat({"poem": a}, {"poem": b}),
    "tool arguments": lambda a, b: _chat(
        {"tool_calls": [{"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": a}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": b}}]},
    ),
    "function call": lambda a, b: _chat(
        {"function_call": {"name": "f", "arguments": a}}, {"function_call": {"arguments": b}}
    ),
    "halves of a character": lambda a, b: _chat({"content": "\ud83d"}, {"content": "\ude00 " + a}, {"content": b}),
}
GEMINI = {
    "parts": lambda a, b: _gemini({"text": a}, {"text": b}),
    "two parts": lambda a, b: [{"candidates": [{"content": {"parts": [{"text": a}, {"text": b}]}}]}],
    "thoughts": lambda a, b: _gemini({"text": a, "thought": True}, {"text": b, "thought": True}),
    "text around a thought": lambda a, b: _gemini({"text": a}, {"text": "hm", "thought": True}, {"text": b}),
}
OLLAMA = {
    "message": lambda a, b: [{"message": {"role": "assistant", "content": text}, "done": False} for text in (a, b)],
    "response": lambda a, b: [{"response": text, "done": False} for text in (a, b)],
    "thinking": lambda a, b: [{"message": {"thinking": text}, "done": False} for text in (a, b)],
}
