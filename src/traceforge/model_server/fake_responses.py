"""OpenAI's Responses API, plain and as named events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from traceforge.model_server.fake_openai import TEMPERATURE_MAX, answer_schema, read_tool_choice
from traceforge.model_server.generated_answer import (
    FinishReason,
    GeneratedAnswer,
    GenerationRequest,
    OfferedTool,
    PromptItem,
    generate_answer,
)
from traceforge.model_server.provider_io import (
    CREATED,
    ApiReply,
    ApiRequest,
    BadRequest,
    content_text,
    event_stream_reply,
    json_reply,
)
from traceforge.model_server.request_options import RESPONSES, check_temperature, read_count, refuse_options

LOGPROBS = (
    "message.output_text.logprobs"  # What else can be included belongs to tools and reasoning, which are absent.
)
Event = dict[str, Any]
ROLES: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}


def responses(request: ApiRequest) -> ApiReply:
    """Answer `POST /v1/responses`, streamed or not."""
    body = request.body
    refuse_options(body, RESPONSES)
    check_temperature(body.get("temperature"), TEMPERATURE_MAX)
    if LOGPROBS in (body.get("include") or []):
        raise BadRequest(f"`include`: {LOGPROBS} is not supported by this server.", param="include")
    choice, tools = read_tool_choice(body.get("tool_choice"), list(_read_tools(body.get("tools") or [])))
    generation = GenerationRequest(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        list(_read_items(body)),
        tools,
        choice,
        answer_schema((body.get("text") or {}).get("format"), "text.format"),
        read_count(body.get("max_output_tokens"), "max_output_tokens", None),
    )
    answer = generate_answer(generation)
    response = _response(body, generation, answer)
    if not body.get("stream"):
        return json_reply(response)
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(_events(response, answer)))
    return event_stream_reply(numbered, named=True)


def _read_tools(tools: list[dict[str, Any]]) -> Iterator[OfferedTool]:
    """The functions. A model may leave a hosted tool alone, as this one does; a custom tool takes no JSON."""
    for tool in tools:
        if tool.get("type") == "custom":
            raise BadRequest("Tools of type 'custom' are not supported by this server.", param="tools")
        if tool.get("type", "function") == "function":
            yield OfferedTool(tool["name"], tool.get("parameters") or {})


def _read_items(body: dict[str, Any]) -> Iterator[PromptItem]:
    if body.get("instructions"):
        yield PromptItem("system", content_text(body["instructions"]))
    items = body.get("input") or ""
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield PromptItem("call", item["name"])
        elif kind == "function_call_output":
            yield PromptItem("result", content_text(item.get("output")))
        elif kind == "message":
            yield PromptItem(ROLES.get(item.get("role", ""), "system"), content_text(item.get("content")))


def _response(body: dict[str, Any], generation: GenerationRequest, answer: GeneratedAnswer) -> dict[str, Any]:
    cut_short = answer.finish_reason is FinishReason.LENGTH
    return {
        "id": answer.make_id("resp_"), "object": "response", "created_at": CREATED, "model": generation.model,
        "status": "incomplete" if cut_short else "completed", "output": [_item(answer)],
        "incomplete_details": {"reason": "max_output_tokens"} if cut_short else None,
        "error": None, "instructions": body.get("instructions"), "metadata": body.get("metadata") or {},
        "max_output_tokens": body.get("max_output_tokens"),
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"), "temperature": body.get("temperature", 1.0),
        "top_p": body.get("top_p", 1.0), "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [], "text": body.get("text") or {"format": {"type": "text"}},
        "truncation": body.get("truncation") or "disabled", "usage": {
            "input_tokens": answer.tokens_in, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.tokens_out, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.tokens_in + answer.tokens_out,
        },
    }  # fmt: skip


def _item(answer: GeneratedAnswer) -> dict[str, Any]:
    if answer.tool_call:
        return {
            "type": "function_call", "id": answer.make_id("fc_"), "call_id": answer.make_id("call_"),
            "status": "completed", "name": answer.tool_call.name, "arguments": answer.tool_call.arguments_json,
        }  # fmt: skip
    return {
        "type": "message", "id": answer.make_id("msg_"), "role": "assistant",
        "status": "incomplete" if answer.finish_reason is FinishReason.LENGTH else "completed",
        "content": [_part(answer.text)],
    }  # fmt: skip


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _events(response: dict[str, Any], answer: GeneratedAnswer) -> Iterator[Event]:
    (item,) = response["output"]
    start = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": start}
    yield {"type": "response.in_progress", "response": start}
    empty: dict[str, Any] = {"arguments": ""} if answer.tool_call else {"content": []}
    opened = {**item, "status": "in_progress", **empty}
    yield {"type": "response.output_item.added", "output_index": 0, "item": opened}
    place = {"item_id": item["id"], "output_index": 0}
    yield from (
        _call_events(answer, place) if answer.tool_call else _text_events(answer, {**place, "content_index": 0})
    )
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _call_events(answer: GeneratedAnswer, place: dict[str, Any]) -> Iterator[Event]:
    assert answer.tool_call
    kind = "response.function_call_arguments"
    yield from ({"type": f"{kind}.delta", **place, "delta": chunk} for chunk in answer.argument_chunks())
    yield {
        "type": f"{kind}.done",
        **place,
        "name": answer.tool_call.name,
        "arguments": answer.tool_call.arguments_json,
    }


def _text_events(answer: GeneratedAnswer, place: dict[str, Any]) -> Iterator[Event]:
    kind = "response.output_text"
    yield {"type": "response.content_part.added", **place, "part": _part("")}
    yield from ({"type": f"{kind}.delta", **place, "delta": chunk, "logprobs": []} for chunk in answer.text_chunks())
    yield {"type": f"{kind}.done", **place, "text": answer.text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(answer.text)}
