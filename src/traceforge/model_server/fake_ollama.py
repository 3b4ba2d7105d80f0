"""Ollama: /api/chat and /api/generate, which stream by default, and /api/embed."""

from __future__ import annotations

from typing import Any

from traceforge.model_server.fake_openai import DIMENSIONS, read_items
from traceforge.model_server.generated_answer import (
    OPENINGS,
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
    BadRequest,
    embedding_vector,
    json_reply,
    ndjson_reply,
)
from traceforge.model_server.request_options import (
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    read_choice,
    read_stops,
    refuse_options,
)
from traceforge.model_server.seeded_choice import SeededChoices

NANOSECONDS_PER_TOKEN = 20_000_000


def error_body(error: BadRequest) -> dict[str, Any]:
    """An error as Ollama writes it."""
    return {"error": str(error)}


def chat(request: ApiRequest) -> ApiReply:
    """Answer `POST /api/chat`, streamed or not."""
    body = request.body
    refuse_options(body, OLLAMA_CHAT)
    tools = [
        OfferedTool(tool["function"]["name"], tool["function"].get("parameters") or {})
        for tool in body.get("tools") or []
    ]
    items = [item for message in body.get("messages") or [] for item in read_items(message)]
    generation = _read_request(request, items, tools)
    answer = generate_answer(generation)
    thinking = _thinking(request)
    chunks = [_message("", None, **thinking)] if thinking else []
    chunks += [_message(text) for text in answer.text_chunks()]
    if answer.tool_call:
        chunks.append(_message("", answer.tool_call))
    message = _message(answer.text, answer.tool_call, **thinking)
    return _reply(request, answer, chunks, message, _message(""))


def _message(text: str, call: GeneratedToolCall | None = None, **thinking: str) -> dict[str, Any]:
    calls = {"tool_calls": [{"function": {"name": call.name, "arguments": call.arguments}}]} if call else {}
    return {"message": {"role": "assistant", "content": text, **thinking, **calls}}


def generate(request: ApiRequest) -> ApiReply:
    """Answer `POST /api/generate`, streamed or not."""
    body = request.body
    refuse_options(body, OLLAMA_GENERATE)
    prompts = [
        PromptItem("system", body.get("system") or ""),
        PromptItem("user", body.get("prompt") or ""),
    ]
    generation = _read_request(request, prompts, [])
    answer = generate_answer(generation)
    thinking = _thinking(request)
    chunks: list[dict[str, Any]] = [{"response": "", name: text} for name, text in thinking.items()]
    chunks += [{"response": text} for text in answer.text_chunks()]
    return _reply(request, answer, chunks, {"response": answer.text, **thinking}, {"response": ""})


def _thinking(request: ApiRequest) -> dict[str, str]:
    """What the model thinks before it answers, where `think` is on: a truth value, or how much."""
    if not request.body.get("think"):
        return {}
    if request.body["think"] is not True:
        read_choice(request.body["think"], "think", ("high", "medium", "low", "max"))
    return {"thinking": SeededChoices(f"{request.digest}/thinking").choose(OPENINGS)}


def embed(request: ApiRequest) -> ApiReply:
    """Answer `POST /api/embed` with an embedding of each text."""
    body = request.body
    texts = body.get("input") or ""
    texts = texts if isinstance(texts, list) else [texts]
    vectors = [embedding_vector(request, text, body.get("dimensions") or DIMENSIONS) for text in texts]
    tokens = -(-len(request.canonical) // 4)
    return json_reply({"model": body.get("model", ""), "embeddings": vectors, "prompt_eval_count": tokens})


def _read_request(request: ApiRequest, items: list[PromptItem], tools: list[OfferedTool]) -> GenerationRequest:
    body = request.body
    answer_format = body.get("format")
    if isinstance(answer_format, str):
        read_choice(answer_format, "format", ("", "json"))
    schema = answer_format if isinstance(answer_format, dict) else {} if answer_format == "json" else None
    options = body.get("options") or {}
    tokens_max = options.get("num_predict")
    tokens_max = tokens_max if tokens_max and tokens_max > 0 else None
    return GenerationRequest(
        request.digest, len(request.canonical), str(body.get("model", "")), items, tools, "auto", schema, tokens_max,
        read_stops(options.get("stop"), "options.stop"),
    )  # fmt: skip


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
