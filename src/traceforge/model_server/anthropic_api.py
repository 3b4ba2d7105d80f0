"""Anthropic: messages, plain and as named events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceforge.model_server.generated_answer import Asked, Ending, Heard, Said, Tool, answer
from traceforge.model_server.provider_io import Reply, Request, events, plain, text_of

FINISH = {Ending.STOP: "end_turn", Ending.LENGTH: "max_tokens", Ending.TOOL: "tool_use"}


def messages(request: Request) -> Reply:
    """`POST /v1/messages`."""
    body = request.body
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    asked = Asked(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        [Heard("system", text_of(body.get("system") or "")), *_heard(body.get("messages") or [])],
        [Tool(one["name"], one["input_schema"]) for one in body.get("tools") or [] if "input_schema" in one],
        _choice(body.get("tool_choice") or {}),
        wanted.get("schema"),
        body.get("max_tokens"),
    )
    said = answer(asked)
    whole = {
        "id": said.name("msg_"), "type": "message", "role": "assistant", "model": asked.model,
        "content": _blocks(said), "stop_reason": FINISH[said.ending], "stop_sequence": None, "usage": _usage(said),
    }  # fmt: skip
    return events(_events(whole, said), named=True) if body.get("stream") else plain(whole)


def _choice(value: dict[str, Any]) -> str:
    return str(value["name"] if value.get("type") == "tool" else value.get("type", "auto"))


def _heard(turns: list[dict[str, Any]]) -> Iterator[Heard]:
    for turn in turns:
        content = turn.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_use":
                yield Heard("call", block["name"])
            elif block["type"] == "tool_result":
                yield Heard("result", text_of(block.get("content") or ""))
            elif block["type"] == "text":
                yield Heard("user" if turn.get("role") == "user" else "assistant", block["text"])


def _blocks(said: Said) -> list[dict[str, Any]]:
    text = {"type": "text", "text": said.text}
    if not said.call:
        return [text]
    return [
        text,
        {"type": "tool_use", "id": said.name("toolu_"), "name": said.call.name, "input": said.call.arguments},
    ]


def _usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": said.tokens_in, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": said.tokens_out, "service_tier": "standard",
    }  # fmt: skip


def _events(whole: dict[str, Any], said: Said) -> Iterator[dict[str, Any]]:
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        if index == 0:
            yield {"type": "ping"}
        for delta in _deltas(block, said):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": said.tokens_out}}
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any], said: Said) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in said.pieces())
    else:
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in said.argument_pieces())
