"""Answers in the format of OpenAI.

In: an assistant message in the unified view. Out: a chat completion or a response object, with the fields that
OpenAI's has. Never: a field of TraceForge, or a value that only another provider uses.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject
from traceforge.context.responses.openai_shape.openai_requests import OpenAIRequest
from traceforge.wire.openai import chat, responses
from traceforge.wire.unified import as_object, as_text, is_number, list_objects, without_fields

_FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter")


class AnswerHeading(NamedTuple):
    """The id stem of an answer, the alias of the request, and the time of creation (seconds since 1970)."""

    name: str
    model: str
    created: int


class OpenAIAnswer(NamedTuple):
    """An answer; counts are None if the provider sent none."""

    message: JSONObject  # The assistant's, in the unified view.
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def finish(self) -> str:
        """The finish reason, as one that OpenAI has."""
        if self.finish_reason in _FINISH_REASONS:
            return self.finish_reason
        return "tool_calls" if list_objects(self.message.get("tool_calls")) else "stop"

    def plain(self) -> JSONObject:
        """The message with OpenAI's fields only."""
        content, refusal = self.message.get("content"), self.message.get("refusal")
        calls = [_call(call, place) for place, call in enumerate(list_objects(self.message.get("tool_calls")))]
        if content is None and not calls and not isinstance(refusal, str):
            content = ""
        built: JSONObject = {"role": "assistant", "content": _text(content), "refusal": refusal, "annotations": []}
        return {**built, "tool_calls": cast("list[JSON]", calls)} if calls else built


def read_answer(unified: JSONObject) -> OpenAIAnswer:
    """The first answer of a response in the unified view."""
    choice = next(iter(list_objects(unified.get("choices"))), {})
    counted = as_object(unified.get("usage"))
    reason = choice.get("finish_reason")
    return OpenAIAnswer(
        as_object(choice.get("message")),
        reason if isinstance(reason, str) else None,
        _count(counted.get("prompt_tokens")),
        _count(counted.get("completion_tokens")),
        _count(as_object(counted.get("prompt_tokens_details")).get("cached_tokens")) or 0,
        _count(as_object(counted.get("completion_tokens_details")).get("reasoning_tokens")) or 0,
    )


def chat_completion(heading: AnswerHeading, answer: OpenAIAnswer) -> JSONObject:
    """The answer of `/v1/chat/completions` that is not streamed."""
    choice: JSONObject = {"index": 0, "message": answer.plain(), "logprobs": None, "finish_reason": answer.finish}
    built: JSONObject = {**chat_head(heading, "chat.completion"), "choices": [choice]}
    counted = chat_usage(answer)
    if counted is not None:
        built["usage"] = counted
    return chat.encode_response(built)


def chat_head(heading: AnswerHeading, kind: str) -> JSONObject:
    """The first fields of a completion and of each of its chunks."""
    return {"id": f"chatcmpl-{heading.name}", "object": kind, "created": heading.created, "model": heading.model}


def chat_usage(answer: OpenAIAnswer) -> JSONObject | None:
    """The usage object of a chat completion; None if the counts are not known."""
    if answer.input_tokens is None or answer.output_tokens is None:
        return None
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens, "audio_tokens": 0},
    }


def response_object(heading: AnswerHeading, request: OpenAIRequest, answer: OpenAIAnswer) -> JSONObject:
    """The object of `/v1/responses`; it repeats fields of the request."""
    choice: JSONObject = {
        "index": 0,
        "message": without_fields(answer.plain(), ("annotations",)),
        "finish_reason": answer.finish,
    }
    unified: JSONObject = {
        "id": f"resp_{heading.name}",
        "created": heading.created,
        "model": heading.model,
        "choices": [choice],
    }
    written = responses.encode_response(unified)
    items = [_item(item, written) for item in list_objects(written["output"])]
    body = request.body
    return {
        **written,
        "output": cast("list[JSON]", items),
        "error": None,
        "incomplete_details": written.get("incomplete_details"),
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "max_output_tokens": body.get("max_output_tokens"),
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "temperature": _or(body.get("temperature"), 1.0),
        "top_p": _or(body.get("top_p"), 1.0),
        "tool_choice": _or(body.get("tool_choice"), "auto"),
        "tools": body.get("tools") or [],
        "text": body.get("text") or {"format": {"type": "text"}},
        "truncation": "disabled",
        "usage": _response_usage(answer),
    }


def _item(item: JSONObject, written: JSONObject) -> JSONObject:
    if item.get("type") != "message":
        return item
    parts: list[JSON] = [
        {**part, "logprobs": []} if part.get("type") == "output_text" else part
        for part in list_objects(item["content"])
    ]
    return {**item, "status": written.get("status"), "content": parts}


def _response_usage(answer: OpenAIAnswer) -> JSON:
    if answer.input_tokens is None or answer.output_tokens is None:
        return None
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }


def _call(call: JSONObject, place: int) -> JSONObject:
    """A tool call with an id: Gemini and Ollama may send none."""
    function = as_object(call.get("function"))
    if "custom" in call:
        return call
    function_fields: JSONObject = {"name": function.get("name"), "arguments": as_text(function.get("arguments"))}
    return {"id": call.get("id") or f"call_{place}", "type": "function", "function": function_fields}


def _text(content: JSON) -> JSON:
    if isinstance(content, list):
        return "".join(as_text(part.get("text")) for part in list_objects(content))
    return content


def _or(value: JSON, default: JSON) -> JSON:
    return default if value is None else value


def _count(value: JSON) -> int | None:
    return int(value) if is_number(value) and isinstance(value, int | float) else None
