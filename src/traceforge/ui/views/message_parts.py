"""One message as the parts that a page shows: texts, pictures, tool calls, results, reasoning and everything else.

In: a message of the unified view, in which parts are in the format of their provider. Out: one `MessagePart` or more
for every part. Never: leaves a part or a field of a part out: what has no form of its own is shown as JSON.

    OpenAI chat        text, image_url, input_audio, file, refusal; tool_calls beside them
    OpenAI Responses   items (message, reasoning, function_call, function_call_output) and input_text, input_image
    Anthropic          text, thinking, image, document, tool_use, tool_result, server tools
    Gemini             text, thought, inlineData, fileData, functionCall, functionResponse
    Ollama             images (base64) and thinking beside the text
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from traceforge.canon import JSON, JSONObject
from traceforge.ui.views.image_view import decode_text, find_image_address, split_data_address
from traceforge.ui.views.text_view import format_size
from traceforge.wire.unified import as_object, as_text, list_objects, parse_or_keep, without_fields

PartKind = Literal["text", "reasoning", "refusal", "image", "attachment", "tool_call", "tool_result", "json"]

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_IMAGE_TYPES = frozenset({"image_url", "input_image", "image"})
_FILE_TYPES = frozenset({"input_audio", "audio", "file", "input_file", "document", "video_url"})
_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output", "mcp_tool_result"})
_CALL_FIELDS = ("type", "id", "call_id", "name", "input", "arguments", "args")
_RESULT_FIELDS = ("type", "tool_use_id", "call_id", "id", "content", "output", "name", "response", "is_error")
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "parts", "refusal", "is_error", "type")
_REASONING_FIELDS = ("reasoning", "reasoning_content", "thinking")


@dataclass(frozen=True)
class MessagePart:
    """One part. `text` is shown unless it is empty, `value` as JSON unless it is None, `other` are further fields."""

    kind: PartKind
    title: str = ""  # the name of a tool or a file, the type of a picture
    text: str = ""
    value: JSON = None
    image: str = ""  # a `data:` address that `image_view` wrote
    call_id: str = ""  # of a tool call, and of the result that answers it
    is_error: bool = False
    parts: tuple[MessagePart, ...] = ()  # the content of a result
    other: JSONObject = field(default_factory=dict)


def list_parts(message: JSONObject) -> list[MessagePart]:
    """Every part of a message, in the provider's order where it is known."""
    native = message.get("parts")
    if isinstance(native, dict) and not isinstance(native.get("parts"), list):
        return list_parts(without_fields(native, ("parts",)))  # Ollama's own message.
    if isinstance(native, dict):
        parts = [*_content_parts(native["parts"]), *_json_parts(without_fields(native, ("parts", "role")))]
    else:
        parts = _content_parts(native)
    kinds = {part.kind for part in parts}
    plain_parts = [part for part in _plain_parts(message) if native is None or part.kind not in kinds]
    return [*parts, *plain_parts, *_json_parts(_other_fields(message))]


def _plain_parts(message: JSONObject) -> Iterator[MessagePart]:
    """The fields of the unified view."""
    reasoning = [text for name in _REASONING_FIELDS if (text := as_text(message.get(name)))]
    yield from (MessagePart("reasoning", text=text) for text in dict.fromkeys(reasoning))
    if message.get("role") in ("tool", "function"):
        yield _result_part(message, as_text(message.get("tool_call_id")))
    else:
        yield from _content_parts(message.get("content"))
    if message.get("refusal"):
        yield MessagePart("refusal", text=as_text(message["refusal"]) or str(message["refusal"]))
    yield from map(_tool_call_part, list_objects(message.get("tool_calls")))
    images = message.get("images")
    if isinstance(images, list):  # Ollama's
        yield from (_image_part("", as_text(image), {}) for image in images)


def _other_fields(message: JSONObject) -> JSONObject:
    left_out = {*_MESSAGE_FIELDS, *(name for name in _REASONING_FIELDS if isinstance(message.get(name), str))}
    if isinstance(message.get("images"), list):
        left_out.add("images")
    return _meaningful(without_fields(message, left_out))


def _json_parts(fields: JSONObject) -> list[MessagePart]:
    meaningful = _meaningful(fields)
    return [MessagePart("json", "other fields", value=meaningful)] if meaningful else []


def _content_parts(content: JSON) -> list[MessagePart]:
    if content is None or content == "":
        return []
    items = content if isinstance(content, list) else [content]
    return [part for item in items for part in _item_parts(item)]


def _item_parts(item: JSON) -> list[MessagePart]:
    if isinstance(item, str):
        return [MessagePart("text", text=item)]
    if not isinstance(item, dict):
        return [MessagePart("json", value=item)]
    kind = as_text(item.get("type"))
    if kind == "message" and isinstance(item.get("content"), list):  # An item of the Responses API.
        inner = _content_parts(item["content"])
        return [*inner, *_json_parts(without_fields(item, ("type", "role", "content", "id", "status")))]
    if kind in ("thinking", "redacted_thinking", "reasoning"):
        return [_reasoning_part(item)]
    if isinstance(item.get("text"), str) and (kind in _TEXT_TYPES or not kind):
        part_kind: PartKind = "reasoning" if item.get("thought") else "text"
        return [
            MessagePart(part_kind, text=str(item["text"]), other=_remaining_fields(item, "type", "text", "thought"))
        ]
    if kind == "refusal":
        return [
            MessagePart(
                "refusal", text=as_text(item.get("refusal")), other=_remaining_fields(item, "type", "refusal")
            )
        ]
    if kind in _CALL_TYPES:
        return [_call_item_part(item)]
    if kind in _RESULT_TYPES or kind.endswith("_tool_result"):
        return [_result_part(item, as_text(item.get("tool_use_id") or item.get("call_id")))]
    return [_media_part(item, kind) or _gemini_part(item) or MessagePart("json", kind, value=item)]


def _reasoning_part(item: JSONObject) -> MessagePart:
    """Reasoning, in one text or in a list of texts; what is encrypted is listed with its other fields."""
    texts = [as_text(item.get("thinking"))]
    for name in ("summary", "content", "thinking"):
        texts += [as_text(part.get("text")) for part in list_objects(item.get(name))]
    fields = ("type", "thinking", "summary", "content", "id", "status")
    text = "\n\n".join(text for text in texts if text)
    return MessagePart("reasoning", text=text, other=_meaningful(without_fields(item, fields)))


def _tool_call_part(call: JSONObject) -> MessagePart:
    """A tool call of the unified view."""
    kind = "custom" if isinstance(call.get("custom"), dict) else "function"
    body = as_object(call.get(kind))
    arguments = body.get("arguments", body.get("input"))
    other = {**without_fields(call, ("id", "type", kind)), **without_fields(body, ("name", "arguments", "input"))}
    return _call_part(body.get("name"), call.get("id"), arguments, other)


def _call_item_part(item: JSONObject) -> MessagePart:
    arguments = item.get("input", item.get("arguments"))
    other = without_fields(item, (*_CALL_FIELDS, "status"))
    return _call_part(item.get("name"), item.get("call_id") or item.get("id"), arguments, other)


def _call_part(name: JSON, call_id: JSON, arguments: JSON, other: JSONObject) -> MessagePart:
    value = parse_or_keep(arguments)
    is_text = isinstance(value, str)
    return MessagePart(
        "tool_call",
        as_text(name),
        text=str(value) if is_text else "",
        value=None if is_text else value,
        call_id=as_text(call_id),
        other=_meaningful(other),
    )


def _result_part(item: JSONObject, call_id: str) -> MessagePart:
    content = item.get("content", item.get("output", item.get("response")))
    is_message = "role" in item
    fields = (*_RESULT_FIELDS, *_MESSAGE_FIELDS) if is_message else _RESULT_FIELDS
    return MessagePart(
        "tool_result",
        as_text(item.get("name")) or ("" if is_message else as_text(item.get("type"))),
        call_id=call_id,
        is_error=item.get("is_error") is True,
        parts=tuple(_content_parts(content)),
        other={} if is_message else _meaningful(without_fields(item, fields)),
    )


def _gemini_part(item: JSONObject) -> MessagePart | None:
    """A part that has no type and is named by its key."""
    call, result = as_object(item.get("functionCall")), as_object(item.get("functionResponse"))
    inline = as_object(item.get("inlineData", item.get("inline_data")))
    file = as_object(item.get("fileData", item.get("file_data")))
    if call:
        other = {**without_fields(item, ("functionCall",)), **without_fields(call, ("name", "id", "args"))}
        return _call_part(call.get("name"), call.get("id"), call.get("args", {}), other)
    if result:
        return _result_part(result, as_text(result.get("id")))
    if inline:
        other = without_fields(item, ("inlineData", "inline_data"))
        return _image_part(_media_type(inline), as_text(inline.get("data")), other)
    if file:
        address = as_text(file.get("fileUri", file.get("file_uri")))
        other = without_fields(item, ("fileData", "file_data"))
        return MessagePart("attachment", _media_type(file) or "file", text=address, other=_meaningful(other))
    return None


def _media_type(source: JSONObject) -> str:
    return as_text(source.get("mimeType") or source.get("mime_type") or source.get("media_type"))


def _media_part(item: JSONObject, kind: str) -> MessagePart | None:
    """A picture, a recording or a file of OpenAI's and Anthropic's formats."""
    if kind not in _IMAGE_TYPES and kind not in _FILE_TYPES:
        return None
    body = item.get(kind, item.get("source", item.get("image_url")))
    source = as_object(body)
    address = body if isinstance(body, str) else as_text(source.get("url"))
    data = as_text(source.get("data") or source.get("file_data") or item.get("file_data") or item.get("data"))
    if kind in _IMAGE_TYPES and (address or data):
        other = {
            **_remaining_fields(item, "type", kind, "source", "image_url"),
            **_remaining_fields(source, "url", "data", "media_type", "type"),
        }
        split = split_data_address(address)
        if split is None and address:
            return MessagePart("image", "image, not loaded", text=address, other=_meaningful(other))
        media_type, content = split or (_media_type(source), data)
        return _image_part(media_type, content, other)
    if data and kind not in _IMAGE_TYPES:
        fields = {**without_fields(item, (kind, "source", "type", "data")), **source}
        other = _meaningful(without_fields(fields, ("data", "file_data", "type")))
        return MessagePart("attachment", f"{kind}, {format_size(len(data))} of base64", other=other)
    return MessagePart("attachment", kind, text=address, other=_remaining_fields(item, "type") if not address else {})


def _image_part(media_type: str, data: str, other: JSONObject) -> MessagePart:
    """A picture that is part of the call: shown if it is one that we show, else described."""
    meaningful = _meaningful(other)
    address = find_image_address(media_type, data)
    size = format_size(len(data))
    if media_type.lower().startswith("image/svg"):
        return MessagePart("attachment", f"{media_type}, shown as text", text=decode_text(data), other=meaningful)
    if address is None:
        title = f"{media_type or 'image'}, {size} of base64, not shown"
        return MessagePart("attachment", title, other=meaningful)
    return MessagePart("image", f"{media_type or 'image'}, {size} of base64", image=address, other=meaningful)


def _remaining_fields(item: JSONObject, *names: str) -> JSONObject:
    return _meaningful(without_fields(item, names))


def _meaningful(fields: JSONObject) -> JSONObject:
    """The fields that say something: not null, and not empty."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}
