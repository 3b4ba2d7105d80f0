"""Renderer revision rr_1: a message for each block, tools and schemas as parameters.

Released; never changed. What it takes from `wire` belongs to it: the encoders of messages, parameters and requests,
and the decoder of responses. tests/golden/rendered-rr_1.json holds what it renders, byte for byte. If one of those
encoders has to write something else, add a revision and let this one keep its own copy of the old encoder.

Messages are in the unified view, parameters in the dialect of the provider. Never: reorders or leaves out a block, or
lets a message depend on a later block: the messages of a prefix of the manifest are a prefix of its messages.

A block is one message in its role, except that

    tool_bundle_source    is the `tools` parameter, where it is JSON in the words of OpenAI, Anthropic, Gemini or MCP
    response_schema       is the response format, where it is JSON: a JSON Schema, or OpenAI's `response_format`
    an image              is an image part of a user's message; bytes of text are their text; other bytes are refused
    a tool result         answers a call of the assistant's message in front of it, directly or behind other results;
                          one that answers none is sent as the user's, because no provider accepts it otherwise

A value is sent as canonical JSON, unless it is a message or its parts:

    {"content": …}                            a message; its role is the block's, also if it names another
    {"content": …, "tool_calls": [ … ]}       the assistant's; an answer in the unified view is one
    {"tool_call_id": …, "content": …}         a tool's; without `content`, the other fields are the result
    [{"type": "text", "text": …}, …]          parts, in the dialect of any provider

Of an answer in the unified view, a provider is sent what it accepts back: content, tool calls, a refusal if it has
refusals; or, instead of those, the provider's own parts if they are in its dialect. A checkpoint, a note and
retrieved content are sent as they are, in the user's role.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import cast

from traceforge.canon import JSON, JSONObject, canonical_bytes, encode_utf8, parse_json
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import ArtifactType
from traceforge.context.responses.rendered_request import RenderedPrompt, RenderedRequest
from traceforge.errors import NotJSON, StoreRefused
from traceforge.wire.dialects import find_dialect_module
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind
from traceforge.wire.parameter_encoder import encode_parameters
from traceforge.wire.request_encoder import encode_request
from traceforge.wire.unified import as_object, as_text, list_objects, without_fields

_TEXTUAL = ("application/json", "application/xml", "application/yaml")
_ASSISTANT = {"role", "content", "tool_calls", "refusal", "reasoning", "parts", "name"}
_TOOL = {"role", "content", "tool_call_id", "name", "is_error"}
_OTHER = {"role", "content", "name"}
_PART_TYPES = {
    *("text", "image_url", "input_audio", "file", "refusal"),  # OpenAI
    *("image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking"),  # Anthropic
}
_PART_FIELDS = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}  # Gemini


class RR1:
    """The functions of this module as a renderer."""

    revision = "rr_1"

    def render(
        self, blocks: Sequence[ContentBlock], dialect: Dialect, parameters: Mapping[str, JSON] | None = None
    ) -> RenderedPrompt:
        """The messages and parameters of a call."""
        return render_prompt(blocks, dialect, parameters)

    def encode(self, prompt: RenderedPrompt, dialect: Dialect, model: str) -> RenderedRequest:
        """The request that a model of the dialect is sent."""
        return RenderedRequest(*encode_request(dialect, model, prompt.messages, prompt.parameters, stream=False))

    def name_serialization(self, dialect: Dialect) -> str:
        """How tools and response schemas are written for the dialect."""
        return f"{self.revision}/{dialect.value}"


def render_prompt(
    blocks: Sequence[ContentBlock], dialect: Dialect, parameters: Mapping[str, JSON] | None = None
) -> RenderedPrompt:
    """Render blocks for a dialect; `parameters`, in OpenAI's names or the dialect's, override those of the blocks.

    Raises:
        StoreRefused: a block cannot be sent to a model.
    """
    messages: list[JSONObject] = []
    block_parameters: JSONObject = {}
    tools: list[JSON] = []
    unanswered_calls: list[JSONObject] = []  # Calls of the preceding message that no result has answered.
    call_count = 0
    for block in blocks:
        value = _value(block)
        if block.type == ArtifactType.TOOL_BUNDLE_SOURCE and not isinstance(value, str):
            tools += _tools(block, value)
        elif block.type == ArtifactType.RESPONSE_SCHEMA and not isinstance(value, str):
            if "response_format" in block_parameters:
                raise _refused(
                    block, "is a second response schema, and an answer has one", "several_response_schemas"
                )
            block_parameters["response_format"] = _response_format(block, value)
        else:
            message, calls = _message(block, dialect, call_count)
            call_count += len(calls)
            if message["role"] == "tool":
                message = _tool_result(message, unanswered_calls)
            else:
                unanswered_calls = list(calls)
            messages.append(message)
    if tools:
        block_parameters["tools"] = tools
    return RenderedPrompt(messages, encode_parameters(dialect, {**block_parameters, **(parameters or {})}))


def _refused(block: ContentBlock, why: str, reason: str, hint: str = "") -> StoreRefused:
    return StoreRefused(f"block {block.block_id} ({block.kind}) {why}", reason=reason, status=422, hint=hint)


def _value(block: ContentBlock) -> JSON:
    """The content of a block; a text is parsed as JSON if the type of the block requires a value."""
    if block.type not in (ArtifactType.TOOL_BUNDLE_SOURCE, ArtifactType.RESPONSE_SCHEMA):
        return None
    content = _text_or_value(block)
    if not isinstance(content, str):
        return content
    try:
        value = parse_json(encode_utf8(content))
    except NotJSON:
        return content
    return value if isinstance(value, list | dict) else content


def _text_or_value(block: ContentBlock) -> JSON:
    """A text or a value; bytes of a text type are decoded."""
    if not isinstance(block.content, bytes):
        return block.content
    media_type = block.media_type.partition(";")[0].strip().lower()
    if media_type.startswith("text/") or media_type in _TEXTUAL or media_type.endswith(("+json", "+xml")):
        try:
            return block.content.decode()
        except UnicodeDecodeError:
            pass
    if media_type.startswith("image/") and block.role == "user":
        url = f"data:{media_type};base64,{base64.b64encode(block.content).decode()}"
        return [{"type": "image_url", "image_url": {"url": url}}]
    if media_type.startswith("image/"):
        raise _refused(
            block,
            f"is an image in the role of {block.role}, and providers take images from the user alone",
            "unsupported_attachment",
            "Put it into the bundle with the role user.",
        )
    raise _refused(
        block,
        f"holds bytes of the type {media_type or 'unknown'}, which cannot be said to a model",
        "unsupported_attachment",
        "Store what a model should read of it as text, or as an image.",
    )


# Messages


def _message(block: ContentBlock, dialect: Dialect, called: int) -> tuple[JSONObject, list[JSONObject]]:
    """The message of a block and its tool calls; `called` counts the calls before it."""
    content = _text_or_value(block)
    if isinstance(content, dict) and _is_message(block.role, content):
        if block.role == "assistant":
            return _assistant_message(content, dialect, called)
        return _user_or_tool_message(block.role, content, dialect), []
    if not isinstance(content, str) and not _are_parts(content):
        content = canonical_bytes(content).decode()
    return {"role": block.role, "content": content}, []


def _is_message(role: str, content: JSONObject) -> bool:
    names = content.keys()
    if role == "assistant":
        is_known_shape = content.get("role") == role or names <= _ASSISTANT
        return is_known_shape and ("content" in names or bool(list_objects(content.get("tool_calls"))))
    if role == "tool":
        return isinstance(content.get("tool_call_id"), str) or ("content" in names and names <= _TOOL)
    return "content" in names and names <= _OTHER


def _are_parts(content: JSON) -> bool:
    return isinstance(content, list) and bool(content) and all(_is_part(part) for part in content)


def _is_part(part: JSON) -> bool:
    if not isinstance(part, dict):
        return False
    return part.get("type") in _PART_TYPES if "type" in part else bool(part.keys() & _PART_FIELDS)


def _message_content(content: JSON) -> JSON:
    """The content of a message: a text or parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return content if _are_parts(content) else canonical_bytes(content).decode()


def _user_or_tool_message(role: str, message: JSONObject, dialect: Dialect) -> JSONObject:
    """A user or tool message whose content is a message already."""
    if role == "tool" and "content" not in message:
        message = {"content": without_fields(message, _TOOL), **message}
    names = ["name", "tool_call_id"] if role == "tool" else ["name"] if dialect is Dialect.OPENAI else []
    kept_fields = {name: message[name] for name in names if isinstance(message.get(name), str)}
    if role == "tool" and dialect is Dialect.ANTHROPIC and message.get("is_error") is not None:
        kept_fields["is_error"] = message["is_error"]
    return {"role": role, "content": _message_content(message["content"]), **kept_fields}


def _assistant_message(message: JSONObject, dialect: Dialect, called: int) -> tuple[JSONObject, list[JSONObject]]:
    """An assistant message whose content is a message already; a call without an id gets one from its index."""
    own = _provider_parts(message, dialect)
    if own is not None:
        return {"role": "assistant", "content": own}, list_objects(message.get("tool_calls"))
    calls = [
        {**call, "id": call.get("id") or f"call_{called + place}"}
        for place, call in enumerate(list_objects(message.get("tool_calls")))
    ]
    refusal = message.get("refusal")
    content = message.get("content")
    built: JSONObject = {
        "role": "assistant",
        "content": content if calls and content is None else _message_content(content),
    }
    if isinstance(refusal, str) and dialect is Dialect.OPENAI:
        built["refusal"] = refusal
        built["content"] = content
    elif isinstance(refusal, str) and not content:
        built["content"] = refusal
    if isinstance(message.get("name"), str) and dialect is Dialect.OPENAI:
        built["name"] = message["name"]
    if calls:
        built["tool_calls"] = cast("list[JSON]", calls)
    return built, calls


def _provider_parts(message: JSONObject, dialect: Dialect) -> JSON:
    """The provider's own parts of an answer, if they are in this dialect; else None.

    They hold more than the plain fields, such as the signatures that a provider requires with its thoughts. They are
    in this dialect if its reader finds the message in them.
    """
    parts = message.get("parts")
    if not (isinstance(parts, list | dict) and (message.get("content") or message.get("tool_calls"))):
        return None
    if dialect is Dialect.ANTHROPIC and isinstance(parts, list):
        body: JSONObject = {"content": parts}
    elif dialect is Dialect.GEMINI and isinstance(parts, dict):
        body = {"candidates": [{"content": parts}]}
        parts = parts.get("parts")
    else:
        return None
    speaker = find_dialect_module(Endpoint(dialect, EndpointKind.CHAT))
    assert speaker is not None
    read = next(iter(list_objects(speaker.decode_response(body).get("choices"))), {})
    decoded_message = as_object(read.get("message"))
    same = all(decoded_message.get(name) == message.get(name) for name in ("content", "tool_calls", "reasoning"))
    return parts if same else None


def _tool_result(message: JSONObject, waiting: list[JSONObject]) -> JSONObject:
    """A tool result for one of the unanswered calls: the one that it names, or the first."""
    named = message.get("tool_call_id")
    for place, call in enumerate(waiting):
        if named is None or call.get("id") == named:
            del waiting[place]
            if call.get("id") is not None:
                return {**message, "tool_call_id": call["id"]}
            return {**message, "name": as_object(call.get("function")).get("name")}  # Gemini may give a call no id.
    waiting.clear()
    return {"role": "user", "content": message["content"]}


# Parameters


def _tools(block: ContentBlock, value: JSON) -> list[JSON]:
    listed = as_object(value).get("tools", value)
    declared_tools = listed if isinstance(listed, list) else [listed]
    tools = [tool for declared in declared_tools for tool in _tool(declared)]
    if not tools:
        raise _refused(
            block,
            "holds no tools in words that are known",
            "unreadable_tool_bundle",
            "Give a list of tools as OpenAI, Anthropic, Gemini or MCP write them.",
        )
    return tools


def _tool(tool: JSON) -> list[JSON]:
    """A tool in OpenAI's chat format; a provider's built-in tool stays as it is."""
    if not isinstance(tool, dict):
        return []
    declared = tool.get("functionDeclarations", tool.get("function_declarations"))
    if isinstance(declared, list):
        return [{"type": "function", "function": function} for function in list_objects(declared)]
    if isinstance(tool.get("function"), dict):
        return [{"type": "function", **tool}]
    name = tool.get("name")
    schema = next((tool[key] for key in ("parameters", "input_schema", "inputSchema") if key in tool), None)
    if not isinstance(name, str) or (schema is None and tool.get("type") not in (None, "function", "custom")):
        return [tool] if tool else []
    function: JSONObject = {"name": name}
    function |= {key: tool[key] for key in ("description", "strict") if tool.get(key) is not None}
    if schema is not None:
        function["parameters"] = schema
    return [{"type": "function", "function": function}]


def _response_format(block: ContentBlock, value: JSON) -> JSONObject:
    """OpenAI's response format; a bare schema is named by its title."""
    if not isinstance(value, dict):
        raise _refused(block, "is not a JSON Schema", "unreadable_response_schema")
    if value.get("type") in ("json_schema", "json_object", "text") and "properties" not in value:
        return value
    name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in as_text(value.get("title")))
    return {"type": "json_schema", "json_schema": {"name": name[:64] or "answer", "schema": cast("JSON", value)}}
