"""What a client of OpenAI asks, as messages and parameters.

In: the body of `/v1/chat/completions` or `/v1/responses`. Out: messages in the unified view and parameters under
OpenAI's names for a chat, whichever of the two was asked. Never: a field that changes the answer passed over in
silence: what cannot be done is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject
from traceforge.errors import StoreRefused
from traceforge.wire.openai import chat, responses
from traceforge.wire.unified import as_object, as_text, list_objects, without_fields

# For OpenAI's own books; no other provider takes them, and none of them changes an answer.
_BOOKS = (
    *("store", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    *("service_tier", "stream_options"),
)
_STATEFUL = ("previous_response_id", "conversation", "prompt", "background")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_ITEMS = ("message", "function_call", "function_call_output", "reasoning")
_SILENT = ("truncation", "include", "max_output_tokens", "parallel_tool_calls")  # Said elsewhere, or the default.


class OpenAIRequest(NamedTuple):
    """A request."""

    model: str
    messages: list[JSONObject]
    parameters: JSONObject
    stream: bool
    include_usage: bool
    body: JSONObject  # As it came: an answer of Responses repeats some of it.


class ConversationItem(NamedTuple):
    """A message as something that can be stored: a role, and a text or a value."""

    role: str
    content: JSON


def read_chat(body: JSON) -> OpenAIRequest:
    """Read the body of a chat completion.

    Raises:
        StoreRefused: it is none, or asks for what cannot be done; `param` names the field.
    """
    given = _checked(body, "messages")
    messages = _all_objects(given, "messages")
    for place, message in enumerate(messages):
        _check_message(message, f"messages[{place}]")
    if given.get("n") not in (None, 1):
        raise _refused("n must be 1: an answer is one message", "n")
    if given.get("tools"):
        _all_objects(given, "tools")
    if not isinstance(given.get("response_format"), dict | None):
        raise _refused("response_format must be an object", "response_format")
    unified = without_fields(chat.decode_request(given), ("model", "messages", "stream", "n", *_BOOKS))
    parameters = _echoed_fields(unified)
    options = as_object(given.get("stream_options"))
    return _build_request(given, messages, parameters, include_usage=options.get("include_usage") is True)


def read_responses(body: JSON) -> OpenAIRequest:
    """Read the body of a response; raises the same."""
    given = _checked(body, "input")
    for name in _STATEFUL:
        if given.get(name) not in (None, False):
            raise _refused(f"{name} is not supported: give the whole conversation in input", name)
    if not isinstance(given["input"], str):
        for place, item in enumerate(_all_objects(given, "input")):
            _check_item(item, f"input[{place}]")
    if not isinstance(given.get("instructions"), str | None):
        raise _refused("instructions must be a text", "instructions")
    unified = responses.decode_request(given)
    messages = list(_joined(_chat_message(message) for message in list_objects(unified["messages"])))
    if not messages:
        raise _refused("input must hold a message: thoughts alone ask nothing", "input")
    kept = without_fields(
        unified, ("model", "messages", "stream", "tools", "tool_choice", "text", "reasoning", *_SILENT, *_BOOKS)
    )
    parameters = _echoed_fields(kept)
    if given.get("tools"):
        parameters["tools"] = [_chat_tool(tool, place) for place, tool in enumerate(_all_objects(given, "tools"))]
    if given.get("tool_choice") is not None:
        parameters["tool_choice"] = _chat_choice(given["tool_choice"])
    if given.get("parallel_tool_calls") is False:
        parameters["parallel_tool_calls"] = False
    wanted = as_object(as_object(given.get("text")).get("format"))
    if wanted.get("type") not in (None, "text"):
        parameters["response_format"] = _chat_format(wanted)
    effort = as_object(given.get("reasoning")).get("effort")
    if effort is not None:
        parameters["reasoning_effort"] = effort
    return _build_request(given, messages, parameters, include_usage=True)


def to_items(messages: Sequence[JSONObject]) -> list[ConversationItem]:
    """Messages as items of a bundle, in their order; rendered, they are these messages again."""
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
    """Without those that are null, which say nothing."""
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
        raise _refused(f"{at}.tool_call_id must name the call that this is the result of", f"{at}.tool_call_id")


def _check_item(item: JSONObject, at: str) -> None:
    kind = item.get("type", "message")
    if kind not in _ITEMS:
        raise _refused(f"{at} is a {as_text(kind) or 'thing'} that only OpenAI can read", f"{at}.type")
    if kind == "message":
        _check_message(item, at)


# The words of Responses in those of a chat


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
        raise _refused("a file of OpenAI's cannot be read by another provider: give its content", "input")
    if kind == "input_file":
        return {"type": "file", "file": without_fields(part, ("type",))}
    return part


def _joined(messages: Iterator[JSONObject]) -> Iterator[JSONObject]:
    """One message for an answer: items of calls belong to the assistant's message in front of them."""
    last: JSONObject | None = None
    for message in messages:
        if message.get("role") == "assistant" and message.get("content") == []:
            continue  # A thought that only its provider can read.
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
        raise _refused("tools must be functions: others run at OpenAI alone", f"tools[{place}].type")
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
