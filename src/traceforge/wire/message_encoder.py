"""Unified messages in the format of a dialect.

In: messages in OpenAI's shape, with tool calls, tool results and images. Out: the messages of a dialect, which its
decoder turns back into the same messages. Never: another order, or a guess: a part that is not in OpenAI's shape is
passed on as it is.

    Anthropic, Gemini   system and developer messages go into a field of their own; consecutive tool results are one
                        message, because both APIs require all results of a turn together
    Gemini              a tool result is {"output": <content>} with the name of the function
    Ollama              arguments are an object, content is a text, images are a field of the message
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.unified import as_object, as_text, json_text, list_objects, parse_or_keep, without_fields

INSTRUCTION_ROLES = ("system", "developer")
_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def list_instructions(messages: Iterable[JSONObject]) -> list[JSON]:
    """The contents of system and developer messages, in order, without empty texts, which no provider accepts."""
    contents = [message.get("content") for message in messages if message.get("role") in INSTRUCTION_ROLES]
    return [content for content in contents if content != ""]


def _turns(messages: Sequence[JSONObject]) -> Iterator[list[JSONObject]]:
    """The conversation without its instructions: each message on its own, results that follow each other together."""
    conversation = [message for message in messages if message.get("role") not in INSTRUCTION_ROLES]
    for is_result, group in groupby(conversation, lambda message: message.get("role") == "tool"):
        turn = list(group)
        yield from [turn] if is_result else ([message] for message in turn)


def _arguments(call: JSONObject) -> JSON:
    """An object where the text is one; some servers write nothing for no arguments."""
    arguments_text = as_object(call.get("function")).get("arguments")
    return parse_or_keep(arguments_text) if arguments_text else {}


def _remember_tool_names(message: JSONObject, names: dict[str, JSON]) -> None:
    """Remember what the calls of a message are called: a result may come for them, and an id may come again."""
    for call in list_objects(message.get("tool_calls")):
        if isinstance(call.get("id"), str):
            names[as_text(call["id"])] = as_object(call.get("function")).get("name")


def _texts(content: JSON) -> str:
    if isinstance(content, str):
        return content
    return "".join(as_text(part.get("text")) for part in list_objects(content))


def _image(part: JSONObject) -> tuple[str, str] | None:
    """The media type and the base64 text of an image that the request contains."""
    match = _DATA_URL.fullmatch(as_text(as_object(part.get("image_url")).get("url")))
    return (match[1], match[2]) if part.get("type") == "image_url" and match else None


# Anthropic


def anthropic_system(messages: Sequence[JSONObject]) -> JSON:
    """The `system` field: the text of a single instruction, else a block for each; None without instructions."""
    instructions = list_instructions(messages)
    if len(instructions) < 2:
        return _anthropic_content(instructions[0]) if instructions else None
    return [block for content in instructions for block in _blocks(content)]


def anthropic_messages(messages: Sequence[JSONObject]) -> list[JSON]:
    """The messages without the instructions."""
    return [_anthropic_turn(turn) for turn in _turns(messages)]


def _anthropic_turn(turn: list[JSONObject]) -> JSON:
    first = turn[0]
    if first.get("role") == "tool":
        return {"role": "user", "content": [_anthropic_result(message) for message in turn]}
    calls = list_objects(first.get("tool_calls"))
    if not calls:
        return {**first, "content": _anthropic_content(first.get("content"))} if "content" in first else first
    tool_uses: list[JSON] = [
        {
            "type": "tool_use",
            "id": call.get("id"),
            "name": as_object(call.get("function")).get("name"),
            "input": _arguments(call),
        }
        for call in calls
    ]
    return {**without_fields(first, ("tool_calls",)), "content": [*_blocks(first.get("content")), *tool_uses]}


def _anthropic_result(message: JSONObject) -> JSONObject:
    block: JSONObject = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    if message.get("content") is not None:
        block["content"] = _anthropic_content(message["content"])
    return {**block, **without_fields(message, ("role", "tool_call_id", "content", "name"))}


def _blocks(content: JSON) -> list[JSON]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = _anthropic_content(content)
    return blocks if isinstance(blocks, list) else []


def _anthropic_content(content: JSON) -> JSON:
    if not isinstance(content, list):
        return content
    return [_anthropic_part(part) if isinstance(part, dict) else part for part in content]


def _anthropic_part(part: JSONObject) -> JSON:
    image = _image(part)
    if image:
        return {"type": "image", "source": {"type": "base64", "media_type": image[0], "data": image[1]}}
    if part.get("type") == "image_url":
        return {"type": "image", "source": {"type": "url", "url": as_object(part.get("image_url")).get("url")}}
    return part


# Gemini


def gemini_system(messages: Sequence[JSONObject]) -> list[JSON]:
    """The parts of the system instruction."""
    return [part for content in list_instructions(messages) for part in _parts(content)]


def gemini_contents(messages: Sequence[JSONObject]) -> list[JSON]:
    """The contents without the instructions."""
    names: dict[str, JSON] = {}
    return [_gemini_turn(turn, names) for turn in _turns(messages)]


def _gemini_turn(turn: list[JSONObject], names: dict[str, JSON]) -> JSON:
    first = turn[0]
    _remember_tool_names(first, names)
    role = as_text(first.get("role"))
    if role == "tool":
        return {"role": "user", "parts": [_gemini_result(message, names) for message in turn]}
    calls: list[JSON] = [_gemini_call(call) for call in list_objects(first.get("tool_calls"))]
    content = first.get("content")
    parts = [] if calls and not content else _parts(content)
    return {"role": "model" if role == "assistant" else role, "parts": [*parts, *calls]}


def _gemini_call(call: JSONObject) -> JSONObject:
    function_call: JSONObject = {"name": as_object(call.get("function")).get("name"), "args": _arguments(call)}
    return {"functionCall": {"id": call["id"], **function_call} if call.get("id") is not None else function_call}


def _gemini_result(message: JSONObject, names: dict[str, JSON]) -> JSONObject:
    call_id = message.get("tool_call_id")
    name = message.get("name") or names.get(as_text(call_id))
    result: JSONObject = {"name": name, "response": {"output": message.get("content")}}
    return {"functionResponse": {"id": call_id, **result} if call_id is not None else result}


def _parts(content: JSON) -> list[JSON]:
    if isinstance(content, str):
        return [{"text": content}]
    return [_gemini_part(part) for part in list_objects(content)]


def _gemini_part(part: JSONObject) -> JSONObject:
    image = _image(part)
    if image:
        return {"inlineData": {"mimeType": image[0], "data": image[1]}}
    return {"text": part.get("text")} if part.keys() == {"type", "text"} else part


# Ollama


def ollama_messages(messages: Sequence[JSONObject]) -> list[JSON]:
    """One message for each unified message."""
    names: dict[str, JSON] = {}
    return [_ollama_message(message, names) for message in messages]


def _ollama_message(message: JSONObject, names: dict[str, JSON]) -> JSON:
    encoded = dict(message)
    _remember_tool_names(message, names)
    if encoded.get("role") == "developer":
        encoded["role"] = "system"
    content = encoded.get("content")
    if isinstance(content, list):
        encoded["content"] = _texts(content) if _has_openai_parts(content) else json_text(content)
        images = [image[1] for part in list_objects(content) if (image := _image(part))]
        if images:
            encoded["images"] = cast("list[JSON]", images)
    calls = list_objects(encoded.get("tool_calls"))
    if calls:
        encoded["content"] = encoded.get("content") or ""
        encoded["tool_calls"] = [_ollama_call(call) for call in calls]
    if encoded.get("role") == "tool":
        name = encoded.get("name") or names.get(as_text(encoded.get("tool_call_id")))
        encoded = {**without_fields(encoded, ("name",)), **({"tool_name": name} if name else {})}
    return encoded


def _has_openai_parts(content: list[JSON]) -> bool:
    return all(isinstance(part, dict) and part.get("type") in ("text", "image_url") for part in content)


def _ollama_call(call: JSONObject) -> JSONObject:
    function: JSONObject = {"name": as_object(call.get("function")).get("name"), "arguments": _arguments(call)}
    return {**without_fields(call, ("type", "function")), "function": function}
