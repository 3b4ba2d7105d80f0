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
    JSON_MEDIA,
    ApiReply,
    ApiRequest,
    BadRequest,
    content_text,
    embedding_vector,
    event_stream_reply,
    json_array_reply,
    json_reply,
)
from traceforge.model_server.request_options import (
    GEMINI,
    GEMINI_CALLING,
    GEMINI_CONFIG,
    check_temperature,
    check_tool_names,
    read_choice,
    read_count,
    read_stops,
    refuse_options,
)

DIMENSIONS = 64
TEXT, ENUM = "text/plain", "text/x.enum"
TEMPERATURE_MAX = 2
MODES = {"MODE_UNSPECIFIED": "auto", "AUTO": "auto", "ANY": "any", "NONE": "none", "VALIDATED": "auto"}
FINISH = {FinishReason.STOP: "STOP", FinishReason.LENGTH: "MAX_TOKENS", FinishReason.TOOL: "STOP"}


def error_body(error: BadRequest) -> dict[str, Any]:
    """An error as Gemini writes it."""
    status = "NOT_FOUND" if error.status == 404 else "INVALID_ARGUMENT"
    return {"error": {"code": error.status, "message": str(error), "status": status}}


def generate(request: ApiRequest) -> ApiReply:
    """Answer `POST /v1/models/MODEL:generateContent`, streamed or not."""
    generation, answers = _generate_answers(request)
    candidates = [
        _candidate(answer, [{"text": answer.text}, *_call(answer)], index, last=True)
        for index, answer in enumerate(answers)
    ]
    return json_reply(_document(generation, answers, candidates, last=True))


def stream(request: ApiRequest) -> ApiReply:
    """`POST /v1/models/MODEL:streamGenerateContent`, with `?alt=sse` or as an array."""
    generation, answers = _generate_answers(request)
    parts = [
        (index, answer, part)
        for index, answer in enumerate(answers)
        for part in [*({"text": chunk} for chunk in answer.text_chunks()), *_call(answer)] or [{"text": ""}]
    ]
    lasts = [number == len(parts) or parts[number][0] != index for number, (index, _, _) in enumerate(parts, 1)]
    documents = [
        _document(generation, answers, [_candidate(answer, [part], index, last=last)], last=number == len(parts))
        for number, ((index, answer, part), last) in enumerate(zip(parts, lasts, strict=True), 1)
    ]
    if "alt=sse" in request.query:
        return event_stream_reply(documents, newline="\r\n")
    return json_array_reply(documents)


def embed(request: ApiRequest) -> ApiReply:
    """Answer `POST /v1/models/MODEL:embedContent` with one embedding."""
    return json_reply({"embedding": _embedding(request, request.body)})


def embed_batch(request: ApiRequest) -> ApiReply:
    """Answer `POST /v1/models/MODEL:batchEmbedContents`. The SDK sends it for one text, too."""
    return json_reply({"embeddings": [_embedding(request, item) for item in request.body.get("requests") or []]})


def _embedding(request: ApiRequest, item: dict[str, Any]) -> dict[str, Any]:
    return {"values": embedding_vector(request, item.get("content"), item.get("outputDimensionality") or DIMENSIONS)}


def _generate_answers(request: ApiRequest) -> tuple[GenerationRequest, list[GeneratedAnswer]]:
    generation = _read_request(request)
    count = read_count(_field(_settings(request), "candidateCount"), "candidateCount", 1, 8) or 1
    return generation, [generate_answer(generation, number) for number in range(count)]


def _settings(request: ApiRequest) -> dict[str, Any]:
    return _field(request.body, "generationConfig") or {}


def _read_request(request: ApiRequest) -> GenerationRequest:
    body, settings = request.body, _settings(request)
    refuse_options(_camel_names(body), GEMINI)
    refuse_options(_camel_names(settings), GEMINI_CONFIG)
    check_temperature(settings.get("temperature"), TEMPERATURE_MAX)
    thinking = _field(settings, "thinkingConfig") or {}
    if _field(thinking, "thinkingBudget") is not None and _field(thinking, "thinkingLevel") is not None:
        raise BadRequest("`thinkingBudget` and `thinkingLevel` exclude each other.")
    modalities = [str(modality).upper() for modality in _field(settings, "responseModalities") or ["TEXT"]]
    if modalities != ["TEXT"]:
        raise BadRequest("`responseModalities` must be TEXT: this server has neither sound nor pictures.")
    model = re.search(r"/models/([^/:]+):", request.path)
    system = (_field(body, "systemInstruction") or {}).get("parts") or ""
    media_type, schema = _read_answer_type(settings)
    choice, tools = _read_tool_choice(body)
    return GenerationRequest(
        request.digest,
        len(request.canonical),
        model[1] if model else "",
        [PromptItem("system", content_text(system)), *_read_items(body.get("contents") or [])],
        tools,
        choice,
        schema,
        read_count(_field(settings, "maxOutputTokens"), "maxOutputTokens", None),
        read_stops(_field(settings, "stopSequences"), "stopSequences"),
        is_plain_value=media_type == ENUM,
    )


def _read_answer_type(settings: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The media type of the answer, and its schema: an empty one allows any JSON."""
    media_type = read_choice(
        _field(settings, "responseMimeType") or TEXT, "responseMimeType", (TEXT, JSON_MEDIA, ENUM)
    )
    schema = _field(settings, "responseJsonSchema") or _field(settings, "responseSchema")
    if media_type == TEXT and schema:
        raise BadRequest(f"A response schema needs the `responseMimeType` {JSON_MEDIA}.")
    return media_type, None if media_type == TEXT else schema or {}


def _read_tool_choice(body: dict[str, Any]) -> tuple[str, list[OfferedTool]]:
    """What `functionCallingConfig` demands, and the functions that it allows."""
    offered = [
        OfferedTool(tool["name"], _field(tool, "parametersJsonSchema") or tool.get("parameters") or {})
        for group in body.get("tools") or []
        for tool in _field(group, "functionDeclarations") or []
    ]
    calling = _field(_field(body, "toolConfig") or {}, "functionCallingConfig") or {}
    refuse_options(_camel_names(calling), GEMINI_CALLING)
    mode = read_choice(str(calling.get("mode") or "AUTO").upper(), "functionCallingConfig.mode", tuple(MODES))
    names = _field(calling, "allowedFunctionNames") or []
    if not names:
        return MODES[mode], offered
    if mode not in ("ANY", "VALIDATED"):
        raise BadRequest("`allowedFunctionNames` needs the mode ANY or VALIDATED.")
    check_tool_names(names, [tool.name for tool in offered], "allowedFunctionNames")
    return MODES[mode], [tool for tool in offered if tool.name in names]


def _camel_names(values: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_([a-z])", lambda match: match[1].upper(), name): value for name, value in values.items()}


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


def _candidate(answer: GeneratedAnswer, parts: list[dict[str, Any]], index: int, *, last: bool) -> dict[str, Any]:
    finish = {"finishReason": FINISH[answer.finish_reason]} if last else {}
    return {"content": {"parts": parts, "role": "model"}, **finish, "index": index}


def _document(
    generation: GenerationRequest, answers: list[GeneratedAnswer], candidates: list[dict[str, Any]], *, last: bool
) -> dict[str, Any]:
    tokens_in, tokens_out = answers[0].tokens_in, sum(answer.tokens_out for answer in answers)
    usage = {"promptTokenCount": tokens_in}
    if last:
        usage |= {"candidatesTokenCount": tokens_out, "totalTokenCount": tokens_in + tokens_out}
    return {
        "candidates": candidates, "usageMetadata": usage, "modelVersion": generation.model,
        "responseId": answers[0].make_id("", 20),
    }  # fmt: skip
