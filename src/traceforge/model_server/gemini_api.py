"""Gemini: generateContent, streamGenerateContent (server-sent events or a JSON array), embedContent.

The model is named in the path, so that is part of what is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from traceforge.model_server.generated_answer import Asked, Ending, Heard, Said, Tool, answer
from traceforge.model_server.provider_io import Reply, Request, array, events, plain, text_of, vector

DIMENSIONS = 64
FINISH = {Ending.STOP: "STOP", Ending.LENGTH: "MAX_TOKENS", Ending.TOOL: "STOP"}


def generate(request: Request) -> Reply:
    """`POST /v1/models/MODEL:generateContent`."""
    asked = _asked(request)
    said = answer(asked)
    parts = [{"text": said.text}, *_call(said)]
    return plain(_document(asked, said, parts, last=True))


def stream(request: Request) -> Reply:
    """`POST /v1/models/MODEL:streamGenerateContent`, with `?alt=sse` or as an array."""
    asked = _asked(request)
    said = answer(asked)
    parts = [*({"text": piece} for piece in said.pieces()), *_call(said)]
    documents = [_document(asked, said, [part], last=at == len(parts)) for at, part in enumerate(parts, 1)]
    return events(documents, newline="\r\n") if "alt=sse" in request.query else array(documents)


def embed(request: Request) -> Reply:
    """`POST /v1/models/MODEL:embedContent`."""
    return plain({"embedding": _embedding(request, request.body)})


def embed_batch(request: Request) -> Reply:
    """`POST /v1/models/MODEL:batchEmbedContents`: what the SDK asks, also for one text."""
    return plain({"embeddings": [_embedding(request, one) for one in request.body.get("requests") or []]})


def _embedding(request: Request, one: dict[str, Any]) -> dict[str, Any]:
    return {"values": vector(request, one.get("content"), one.get("outputDimensionality") or DIMENSIONS)}


def _asked(request: Request) -> Asked:
    body, settings = request.body, _field(request.body, "generationConfig") or {}
    found = re.search(r"/models/([^/:]+):", request.path)
    system = (_field(body, "systemInstruction") or {}).get("parts") or ""
    tools = [one for tool in body.get("tools") or [] for one in _field(tool, "functionDeclarations") or []]
    calling = _field(_field(body, "toolConfig") or {}, "functionCallingConfig") or {}
    schema = _field(settings, "responseJsonSchema") or _field(settings, "responseSchema") or {}
    return Asked(
        request.digest,
        len(request.canonical),
        found[1] if found else "",
        [Heard("system", text_of(system)), *_heard(body.get("contents") or [])],
        [Tool(one["name"], _field(one, "parametersJsonSchema") or one.get("parameters") or {}) for one in tools],
        (_field(calling, "allowedFunctionNames") or [None])[0] or str(calling.get("mode", "AUTO")).lower(),
        schema if _field(settings, "responseMimeType") == "application/json" else None,
        _field(settings, "maxOutputTokens"),
    )


def _field(value: dict[str, Any], name: str) -> Any:
    """Gemini takes `camelCase` and `snake_case`, and its SDK sends both."""
    return value.get(name, value.get(re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)))


def _heard(contents: list[dict[str, Any]]) -> Iterator[Heard]:
    for content in contents:
        for part in content.get("parts") or []:
            if "functionCall" in part:
                yield Heard("call", part["functionCall"]["name"])
            elif "functionResponse" in part:
                yield Heard("result", _result(part["functionResponse"].get("response") or {}))
            else:
                yield Heard("assistant" if content.get("role") == "model" else "user", part.get("text") or "")


def _result(response: dict[str, Any]) -> str:
    return json.dumps(response.get("result", response.get("output", response)))


def _call(said: Said) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": said.call.name, "args": said.call.arguments}}] if said.call else []


def _document(asked: Asked, said: Said, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
    finish = {"finishReason": FINISH[said.ending]} if last else {}
    usage = {"promptTokenCount": said.tokens_in}
    if last:
        usage |= {"candidatesTokenCount": said.tokens_out, "totalTokenCount": said.tokens_in + said.tokens_out}
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, **finish, "index": 0}],
        "usageMetadata": usage, "modelVersion": asked.model, "responseId": said.name("", 20),
    }  # fmt: skip
