"""OpenAI: chat completions, completions, embeddings. The Responses API is in `responses_api`."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

from traceforge.model_server.generated_answer import Asked, Ending, Heard, Said, Tool, answer, cut
from traceforge.model_server.provider_io import CREATED, Reply, Request, events, plain, text_of, vector

DONE = "data: [DONE]\n\n"
DIMENSIONS = 64
FINGERPRINT = "fp_0b5e55ed10"  # names the runtime, and that is always the same
FINISH = {Ending.STOP: "stop", Ending.LENGTH: "length", Ending.TOOL: "tool_calls"}


def chat(request: Request) -> Reply:
    """`POST /v1/chat/completions`."""
    body = request.body
    asked = Asked(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        [one for message in body.get("messages") or [] for one in heard(message)],
        [
            Tool(tool["function"]["name"], tool["function"].get("parameters") or {})
            for tool in body.get("tools") or []
            if tool.get("type", "function") == "function"
        ],
        tool_choice(body.get("tool_choice")),
        answer_schema(body.get("response_format")),
        body.get("max_completion_tokens") or body.get("max_tokens"),
    )
    said = [answer(asked, number) for number in range(body.get("n") or 1)]
    if body.get("stream"):
        return events(_chat_chunks(asked, said, body), end=DONE)
    choices = [
        {"index": at, "message": _message(one), "logprobs": None, "finish_reason": FINISH[one.ending]}
        for at, one in enumerate(said)
    ]
    return plain({**_head(asked, said[0], "chat.completion"), "choices": choices, "usage": _usage(said)})


def tool_choice(value: Any) -> str:
    """What a `tool_choice` demands, in the words of `Asked`."""
    if isinstance(value, dict):
        return str((value.get("function") or value).get("name") or "auto")
    return {None: "auto", "required": "any"}.get(value, str(value))


def answer_schema(wanted: Any) -> dict[str, Any] | None:
    """The schema of a `response_format`; an empty one stands for any JSON."""
    if not wanted or wanted.get("type") not in ("json_object", "json_schema"):
        return None
    return (wanted.get("json_schema") or wanted).get("schema") or {}


def heard(message: dict[str, Any]) -> Iterator[Heard]:
    """What a message says, and the calls in it."""
    role, text = message.get("role"), text_of(message.get("content"))
    if role == "tool":
        yield Heard("result", text)
    elif role == "user":
        yield Heard("user", text)
    elif role in ("system", "developer"):
        yield Heard("system", text)
    else:
        yield Heard("assistant", text)
        yield from (Heard("call", call["function"]["name"]) for call in message.get("tool_calls") or [])


def _head(asked: Asked, said: Said, kind: str) -> dict[str, Any]:
    prefix = "cmpl-" if kind == "text_completion" else "chatcmpl-"
    return {
        "id": said.name(prefix), "object": kind, "created": CREATED, "model": asked.model,
        "system_fingerprint": FINGERPRINT,
    }  # fmt: skip


def _message(said: Said) -> dict[str, Any]:
    if not said.call:
        return {"role": "assistant", "content": said.text, "refusal": None, "annotations": []}
    call = {"id": said.name("call_"), "type": "function", "function": _function(said.call.name, said.call.text)}
    return {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [call]}


def _function(name: str, arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _usage(said: list[Said]) -> dict[str, Any]:
    tokens_in, tokens_out = said[0].tokens_in, sum(one.tokens_out for one in said)
    return {
        "prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }  # fmt: skip


def _chat_chunks(asked: Asked, said: list[Said], body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    head = _head(asked, said[0], "chat.completion.chunk")
    usage = {"usage": None} if with_usage else {}
    for at, one in enumerate(said):
        for delta, finish in _deltas(one):
            choice = {"index": at, "delta": delta, "logprobs": None, "finish_reason": finish}
            yield {**head, "choices": [choice], **usage}
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(said)}


def _deltas(said: Said) -> Iterator[tuple[dict[str, Any], str | None]]:
    if said.call:
        begun = {"index": 0, "id": said.name("call_"), "type": "function", "function": _function(said.call.name, "")}
        yield {"role": "assistant", "content": None, "tool_calls": [begun]}, None
        for piece in said.argument_pieces():
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, None
    else:
        yield {"role": "assistant", "content": "", "refusal": None}, None
        yield from (({"content": piece}, None) for piece in said.pieces())
    yield {}, FINISH[said.ending]


def completions(request: Request) -> Reply:
    """`POST /v1/completions`: one prompt or several."""
    body = request.body
    prompts = body.get("prompt") or ""
    prompts = prompts if isinstance(prompts, list) and prompts and isinstance(prompts[0], (str, list)) else [prompts]
    size, most = len(request.canonical), body.get("max_tokens") or 16
    asked = [
        Asked(request.digest, size, str(body.get("model", "")), [Heard("user", str(one))], tokens_max=most)
        for one in prompts
        for _ in range(body.get("n") or 1)
    ]
    said = [answer(one, number) for number, one in enumerate(asked)]
    head, usage = _head(asked[0], said[0], "text_completion"), _usage(said)
    if not body.get("stream"):
        choices = [_completion(at, one.text, FINISH[one.ending]) for at, one in enumerate(said)]
        return plain({**head, "choices": choices, "usage": usage})
    chunks: list[dict[str, Any]] = []
    for at, one in enumerate(said):
        chunks += [{**head, "choices": [_completion(at, piece, None)]} for piece in cut(one.text, 4)]
        chunks.append({**head, "choices": [_completion(at, "", FINISH[one.ending])]})
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks = [*({**chunk, "usage": None} for chunk in chunks), {**head, "choices": [], "usage": usage}]
    return events(chunks, end=DONE)


def _completion(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def embeddings(request: Request) -> Reply:
    """`POST /v1/embeddings`; the SDK asks for base64 unless it is told otherwise."""
    body = request.body
    texts = body.get("input") or ""
    texts = texts if isinstance(texts, list) and texts and isinstance(texts[0], (str, list)) else [texts]
    vectors = [vector(request, text, body.get("dimensions") or DIMENSIONS) for text in texts]
    written: list[Any] = list(vectors)
    if body.get("encoding_format") == "base64":
        written = [base64.b64encode(struct.pack(f"<{len(one)}f", *one)).decode() for one in vectors]
    data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(written)]
    tokens = -(-len(request.canonical) // 4)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return plain({"object": "list", "data": data, "model": str(body.get("model", "")), "usage": usage})
