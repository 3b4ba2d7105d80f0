"""Read requests of OpenAI's API as messages and parameters.

In: the body of `/v1/chat/completions` or `/v1/responses`. Out: messages in the unified view, and parameters under
their names in a chat completion. Never: ignores a field that changes the answer: one that is not supported is refused
by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject
from traceforge.errors import StoreRefused
from traceforge.wire.openai import chat, responses
from traceforge.wire.unified import as_object, as_text, list_objects, without_fields

# For OpenAI's accounting: no other provider accepts them, and none of them changes an answer.
_BOOKS = (
    *("store", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    *("service_tier", "stream_options"),
)
_STATEFUL = ("previous_response_id", "conversation", "prompt", "background")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_ITEMS = ("message", "function_call", "function_call_output", "reasoning")
_SILENT = ("truncation", "include", "max_output_tokens", "parallel_tool_calls")  # Handled elsewhere, or the default.


class OpenAIRequest(NamedTuple):
    """A request of either endpoint."""

    model: str
    messages: list[JSONObject]
    parameters: JSONObject
    stream: bool
    include_usage: bool
    body: JSONObject  # As it was sent: a response object repeats fields of it.


class ConversationItem(NamedTuple):
    """A message as it is stored: a role, and a text or a value."""

    role: str
    content: JSON


def read_chat(body: JSON) -> OpenAIRequest:
    """Read the body of a chat completion.

    Raises:
        StoreRefused: it is invalid or asks for something unsupported; `param` names the field.
    """
    fields = _checked(body, "messages")
    messages = _all_objects(fields, "messages")
    for place, message in enumerate(messages):
        _check_message(message, f"messages[{place}]")
    if fields.get("n") not in (None, 1) or fields.get("n") is True:  # True equals 1 in Python.
        raise _refused("`n` must be 1", "n")
    if fields.get("tools"):
        _all_objects(fields, "tools")
    if not isinstance(fields.get("response_format"), dict | None):
        raise _refused("response_format must be an object", "response_format")
    unified = without_fields(chat.decode_request(fields), ("model", "messages", "stream", "n", *_BOOKS))
    parameters = _echoed_fields(unified)
    options = as_object(fields.get("stream_options"))
    return _build_request(fields, messages, parameters, include_usage=options.get("include_usage") is True)


def read_responses(body: JSON) -> OpenAIRequest:
    """Read the body of `/v1/responses`; raises as `read_chat`."""
    fields = _checked(body, "input")
    for name in _STATEFUL:
        if fields.get(name) is not None and fields[name] is not False:  # 0 equals False in Python.
            raise _refused(f"{name} is not supported: send the complete conversation in input", name)
    if not isinstance(fields["input"], str):
        for place, item in enumerate(_all_objects(fields, "input")):
            _check_item(item, f"input[{place}]")
    if not isinstance(fields.get("instructions"), str | None):
        raise _refused("instructions must be a text", "instructions")
    unified = responses.decode_request(fields)
    messages = list(_joined(_chat_message(message) for message in list_objects(unified["messages"])))
    if not messages:
        raise _refused("input must contain a message, not only reasoning", "input")
    parameter_fields = without_fields(
        unified, ("model", "messages", "stream", "tools", "tool_choice", "text", "reasoning", *_SILENT, *_BOOKS)
    )
    parameters = _echoed_fields(parameter_fields)
    if fields.get("tools"):
        parameters["tools"] = [_chat_tool(tool, place) for place, tool in enumerate(_all_objects(fields, "tools"))]
    if fields.get("tool_choice") is not None:
        parameters["tool_choice"] = _chat_choice(fields["tool_choice"])
    if fields.get("parallel_tool_calls") is False:
        parameters["parallel_tool_calls"] = False
    wanted = as_object(as_object(fields.get("text")).get("format"))
    if wanted.get("type") not in (None, "text"):
        parameters["response_format"] = _chat_format(wanted)
    effort = as_object(fields.get("reasoning")).get("effort")
    if effort is not None:
        parameters["reasoning_effort"] = effort
    return _build_request(fields, messages, parameters, include_usage=True)


def to_items(messages: Sequence[JSONObject]) -> list[ConversationItem]:
    """Messages as items of a bundle; rendering the items gives the same messages."""
    return [ConversationItem(as_text(message.get("role")), _stored_content(message)) for message in messages]


def _stored_content(message: JSONObject) -> JSON:
    if message.keys() == {"role", "content"} and isinstance(message["content"], str):
        return message["content"]
    return message


def _build_request(
    body: JSONObject, messages: list[JSONObject], parameters: JSONObject, *, include_usage: bool
) -> OpenAIRequest:
    return OpenAIRequest(
        as_text(body["model"]), messages, parameters, body.get("stream") is True, include_usage, body
    )


def _echoed_fields(fields: JSONObject) -> JSONObject:
    """The fields without those that are null."""
    return {name: value for name, value in fields.items() if value is not None}


def _refused(message: str, param: str | None) -> StoreRefused:
    return StoreRefused(message, reason="invalid_request", param=param)


def _checked(body: JSON, needed: str) -> JSONObject:
    if not isinstance(body, dict):
        raise _refused("the body must be a JSON object", None)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise _refused("model must be the name of an alias", "model")
    if not body.get(needed):
        raise _refused(f"{needed} must not be empty", needed)
    if not isinstance(body.get("stream"), bool | None):
        raise _refused("stream must be true or false", "stream")
    return body


def _all_objects(body: JSONObject, name: str) -> list[JSONObject]:
    value = body[name]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _refused(f"{name} must be a list of objects", name)
    return cast("list[JSONObject]", value)


def _check_message(message: JSONObject, at: str) -> None:
    if message.get("role") not in _ROLES:
        raise _refused(f"{at}.role must be one of {', '.join(_ROLES)}", f"{at}.role")
    content = message.get("content")
    may_lack = message["role"] == "assistant" and content is None
    if not isinstance(content, str | list) and not may_lack:
        raise _refused(f"{at}.content must be a text or a list of parts", f"{at}.content")
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise _refused(f"{at}.tool_call_id must name a tool call", f"{at}.tool_call_id")


def _check_item(item: JSONObject, at: str) -> None:
    kind = item.get("type", "message")
    if kind not in _ITEMS:
        raise _refused(f"{at} has the type {as_text(kind) or 'null'}, which only OpenAI can read", f"{at}.type")
    if kind == "message":
        _check_message(item, at)


# The Responses format, converted to that of a chat completion


def _chat_message(message: JSONObject) -> JSONObject:
    content = message.get("content")
    built = without_fields(message, ("id", "status", "phase"))
    if isinstance(content, list):
        parts: list[JSON] = [_chat_part(part) for part in list_objects(content) if part.get("type") != "reasoning"]
        texts = [as_text(as_object(part).get("text")) for part in parts]
        plain = len(parts) == 1 and as_object(parts[0]).keys() == {"type", "text"}
        built["content"] = texts[0] if plain else parts
    return built


def _chat_part(part: JSONObject) -> JSONObject:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": part.get("text")}
    if kind == "input_image" and part.get("image_url") is not None:
        detail = {"detail": part["detail"]} if part.get("detail") not in (None, "auto") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    if kind in ("input_image", "input_file") and part.get("file_id") is not None:
        raise _refused("a file at OpenAI cannot be read by other providers: send its content", "input")
    if kind == "input_file":
        return {"type": "file", "file": without_fields(part, ("type",))}
    return part


def _joined(messages: Iterator[JSONObject]) -> Iterator[JSONObject]:
    """Join the items of one answer: tool calls belong to the assistant message before them."""
    last: JSONObject | None = None
    for message in messages:
        if message.get("role") == "assistant" and message.get("content") == []:
            continue  # Reasoning that only its provider can read.
        calls = list_objects(message.get("tool_calls"))
        if calls and last is not None and last.get("role") == "assistant":
            last = {**last, "tool_calls": cast("list[JSON]", [*list_objects(last.get("tool_calls")), *calls])}
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _chat_tool(tool: JSONObject, place: int) -> JSON:
    if tool.get("type") != "function":
        raise _refused("tools must be functions: other tools run only at OpenAI", f"tools[{place}].type")
    return {"type": "function", "function": _echoed_fields(without_fields(tool, ("type",)))}


def _chat_choice(choice: JSON) -> JSON:
    if isinstance(choice, str):
        return choice
    name = as_object(choice).get("name")
    if as_object(choice).get("type") != "function" or not isinstance(name, str):
        raise _refused("tool_choice must be auto, none, required or a function", "tool_choice")
    return {"type": "function", "function": {"name": name}}


def _chat_format(wanted: JSONObject) -> JSON:
    if wanted.get("type") == "json_schema":
        return {"type": "json_schema", "json_schema": without_fields(wanted, ("type",))}
    return wanted
