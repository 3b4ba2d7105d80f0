"""Gemini: generateContent, streamGenerateContent (server-sent events or a JSON array), embedContent.

The path names the model, so it is part of the request's digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

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
    embedding_vector,
    event_stream_reply,
    json_array_reply,
    json_reply,
)

DIMENSIONS = 64
FINISH = {FinishReason.STOP: "STOP", FinishReason.LENGTH: "MAX_TOKENS", FinishReason.TOOL: "STOP"}


def generate(request: ApiRequest) -> ApiReply:
    """`POST /v1/models/MODEL:generateContent`."""
    generation = _read_request(request)
    answer = generate_answer(generation)
    parts = [{"text": answer.text}, *_call(answer)]
    return json_reply(_document(generation, answer, parts, last=True))


def stream(request: ApiRequest) -> ApiReply:
    """`POST /v1/models/MODEL:streamGenerateContent`, with `?alt=sse` or as an array."""
    generation = _read_request(request)
    answer = generate_answer(generation)
    parts = [*({"text": chunk} for chunk in answer.text_chunks()), *_call(answer)]
    documents = [
        _document(generation, answer, [part], last=number == len(parts)) for number, part in enumerate(parts, 1)
    ]
    if "alt=sse" in request.query:
        return event_stream_reply(documents, newline="\r\n")
    return json_array_reply(documents)


def embed(request: ApiRequest) -> ApiReply:
    """`POST /v1/models/MODEL:embedContent`."""
    return json_reply({"embedding": _embedding(request, request.body)})


def embed_batch(request: ApiRequest) -> ApiReply:
    """`POST /v1/models/MODEL:batchEmbedContents`. The SDK sends it for one text, too."""
    return json_reply({"embeddings": [_embedding(request, item) for item in request.body.get("requests") or []]})


def _embedding(request: ApiRequest, item: dict[str, Any]) -> dict[str, Any]:
    return {"values": embedding_vector(request, item.get("content"), item.get("outputDimensionality") or DIMENSIONS)}


def _read_request(request: ApiRequest) -> GenerationRequest:
    body, settings = request.body, _field(request.body, "generationConfig") or {}
    model = re.search(r"/models/([^/:]+):", request.path)
    system = (_field(body, "systemInstruction") or {}).get("parts") or ""
    calling = _field(_field(body, "toolConfig") or {}, "functionCallingConfig") or {}
    schema = _field(settings, "responseJsonSchema") or _field(settings, "responseSchema") or {}
    return GenerationRequest(
        request.digest,
        len(request.canonical),
        model[1] if model else "",
        [PromptItem("system", content_text(system)), *_read_items(body.get("contents") or [])],
        [
            OfferedTool(tool["name"], _field(tool, "parametersJsonSchema") or tool.get("parameters") or {})
            for group in body.get("tools") or []
            for tool in _field(group, "functionDeclarations") or []
        ],
        (_field(calling, "allowedFunctionNames") or [None])[0] or str(calling.get("mode", "AUTO")).lower(),
        schema if _field(settings, "responseMimeType") == "application/json" else None,
        _field(settings, "maxOutputTokens"),
    )


def _field(value: dict[str, Any], name: str) -> Any:
    """A field in `camelCase` or `snake_case`: Gemini takes both, and its SDK sends both."""
    return value.get(name, value.get(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)))


def _read_items(contents: list[dict[str, Any]]) -> Iterator[PromptItem]:
    for content in contents:
        for part in content.get("parts") or []:
            if "functionCall" in part:
                yield PromptItem("call", part["functionCall"]["name"])
            elif "functionResponse" in part:
                yield PromptItem("result", _result(part["functionResponse"].get("response") or {}))
            else:
                role: Literal["user", "assistant"] = "assistant" if content.get("role") == "model" else "user"
                yield PromptItem(role, part.get("text") or "")


def _result(response: dict[str, Any]) -> str:
    return json.dumps(response.get("result", response.get("output", response)))


def _call(answer: GeneratedAnswer) -> list[dict[str, Any]]:
    call = answer.tool_call
    return [{"functionCall": {"name": call.name, "args": call.arguments}}] if call else []


def _document(
    generation: GenerationRequest, answer: GeneratedAnswer, parts: list[dict[str, Any]], *, last: bool
) -> dict[str, Any]:
    finish = {"finishReason": FINISH[answer.finish_reason]} if last else {}
    usage = {"promptTokenCount": answer.tokens_in}
    if last:
        usage |= {"candidatesTokenCount": answer.tokens_out, "totalTokenCount": answer.tokens_in + answer.tokens_out}
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, **finish, "index": 0}],
        "usageMetadata": usage, "modelVersion": generation.model, "responseId": answer.make_id("", 20),
    }  # fmt: skip
