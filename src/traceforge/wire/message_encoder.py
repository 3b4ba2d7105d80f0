"""Messages of the unified view in a dialect's own words.

In: messages as OpenAI shapes them, with tool calls, tool results and images. Out: what a dialect says for them, so
that its reader gives the same messages back. Never: another order, or a guess: a part that is not in OpenAI's words
is handed on as it is.

    Anthropic, Gemini   what the system and the developer say stands in front, on its own; results that follow each
                        other are one message, because both demand all results of a turn together
    Gemini              a result is {"output": <content>} and bears the name of what was called
    Ollama              arguments are an object, content is a text, images stand beside it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.unified import json_text, obj, objects, parsed, text_of, without

INSTRUCTING = ("system", "developer")
_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def instructions(messages: Iterable[JSONObject]) -> list[JSON]:
    """What the system and the developer say, in order; an empty text says nothing, and neither provider takes one."""
    said = [message.get("content") for message in messages if message.get("role") in INSTRUCTING]
    return [content for content in said if content != ""]


def _turns(messages: Sequence[JSONObject]) -> Iterator[list[JSONObject]]:
    """The conversation without its instructions: each message on its own, results that follow each other together."""
    rest = [message for message in messages if message.get("role") not in INSTRUCTING]
    for is_result, group in groupby(rest, lambda message: message.get("role") == "tool"):
        together = list(group)
        yield from [together] if is_result else ([message] for message in together)


def _arguments(call: JSONObject) -> JSON:
    """An object where the text is one; some servers write nothing for no arguments."""
    written = obj(call.get("function")).get("arguments")
    return parsed(written) if written else {}


def _learn(message: JSONObject, names: dict[str, JSON]) -> None:
    """Remember what the calls of a message are called: a result may come for them, and an id may come again."""
    for call in objects(message.get("tool_calls")):
        if isinstance(call.get("id"), str):
            names[text_of(call["id"])] = obj(call.get("function")).get("name")


def _texts(content: JSON) -> str:
    if isinstance(content, str):
        return content
    return "".join(text_of(part.get("text")) for part in objects(content))


def _image(part: JSONObject) -> tuple[str, str] | None:
    """The media type and the base64 of an image that stands in the request itself."""
    found = _DATA_URL.fullmatch(text_of(obj(part.get("image_url")).get("url")))
    return (found[1], found[2]) if part.get("type") == "image_url" and found else None


# Anthropic


def anthropic_system(messages: Sequence[JSONObject]) -> JSON:
    """What stands in front: a text where there is one only, else a block for each; None where there is nothing."""
    said = instructions(messages)
    if len(said) < 2:
        return _anthropic_content(said[0]) if said else None
    return [block for content in said for block in _blocks(content)]


def anthropic_messages(messages: Sequence[JSONObject]) -> list[JSON]:
    """The conversation behind it."""
    return [_anthropic_turn(turn) for turn in _turns(messages)]


def _anthropic_turn(turn: list[JSONObject]) -> JSON:
    first = turn[0]
    if first.get("role") == "tool":
        return {"role": "user", "content": [_anthropic_result(message) for message in turn]}
    calls = objects(first.get("tool_calls"))
    if not calls:
        return {**first, "content": _anthropic_content(first.get("content"))} if "content" in first else first
    used: list[JSON] = [
        {
            "type": "tool_use",
            "id": call.get("id"),
            "name": obj(call.get("function")).get("name"),
            "input": _arguments(call),
        }
        for call in calls
    ]
    return {**without(first, ("tool_calls",)), "content": [*_blocks(first.get("content")), *used]}


def _anthropic_result(message: JSONObject) -> JSONObject:
    block: JSONObject = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    if message.get("content") is not None:
        block["content"] = _anthropic_content(message["content"])
    return {**block, **without(message, ("role", "tool_call_id", "content", "name"))}


def _blocks(content: JSON) -> list[JSON]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    listed = _anthropic_content(content)
    return listed if isinstance(listed, list) else []


def _anthropic_content(content: JSON) -> JSON:
    if not isinstance(content, list):
        return content
    return [_anthropic_part(part) if isinstance(part, dict) else part for part in content]


def _anthropic_part(part: JSONObject) -> JSON:
    image = _image(part)
    if image:
        return {"type": "image", "source": {"type": "base64", "media_type": image[0], "data": image[1]}}
    if part.get("type") == "image_url":
        return {"type": "image", "source": {"type": "url", "url": obj(part.get("image_url")).get("url")}}
    return part


# Gemini


def gemini_system(messages: Sequence[JSONObject]) -> list[JSON]:
    """The parts that stand in front."""
    return [part for content in instructions(messages) for part in _parts(content)]


def gemini_contents(messages: Sequence[JSONObject]) -> list[JSON]:
    """The conversation behind them."""
    names: dict[str, JSON] = {}
    return [_gemini_turn(turn, names) for turn in _turns(messages)]


def _gemini_turn(turn: list[JSONObject], names: dict[str, JSON]) -> JSON:
    first = turn[0]
    _learn(first, names)
    role = text_of(first.get("role"))
    if role == "tool":
        return {"role": "user", "parts": [_gemini_result(message, names) for message in turn]}
    calls: list[JSON] = [_gemini_call(call) for call in objects(first.get("tool_calls"))]
    content = first.get("content")
    said = [] if calls and not content else _parts(content)
    return {"role": "model" if role == "assistant" else role, "parts": [*said, *calls]}


def _gemini_call(call: JSONObject) -> JSONObject:
    called: JSONObject = {"name": obj(call.get("function")).get("name"), "args": _arguments(call)}
    return {"functionCall": {"id": call["id"], **called} if call.get("id") is not None else called}


def _gemini_result(message: JSONObject, names: dict[str, JSON]) -> JSONObject:
    call_id = message.get("tool_call_id")
    name = message.get("name") or names.get(text_of(call_id))
    result: JSONObject = {"name": name, "response": {"output": message.get("content")}}
    return {"functionResponse": {"id": call_id, **result} if call_id is not None else result}


def _parts(content: JSON) -> list[JSON]:
    if isinstance(content, str):
        return [{"text": content}]
    return [_gemini_part(part) for part in objects(content)]


def _gemini_part(part: JSONObject) -> JSONObject:
    image = _image(part)
    if image:
        return {"inlineData": {"mimeType": image[0], "data": image[1]}}
    return {"text": part.get("text")} if part.keys() == {"type", "text"} else part


# Ollama


def ollama_messages(messages: Sequence[JSONObject]) -> list[JSON]:
    """The messages, one for one."""
    names: dict[str, JSON] = {}
    return [_ollama_message(message, names) for message in messages]


def _ollama_message(message: JSONObject, names: dict[str, JSON]) -> JSON:
    told = dict(message)
    _learn(message, names)
    if told.get("role") == "developer":
        told["role"] = "system"
    content = told.get("content")
    if isinstance(content, list):
        told["content"] = _texts(content) if _speaks_openai(content) else json_text(content)
        images = [image[1] for part in objects(content) if (image := _image(part))]
        if images:
            told["images"] = cast("list[JSON]", images)
    calls = objects(told.get("tool_calls"))
    if calls:
        told["content"] = told.get("content") or ""
        told["tool_calls"] = [_ollama_call(call) for call in calls]
    if told.get("role") == "tool":
        name = told.get("name") or names.get(text_of(told.get("tool_call_id")))
        told = {**without(told, ("name",)), **({"tool_name": name} if name else {})}
    return told


def _speaks_openai(content: list[JSON]) -> bool:
    return all(isinstance(part, dict) and part.get("type") in ("text", "image_url") for part in content)


def _ollama_call(call: JSONObject) -> JSONObject:
    function: JSONObject = {"name": obj(call.get("function")).get("name"), "arguments": _arguments(call)}
    return {**without(call, ("type", "function")), "function": function}
