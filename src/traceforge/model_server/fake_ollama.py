"""Ollama: /api/chat and /api/generate, which stream by default, and /api/embed."""

from __future__ import annotations

from typing import Any

from traceforge.model_server.fake_openai import DIMENSIONS, read_items
from traceforge.model_server.generated_answer import (
    FinishReason,
    GeneratedAnswer,
    GeneratedToolCall,
    GenerationRequest,
    OfferedTool,
    PromptItem,
    generate_answer,
)
from traceforge.model_server.provider_io import (
    CREATED_TEXT,
    ApiReply,
    ApiRequest,
    embedding_vector,
    json_reply,
    ndjson_reply,
)

NANOSECONDS_PER_TOKEN = 20_000_000


def chat(request: ApiRequest) -> ApiReply:
    """`POST /api/chat`."""
    body = request.body
    tools = [
        OfferedTool(tool["function"]["name"], tool["function"].get("parameters") or {})
        for tool in body.get("tools") or []
    ]
    items = [item for message in body.get("messages") or [] for item in read_items(message)]
    generation = _read_request(request, items, tools)
    answer = generate_answer(generation)
    chunks = [_message(text) for text in answer.text_chunks()]
    if answer.tool_call:
        chunks.append(_message("", answer.tool_call))
    message = _message(answer.text, answer.tool_call)
    return _reply(request, answer, chunks, message, _message(""))


def _message(text: str, call: GeneratedToolCall | None = None) -> dict[str, Any]:
    calls = {"tool_calls": [{"function": {"name": call.name, "arguments": call.arguments}}]} if call else {}
    return {"message": {"role": "assistant", "content": text, **calls}}


def generate(request: ApiRequest) -> ApiReply:
    """`POST /api/generate`."""
    body = request.body
    prompts = [
        PromptItem("system", body.get("system") or ""),
        PromptItem("user", body.get("prompt") or ""),
    ]
    generation = _read_request(request, prompts, [])
    answer = generate_answer(generation)
    chunks: list[dict[str, Any]] = [{"response": text} for text in answer.text_chunks()]
    return _reply(request, answer, chunks, {"response": answer.text}, {"response": ""})


def embed(request: ApiRequest) -> ApiReply:
    """`POST /api/embed`."""
    body = request.body
    texts = body.get("input") or ""
    texts = texts if isinstance(texts, list) else [texts]
    vectors = [embedding_vector(request, text, body.get("dimensions") or DIMENSIONS) for text in texts]
    tokens = -(-len(request.canonical) // 4)
    return json_reply({"model": body.get("model", ""), "embeddings": vectors, "prompt_eval_count": tokens})


def _read_request(request: ApiRequest, items: list[PromptItem], tools: list[OfferedTool]) -> GenerationRequest:
    body = request.body
    answer_format = body.get("format")
    schema = answer_format if isinstance(answer_format, dict) else {} if answer_format == "json" else None
    tokens_max = (body.get("options") or {}).get("num_predict")
    tokens_max = tokens_max if tokens_max and tokens_max > 0 else None
    return GenerationRequest(
        request.digest, len(request.canonical), str(body.get("model", "")), items, tools, "auto", schema, tokens_max
    )


def _reply(
    request: ApiRequest,
    answer: GeneratedAnswer,
    chunks: list[dict[str, Any]],
    message: dict[str, Any],
    last_chunk: dict[str, Any],
) -> ApiReply:
    head = {"model": str(request.body.get("model", "")), "created_at": CREATED_TEXT}
    counts = _counts(answer)
    if not request.body.get("stream", True):
        return json_reply({**head, **message, **counts})
    return ndjson_reply([*({**head, **chunk, "done": False} for chunk in chunks), {**head, **last_chunk, **counts}])


def _counts(answer: GeneratedAnswer) -> dict[str, Any]:
    reading, writing = answer.tokens_in * NANOSECONDS_PER_TOKEN // 10, answer.tokens_out * NANOSECONDS_PER_TOKEN
    return {
        "done": True, "done_reason": "length" if answer.finish_reason is FinishReason.LENGTH else "stop",
        "total_duration": reading + writing, "load_duration": 1_000_000,
        "prompt_eval_count": answer.tokens_in, "prompt_eval_duration": reading,
        "eval_count": answer.tokens_out, "eval_duration": writing,
    }  # fmt: skip
