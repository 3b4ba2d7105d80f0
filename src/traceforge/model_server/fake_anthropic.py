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
    BadRequest,
    content_text,
    event_stream_reply,
    json_reply,
)
from traceforge.model_server.request_options import (
    MESSAGES,
    check_temperature,
    check_tool_names,
    read_choice,
    read_count,
    read_stops,
    refuse_options,
)

TEMPERATURE_MAX = 1
THINKING_TOKENS_MIN = 1024  # as the API has it
FINISH = {FinishReason.STOP: "end_turn", FinishReason.LENGTH: "max_tokens", FinishReason.TOOL: "tool_use"}


def error_body(error: BadRequest) -> dict[str, Any]:
    """An error as Anthropic writes it."""
    kind = "not_found_error" if error.status == 404 else "invalid_request_error"
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


def messages(request: ApiRequest) -> ApiReply:
    """Answer `POST /v1/messages`, streamed or not."""
    body = request.body
    refuse_options(body, MESSAGES)
    check_temperature(body.get("temperature"), TEMPERATURE_MAX)
    choice, tools = _read_tool_choice(body.get("tool_choice") or {}, list(_read_tools(body.get("tools") or [])))
    _check_thinking(body.get("thinking") or {}, choice)
    _check_thinking_budget(body)
    generation = GenerationRequest(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        list(_read_items(body)),
        tools,
        choice,
        _read_schema((body.get("output_config") or {}).get("format") or body.get("output_format")),
        read_count(body.get("max_tokens"), "max_tokens", None),
        read_stops(body.get("stop_sequences"), "stop_sequences"),
    )
    answer = generate_answer(generation)
    message = {
        "id": answer.make_id("msg_"), "type": "message", "role": "assistant", "model": generation.model,
        "content": _blocks(answer), "stop_sequence": answer.stop_sequence,
        "stop_reason": "stop_sequence" if answer.stop_sequence else FINISH[answer.finish_reason],
        "usage": _usage(answer),
    }  # fmt: skip
    return event_stream_reply(_events(message, answer), named=True) if body.get("stream") else json_reply(message)


def _read_tools(tools: list[dict[str, Any]]) -> Iterator[OfferedTool]:
    """The tools of the caller. A model may leave a hosted tool alone, as this one does."""
    return (OfferedTool(tool["name"], tool["input_schema"]) for tool in tools if "input_schema" in tool)


def _read_tool_choice(value: dict[str, Any], offered: list[OfferedTool]) -> tuple[str, list[OfferedTool]]:
    kind = read_choice(value.get("type", "auto"), "tool_choice.type", ("auto", "any", "tool", "none"))
    if kind in ("any", "tool") and not offered:
        raise BadRequest("`tool_choice` may only be specified while providing `tools`.", param="tool_choice")
    if kind != "tool":
        return kind, offered
    check_tool_names([str(value.get("name"))], [tool.name for tool in offered], "tool_choice")
    return "any", [tool for tool in offered if tool.name == value["name"]]


def _check_thinking(value: dict[str, Any], choice: str) -> None:
    """An answer without a thinking block is one that the API may give, too; a combination that it refuses is not."""
    kind = read_choice(value.get("type", "disabled"), "thinking.type", ("enabled", "adaptive", "disabled"))
    if kind != "enabled":
        return
    budget = value.get("budget_tokens")
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < THINKING_TOKENS_MIN:
        message = f"`thinking.budget_tokens` must be a whole number of at least {THINKING_TOKENS_MIN}."
        raise BadRequest(message, param="thinking.budget_tokens")
    if choice == "any":
        raise BadRequest("Thinking may not be enabled when `tool_choice` forces tool use.", param="thinking")


def _check_thinking_budget(body: dict[str, Any]) -> None:
    """The budget is a part of `max_tokens`. With tools it may be larger: it then counts for several blocks."""
    budget, tokens_max = (body.get("thinking") or {}).get("budget_tokens"), body.get("max_tokens")
    if isinstance(budget, int) and isinstance(tokens_max, int) and budget >= tokens_max and not body.get("tools"):
        raise BadRequest("`thinking.budget_tokens` must be less than `max_tokens`.", param="thinking.budget_tokens")


def _read_schema(output_format: Any) -> dict[str, Any] | None:
    if not output_format:
        return None
    read_choice(output_format.get("type"), "output_config.format.type", ("json_schema",))
    return output_format.get("schema") or {}


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
    start = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        if index == 0:
            yield {"type": "ping"}
        for delta in _deltas(block, answer):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": answer.tokens_out}}
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any], answer: GeneratedAnswer) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": chunk} for chunk in answer.text_chunks())
    else:
        yield from ({"type": "input_json_delta", "partial_json": chunk} for chunk in answer.argument_chunks())
