"""Ollama: /api/chat and /api/generate, which stream unless they are told not to, and /api/embed."""

from __future__ import annotations

from typing import Any

from traceforge.model_server.generated_answer import Asked, Call, Ending, Heard, Said, Tool, answer
from traceforge.model_server.openai_api import DIMENSIONS, heard
from traceforge.model_server.provider_io import CREATED_TEXT, Reply, Request, lines, plain, vector

NANOSECONDS_PER_TOKEN = 20_000_000


def chat(request: Request) -> Reply:
    """`POST /api/chat`."""
    body = request.body
    tools = [
        Tool(one["function"]["name"], one["function"].get("parameters") or {}) for one in body.get("tools") or []
    ]
    said_before = [one for message in body.get("messages") or [] for one in heard(message)]
    asked = _asked(request, said_before, tools)
    said = answer(asked)
    pieces = [_message(piece) for piece in said.pieces()]
    if said.call:
        pieces.append(_message("", said.call))
    return _reply(asked, said, body.get("stream", True), pieces, _message(said.text, said.call), _message(""))


def _message(text: str, call: Call | None = None) -> dict[str, Any]:
    calls = {"tool_calls": [{"function": {"name": call.name, "arguments": call.arguments}}]} if call else {}
    return {"message": {"role": "assistant", "content": text, **calls}}


def generate(request: Request) -> Reply:
    """`POST /api/generate`."""
    body = request.body
    prompts = [Heard("system", body.get("system") or ""), Heard("user", body.get("prompt") or "")]
    asked = _asked(request, prompts, [])
    said = answer(asked)
    pieces: list[dict[str, Any]] = [{"response": piece} for piece in said.pieces()]
    return _reply(asked, said, body.get("stream", True), pieces, {"response": said.text}, {"response": ""})


def embed(request: Request) -> Reply:
    """`POST /api/embed`."""
    body = request.body
    given = body.get("input") or ""
    texts = given if isinstance(given, list) else [given]
    vectors = [vector(request, text, body.get("dimensions") or DIMENSIONS) for text in texts]
    tokens = -(-len(request.canonical) // 4)
    return plain({"model": body.get("model", ""), "embeddings": vectors, "prompt_eval_count": tokens})


def _asked(request: Request, conversation: list[Heard], tools: list[Tool]) -> Asked:
    body = request.body
    wanted = body.get("format")
    schema = wanted if isinstance(wanted, dict) else {} if wanted == "json" else None
    most = (body.get("options") or {}).get("num_predict")
    most = most if most and most > 0 else None
    return Asked(
        request.digest, len(request.canonical), str(body.get("model", "")), conversation, tools, "auto", schema, most
    )


def _reply(
    asked: Asked,
    said: Said,
    streaming: bool,
    pieces: list[dict[str, Any]],
    whole: dict[str, Any],
    nothing: dict[str, Any],
) -> Reply:
    head = {"model": asked.model, "created_at": CREATED_TEXT}
    counts = _counts(said)
    if not streaming:
        return plain({**head, **whole, **counts})
    return lines([*({**head, **piece, "done": False} for piece in pieces), {**head, **nothing, **counts}])


def _counts(said: Said) -> dict[str, Any]:
    reading, writing = said.tokens_in * NANOSECONDS_PER_TOKEN // 10, said.tokens_out * NANOSECONDS_PER_TOKEN
    return {
        "done": True, "done_reason": "length" if said.ending is Ending.LENGTH else "stop",
        "total_duration": reading + writing, "load_duration": 1_000_000,
        "prompt_eval_count": said.tokens_in, "prompt_eval_duration": reading,
        "eval_count": said.tokens_out, "eval_duration": writing,
    }  # fmt: skip
