"""Amazon Bedrock: Converse, plain and as the binary frames of an event stream. Signatures are not checked."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote
from zlib import crc32

from traceforge.model_server.generated_answer import (
    FinishReason,
    GeneratedAnswer,
    GenerationRequest,
    OfferedTool,
    PromptItem,
    generate_answer,
)
from traceforge.model_server.provider_io import ApiReply, ApiRequest, BadRequest, content_text, json_reply
from traceforge.model_server.request_options import check_temperature, read_count, read_stops

FRAMES_MEDIA = "application/vnd.amazon.eventstream"
TEMPERATURE_MAX = 1
FINISH = {FinishReason.STOP: "end_turn", FinishReason.LENGTH: "max_tokens", FinishReason.TOOL: "tool_use"}


def error_body(error: BadRequest) -> dict[str, Any]:
    """An error as Bedrock writes it."""
    kind = "ResourceNotFoundException" if error.status == 404 else "ValidationException"
    return {"message": str(error), "code": kind}


def converse(request: ApiRequest) -> ApiReply:
    """Answer `POST /model/ID/converse`."""
    answer = _answer(request)
    return json_reply(
        {
            "metrics": {"latencyMs": 1},
            "output": {"message": {"role": "assistant", "content": _blocks(answer)}},
            "stopReason": _stop_reason(answer),
            "usage": _usage(answer),
        }
    )


def converse_stream(request: ApiRequest) -> ApiReply:
    """Answer `POST /model/ID/converse-stream`."""
    frames = [_frame(name, value) for name, value in _events(_answer(request))]
    return ApiReply(frames, FRAMES_MEDIA, is_stream=True)


def _answer(request: ApiRequest) -> GeneratedAnswer:
    body = request.body
    inference = body.get("inferenceConfig") or {}
    check_temperature(inference.get("temperature"), TEMPERATURE_MAX)
    tools = body.get("toolConfig") or {}
    choice = "any" if {"any", "tool"} & (tools.get("toolChoice") or {}).keys() else "auto"
    return generate_answer(
        GenerationRequest(
            request.digest,
            len(request.canonical),
            unquote(request.path.split("/model/", 1)[-1].rpartition("/")[0]),
            list(_read_items(body)),
            list(_read_tools(tools)),
            choice,
            None,
            read_count(inference.get("maxTokens"), "inferenceConfig.maxTokens", None),
            read_stops(inference.get("stopSequences"), "inferenceConfig.stopSequences"),
        )
    )


def _read_tools(config: dict[str, Any]) -> Iterator[OfferedTool]:
    """The tools of the caller; where one is forced, that alone."""
    forced = ((config.get("toolChoice") or {}).get("tool") or {}).get("name")
    for tool in config.get("tools") or []:
        specification = tool.get("toolSpec")
        if specification and forced in (None, specification["name"]):
            yield OfferedTool(specification["name"], specification["inputSchema"]["json"])


def _read_items(body: dict[str, Any]) -> Iterator[PromptItem]:
    yield PromptItem("system", content_text(body.get("system") or ""))
    for turn in body["messages"]:
        for block in turn["content"]:
            if "toolUse" in block:
                yield PromptItem("call", block["toolUse"]["name"])
            elif "toolResult" in block:
                yield PromptItem("result", content_text(block["toolResult"].get("content") or ""))
            elif "text" in block:
                yield PromptItem("user" if turn.get("role") == "user" else "assistant", block["text"])


def _blocks(answer: GeneratedAnswer) -> list[dict[str, Any]]:
    call = answer.tool_call
    uses = [{"toolUse": {"toolUseId": _use_id(answer), "name": call.name, "input": call.arguments}}] if call else []
    return [{"text": answer.text}, *uses]


def _use_id(answer: GeneratedAnswer) -> str:
    return answer.make_id("tooluse_")


def _stop_reason(answer: GeneratedAnswer) -> str:
    return "stop_sequence" if answer.stop_sequence else FINISH[answer.finish_reason]


def _usage(answer: GeneratedAnswer) -> dict[str, int]:
    tokens_in, tokens_out = answer.tokens_in, answer.tokens_out
    return {"inputTokens": tokens_in, "outputTokens": tokens_out, "totalTokens": tokens_in + tokens_out}


def _events(answer: GeneratedAnswer) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "messageStart", {"role": "assistant"}
    for chunk in answer.text_chunks():
        yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": chunk}}
    yield "contentBlockStop", {"contentBlockIndex": 0}
    call = answer.tool_call
    if call:
        start = {"toolUse": {"toolUseId": _use_id(answer), "name": call.name}}
        yield "contentBlockStart", {"contentBlockIndex": 1, "start": start}
        for chunk in answer.argument_chunks():
            yield "contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": chunk}}}
        yield "contentBlockStop", {"contentBlockIndex": 1}
    yield "messageStop", {"stopReason": _stop_reason(answer)}
    yield "metadata", {"metrics": {"latencyMs": 1}, "usage": _usage(answer)}


def _frame(name: str, value: dict[str, Any]) -> bytes:
    """One event: two lengths and their checksum, headers, the payload, and the checksum of all."""
    texts = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
        for key, text in texts.items()
    )
    payload = json.dumps(value, separators=(",", ":")).encode()  # A lone surrogate is an escape.
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    data = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return data + struct.pack(">I", crc32(data))
