"""OpenAI: chat completions, completions, embeddings. The Responses API is in `fake_responses`."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

from traceforge.model_server.generated_answer import (
    FinishReason,
    GeneratedAnswer,
    GenerationRequest,
    OfferedTool,
    PromptItem,
    generate_answer,
    split_words,
)
from traceforge.model_server.provider_io import (
    CREATED,
    ApiReply,
    ApiRequest,
    BadRequest,
    content_text,
    embedding_vector,
    event_stream_reply,
    json_reply,
)
from traceforge.model_server.request_options import (
    CHAT,
    COMPLETIONS,
    check_temperature,
    check_tool_names,
    read_choice,
    read_count,
    read_stops,
    refuse_options,
)

DONE_EVENT = "data: [DONE]\n\n"
DIMENSIONS = 64
STOPS_MAX = 4
TEMPERATURE_MAX = 2
FINGERPRINT = "fp_0b5e55ed10"  # Names the runtime, which is always the same.
FINISH = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.TOOL: "tool_calls"}


def error_body(error: BadRequest) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    code = "not_found" if error.status == 404 else error.code
    return {"error": {"message": str(error), "type": "invalid_request_error", "param": error.param, "code": code}}


def chat(request: ApiRequest) -> ApiReply:
    """Answer `POST /v1/chat/completions`, streamed or not."""
    body = request.body
    refuse_options(body, CHAT)
    check_stream_options(body)
    check_temperature(body.get("temperature"), TEMPERATURE_MAX)
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        message = "`max_tokens` and `max_completion_tokens` exclude each other."
        raise BadRequest(message, param="max_tokens", code="invalid_parameter_combination")
    if body.get("modalities") and body["modalities"] != ["text"]:
        raise BadRequest('`modalities` must be ["text"]: this server has no sound.', param="modalities")
    offered = [_read_tool(tool) for tool in body.get("tools") or []]
    choice, tools = read_tool_choice(body.get("tool_choice"), offered)
    generation = GenerationRequest(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        [item for message in body.get("messages") or [] for item in read_items(message)],
        tools,
        choice,
        answer_schema(body.get("response_format"), "response_format"),
        read_count(body.get("max_completion_tokens") or body.get("max_tokens"), "max_completion_tokens", None),
        read_stops(body.get("stop"), most=STOPS_MAX),
    )
    answers = [generate_answer(generation, number) for number in range(read_count(body.get("n"), "n", 1, 128) or 1)]
    if body.get("stream"):
        return event_stream_reply(_chat_chunks(generation, answers, body), end=DONE_EVENT)
    choices = [
        {
            "index": index, "message": _message(answer), "logprobs": _log_probabilities(body, answer.text),
            "finish_reason": FINISH[answer.finish_reason],
        }
        for index, answer in enumerate(answers)
    ]  # fmt: skip
    head = _head(generation, answers[0], "chat.completion")
    return json_reply({**head, "choices": choices, "usage": _usage(answers)})


def _log_probabilities(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    """The words of a text as its tokens, each certain: nothing is drawn at random here."""
    if not body.get("logprobs"):
        return None
    words = split_words(text, 1)
    tokens = [{"token": word, "logprob": 0.0, "bytes": list(word.encode()), "top_logprobs": []} for word in words]
    return {"content": tokens, "refusal": None}


def check_stream_options(body: dict[str, Any]) -> None:
    if body.get("stream_options") and not body.get("stream"):
        raise BadRequest("`stream_options` is only allowed when `stream` is true.", param="stream_options")


def _read_tool(tool: dict[str, Any]) -> OfferedTool:
    if tool.get("type", "function") != "function":
        raise BadRequest(f"Tools of type {tool.get('type')!r} are not supported by this server.", param="tools")
    return OfferedTool(tool["function"]["name"], tool["function"].get("parameters") or {})


def read_tool_choice(value: Any, offered: list[OfferedTool]) -> tuple[str, list[OfferedTool]]:
    """What a `tool_choice` demands, in the words of `GenerationRequest`, and the tools that it allows."""
    if value is None:
        return "auto", offered
    if not offered and value not in ("none", "auto"):
        raise BadRequest("`tool_choice` is only allowed when `tools` are specified.", param="tool_choice")
    if isinstance(value, str):
        read_choice(value, "tool_choice", ("none", "auto", "required"))
        return ("any" if value == "required" else value), offered
    kind = read_choice(value.get("type"), "tool_choice.type", ("function", "allowed_tools"))
    if kind == "function":
        mode, names = "required", [str((value.get("function") or value).get("name"))]
    else:
        allowed = value.get("allowed_tools") or value
        mode = read_choice(allowed.get("mode"), "tool_choice.mode", ("auto", "required"))
        named = [tool for tool in allowed.get("tools") or [] if tool.get("type") == "function"]
        names = [str((tool.get("function") or tool).get("name")) for tool in named]
    check_tool_names(names, [tool.name for tool in offered], "tool_choice")
    return ("any" if mode == "required" else "auto"), [tool for tool in offered if tool.name in names]


def answer_schema(response_format: Any, name: str) -> dict[str, Any] | None:
    """The schema of a `response_format`; an empty one allows any JSON."""
    if not response_format:
        return None
    kind = read_choice(response_format.get("type"), f"{name}.type", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    return (response_format.get("json_schema") or response_format).get("schema") or {}


def read_items(message: dict[str, Any]) -> Iterator[PromptItem]:
    """The text of a message, and the tool calls in it."""
    role, text = message.get("role"), content_text(message.get("content"))
    if role == "tool":
        yield PromptItem("result", text)
    elif role == "user":
        yield PromptItem("user", text)
    elif role in ("system", "developer"):
        yield PromptItem("system", text)
    else:
        yield PromptItem("assistant", text)
        yield from (PromptItem("call", call["function"]["name"]) for call in message.get("tool_calls") or [])


def _head(generation: GenerationRequest, answer: GeneratedAnswer, kind: str) -> dict[str, Any]:
    prefix = "cmpl-" if kind == "text_completion" else "chatcmpl-"
    return {
        "id": answer.make_id(prefix), "object": kind, "created": CREATED, "model": generation.model,
        "system_fingerprint": FINGERPRINT,
    }  # fmt: skip


def _message(answer: GeneratedAnswer) -> dict[str, Any]:
    if not answer.tool_call:
        return {"role": "assistant", "content": answer.text, "refusal": None, "annotations": []}
    function = _function(answer.tool_call.name, answer.tool_call.arguments_json)
    call = {"id": answer.make_id("call_"), "type": "function", "function": function}
    return {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [call]}


def _function(name: str, arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _usage(answers: list[GeneratedAnswer]) -> dict[str, Any]:
    tokens_in, tokens_out = answers[0].tokens_in, sum(answer.tokens_out for answer in answers)
    return {
        "prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }  # fmt: skip


def _chat_chunks(
    generation: GenerationRequest, answers: list[GeneratedAnswer], body: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    head = _head(generation, answers[0], "chat.completion.chunk")
    usage = {"usage": None} if with_usage else {}
    for index, answer in enumerate(answers):
        for delta, finish in _deltas(answer):
            logprobs = _log_probabilities(body, delta["content"]) if delta.get("content") else None
            choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
            yield {**head, "choices": [choice], **usage}
    if with_usage:
        yield {**head, "choices": [], "usage": _usage(answers)}


def _deltas(answer: GeneratedAnswer) -> Iterator[tuple[dict[str, Any], str | None]]:
    if answer.tool_call:
        function = _function(answer.tool_call.name, "")
        start = {"index": 0, "id": answer.make_id("call_"), "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [start]}, None
        for chunk in answer.argument_chunks():
            yield {"tool_calls": [{"index": 0, "function": {"arguments": chunk}}]}, None
    else:
        yield {"role": "assistant", "content": "", "refusal": None}, None
        yield from (({"content": chunk}, None) for chunk in answer.text_chunks())
    yield {}, FINISH[answer.finish_reason]


def completions(request: ApiRequest) -> ApiReply:
    """`POST /v1/completions`: one prompt or several."""
    body = request.body
    refuse_options(body, COMPLETIONS)
    check_stream_options(body)
    check_temperature(body.get("temperature"), TEMPERATURE_MAX)
    prompts = body.get("prompt") or ""
    prompts = prompts if isinstance(prompts, list) and prompts and isinstance(prompts[0], (str, list)) else [prompts]
    size, model = len(request.canonical), str(body.get("model", ""))
    tokens_max = read_count(body.get("max_tokens"), "max_tokens", 16)
    stops = read_stops(body.get("stop"), most=STOPS_MAX)
    generations = [
        GenerationRequest(
            request.digest, size, model, [PromptItem("user", str(prompt))], tokens_max=tokens_max, stops=stops
        )
        for prompt in prompts
        for _ in range(read_count(body.get("n"), "n", 1, 128) or 1)
    ]
    answers = [generate_answer(generation, number) for number, generation in enumerate(generations)]
    head, usage = _head(generations[0], answers[0], "text_completion"), _usage(answers)
    if not body.get("stream"):
        choices = [
            _completion(index, answer.text, FINISH[answer.finish_reason]) for index, answer in enumerate(answers)
        ]
        return json_reply({**head, "choices": choices, "usage": usage})
    chunks: list[dict[str, Any]] = []
    for index, answer in enumerate(answers):
        chunks += [{**head, "choices": [_completion(index, text, None)]} for text in answer.text_chunks()]
        chunks.append({**head, "choices": [_completion(index, "", FINISH[answer.finish_reason])]})
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks = [*({**chunk, "usage": None} for chunk in chunks), {**head, "choices": [], "usage": usage}]
    return event_stream_reply(chunks, end=DONE_EVENT)


def _completion(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def embeddings(request: ApiRequest) -> ApiReply:
    """`POST /v1/embeddings`. The SDK's default is base64."""
    body = request.body
    texts = body.get("input") or ""
    texts = texts if isinstance(texts, list) and texts and isinstance(texts[0], (str, list)) else [texts]
    read_choice(body.get("encoding_format") or "float", "encoding_format", ("float", "base64"))
    dimensions = read_count(body.get("dimensions"), "dimensions", DIMENSIONS) or DIMENSIONS
    vectors = [embedding_vector(request, text, dimensions) for text in texts]
    values: list[Any] = list(vectors)
    if body.get("encoding_format") == "base64":
        values = [base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
    tokens = -(-len(request.canonical) // 4)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_reply({"object": "list", "data": data, "model": str(body.get("model", "")), "usage": usage})
