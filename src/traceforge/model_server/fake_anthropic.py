"""Anthropic: messages, plain and as named events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceforge.model_server.generated_answer import (
    FinishReason,
    GeneratedAnswer,
    GenerationRequest,
    OfferedTool,
    PromptItem,
    generate_answer,
)
from traceforge.model_server.provider_io import (
    ApiReply,
    ApiRequest,
    content_text,
    event_stream_reply,
    json_reply,
)

FINISH = {FinishReason.STOP: "end_turn", FinishReason.LENGTH: "max_tokens", FinishReason.TOOL: "tool_use"}


def messages(request: ApiRequest) -> ApiReply:
    """`POST /v1/messages`."""
    body = request.body
    output_format = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    generation = GenerationRequest(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        list(_read_items(body)),
        [
            OfferedTool(tool["name"], tool["input_schema"])
            for tool in body.get("tools") or []
            if "input_schema" in tool
        ],
        _tool_choice(body.get("tool_choice") or {}),
        output_format.get("schema"),
        body.get("max_tokens"),
    )
    answer = generate_answer(generation)
    message = {
        "id": answer.make_id("msg_"), "type": "message", "role": "assistant", "model": generation.model,
        "content": _blocks(answer), "stop_reason": FINISH[answer.finish_reason], "stop_sequence": None,
        "usage": _usage(answer),
    }  # fmt: skip
    return event_stream_reply(_events(message, answer), named=True) if body.get("stream") else json_reply(message)


def _tool_choice(value: dict[str, Any]) -> str:
    return str(value["name"] if value.get("type") == "tool" else value.get("type", "auto"))


def _read_items(body: dict[str, Any]) -> Iterator[PromptItem]:
    yield PromptItem("system", content_text(body.get("system") or ""))
    for turn in body.get("messages") or []:
        content = turn.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_use":
                yield PromptItem("call", block["name"])
            elif block["type"] == "tool_result":
                yield PromptItem("result", content_text(block.get("content") or ""))
            elif block["type"] == "text":
                yield PromptItem("user" if turn.get("role") == "user" else "assistant", block["text"])


def _blocks(answer: GeneratedAnswer) -> list[dict[str, Any]]:
    text = {"type": "text", "text": answer.text}
    call = answer.tool_call
    if not call:
        return [text]
    return [text, {"type": "tool_use", "id": answer.make_id("toolu_"), "name": call.name, "input": call.arguments}]


def _usage(answer: GeneratedAnswer) -> dict[str, Any]:
    return {
        "input_tokens": answer.tokens_in, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": answer.tokens_out, "service_tier": "standard",
    }  # fmt: skip


def _events(message: dict[str, Any], answer: GeneratedAnswer) -> Iterator[dict[str, Any]]:
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        if index == 0:
            yield {"type": "ping"}
        for delta in _deltas(block, answer):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": answer.tokens_out}}
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any], answer: GeneratedAnswer) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": chunk} for chunk in answer.text_chunks())
    else:
        yield from ({"type": "input_json_delta", "partial_json": chunk} for chunk in answer.argument_chunks())
