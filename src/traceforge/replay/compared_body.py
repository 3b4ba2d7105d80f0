"""The part of a request's body that is compared.

In: a redacted body. Out: the same body without the fields that decide no answer, and with the ids of tool calls
renumbered. Never: changes its input, or looks for ids anywhere but where a provider's API has them: what a tool
returns may have members of the same names.

An id of a tool call is invented by the provider, or by a client where the provider gives none, and differs in every
run. It says which result belongs to which call, and nothing else. So ids are replaced by `[TOOL_CALL 1]`,
`[TOOL_CALL 2]`, …, in the order in which the body defines them, and every reference to one by the same text. A
reference to an id that the body does not define is left as it is: the answer that defined it is replayed with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject
from traceforge.replay.compared_frames import CLIENT_FRAMES, CREATE_RESPONSE, compare_frames, list_client_frames
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind


class UncomparedField(Struct, frozen=True):
    """A field that decides no answer, if it has the form that the provider documents. In any other form it counts."""

    path: tuple[str, ...]  # from the body's root
    has_form: Callable[[JSON], bool]


def _is_text(value: JSON) -> bool:
    return isinstance(value, str)


def _is_text_or_null(value: JSON) -> bool:
    return value is None or isinstance(value, str)


def _is_texts_by_name(value: JSON) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


# Who the caller's own user is, and how the provider caches and bills.
_OPENAI_USER = UncomparedField(("user",), _is_text)
_OPENAI_FIELDS = (
    UncomparedField(("prompt_cache_key",), _is_text),
    UncomparedField(("safety_identifier",), _is_text),
    _OPENAI_USER,
)
_ANTHROPIC_FIELDS = (UncomparedField(("metadata", "user_id"), _is_text_or_null),)
_VERTEX_FIELDS = (UncomparedField(("labels",), _is_texts_by_name),)
_BEDROCK = "bedrock"
_BEDROCK_FIELDS = (UncomparedField(("requestMetadata",), _is_texts_by_name),)

_VERTEX_PATH = re.compile(r"/(?:publishers|projects)/[^/]+/")
_BEDROCK_PATH = re.compile(r"/converse(?:-stream)?/?\Z")

# Of a request in the unified view, which has no path: by its provider.
_UNIFIED_FIELDS: dict[str, Sequence[UncomparedField]] = {
    Dialect.OPENAI: _OPENAI_FIELDS,
    Dialect.ANTHROPIC: _ANTHROPIC_FIELDS,
    Dialect.GEMINI: _VERTEX_FIELDS,
}

_VERTEX_PROJECT = re.compile(r"\Aprojects/[^/]+/")
_VERTEX_NAMES = ("model", "cachedContent", "cached_content")  # fields that hold the name of a resource
_RENUMBERED = re.compile(r"\[TOOL_CALL \d+\]=*\Z")


def find_uncompared_fields(endpoint: Endpoint, path: str) -> Sequence[UncomparedField]:
    """The fields of a request that are not compared; `path` is that of its URL."""
    if endpoint.dialect is Dialect.OPENAI:
        has_all = endpoint.kind in (EndpointKind.CHAT, EndpointKind.RESPONSES)
        return _OPENAI_FIELDS if has_all else (_OPENAI_USER,)
    if endpoint.dialect is Dialect.ANTHROPIC:
        return _ANTHROPIC_FIELDS
    if endpoint.dialect is Dialect.GEMINI:
        return _VERTEX_FIELDS if _VERTEX_PATH.search(path) else ()
    return _BEDROCK_FIELDS if endpoint.dialect == _BEDROCK and _BEDROCK_PATH.search(path) else ()


def drop_fields(body: JSON, fields: Sequence[UncomparedField]) -> tuple[JSON, tuple[str, ...]]:
    """The body without these fields, and the paths of those that it had in their documented form.

    An object that only held such a field goes, too.
    """
    frames = list_client_frames(body)
    if frames is not None:
        return _drop_in_frames(frames)
    if not isinstance(body, dict) or not fields:
        return body, ()
    dropped: list[str] = []
    for field in fields:
        name, *inner = field.path
        if name not in body:
            continue
        if inner:
            members = body[name]
            if not isinstance(members, dict) or inner[0] not in members or not field.has_form(members[inner[0]]):
                continue
            remaining = _without(members, inner[0])
            body = {**body, name: remaining} if remaining else _without(body, name)
        elif field.has_form(body[name]):
            body = _without(body, name)
        else:
            continue
        dropped.append(".".join(("$", *field.path)))
    return body, tuple(dropped)


def _drop_in_frames(frames: list[JSON]) -> tuple[JSON, tuple[str, ...]]:
    """The frames of a WebSocket without these fields of requests of the Responses API, and their paths."""
    compared: list[JSON] = []
    dropped: list[str] = []
    for place, frame in enumerate(frames):
        event = frame.get("json") if isinstance(frame, dict) else None
        if isinstance(frame, dict) and isinstance(event, dict) and event.get("type") == CREATE_RESPONSE:
            event, paths = drop_fields(event, _OPENAI_FIELDS)
            dropped += [f"$.{CLIENT_FRAMES}[{place}].json{path[1:]}" for path in paths]
            compared.append({**frame, "json": event})
        else:
            compared.append(frame)
    return {CLIENT_FRAMES: compared}, tuple(dropped)


def find_compared_part(request: JSONObject, dialect: str) -> JSONObject:
    """What is compared of a request that is in the unified view, such as that of a snapshot which a person wrote."""
    compared, _ = drop_fields(request, _UNIFIED_FIELDS.get(dialect, ()))
    return cast("JSONObject", renumber_ids(compared))


def is_at_field(path: str, field_paths: Sequence[str]) -> bool:
    """Whether a path leads to one of these fields, or below it."""
    return any(path.startswith(at) and path[len(at) :][:1] in ("", ".", "[") for at in field_paths)


def _without(body: JSONObject, name: str) -> JSONObject:
    return {key: value for key, value in body.items() if key != name}


def hide_project(upstream: str, body: JSON) -> JSON:
    """The body without the project of its sender, which Vertex has in the names of models and of cached contents."""
    if not upstream.startswith("vertex/") or not isinstance(body, dict):
        return body
    names = {
        name: _VERTEX_PROJECT.sub("projects/*/", value)
        for name in _VERTEX_NAMES
        if isinstance(value := body.get(name), str)
    }
    return {**body, **names} if names else body


def renumber_ids(body: JSON) -> JSON:
    """The body with its ids of tool calls renumbered; the body itself where it defines none."""
    if not isinstance(body, dict):
        return body
    frames = list_client_frames(body)
    if frames is not None:
        return {CLIENT_FRAMES: compare_frames(frames, {})}
    copy, ids = _copy_with_ids(body)
    if not ids.numbers:
        return body
    ids.resolve_references()
    return copy


def _literal(undefined_id: str) -> str:
    """An id that the body does not define, told apart from a renumbered one."""
    return f"{undefined_id}=" if _RENUMBERED.match(undefined_id) else undefined_id


class _ToolCallIds:
    """The ids of tool calls in a body, in the order of the conversation; each is replaced where it is found."""

    def __init__(self) -> None:
        self.numbers: dict[str, str] = {}  # the text that replaces each id that the body defines
        self._unresolved: list[tuple[JSONObject, str]] = []  # references to ids that were not defined before them

    def add_definition(self, holder: JSONObject, name: str) -> None:
        """Renumber the id that a member of an object defines."""
        tool_call_id = holder.get(name)
        if isinstance(tool_call_id, str) and tool_call_id:
            number = self.numbers.get(tool_call_id)
            if number is None:
                number = self.numbers[tool_call_id] = f"[TOOL_CALL {len(self.numbers) + 1}]"
            holder[name] = number

    def add_reference(self, holder: JSONObject, name: str) -> None:
        """Renumber the id that a member of an object refers to."""
        tool_call_id = holder.get(name)
        if isinstance(tool_call_id, str) and tool_call_id:
            number = self.numbers.get(tool_call_id)
            if number is None:
                self._unresolved.append((holder, name))
            else:
                holder[name] = number

    def resolve_references(self) -> None:
        """Renumber references that come before their definition, and mark those that have none."""
        for holder, name in self._unresolved:
            tool_call_id = cast("str", holder[name])
            holder[name] = self.numbers.get(tool_call_id) or _literal(tool_call_id)


def _copy_with_ids(body: JSONObject) -> tuple[JSONObject, _ToolCallIds]:
    """A copy of the body in which every place with an id can be changed, and these places.

    Only what is on the way to such a place is copied; the copy shares the rest with the body.
    """
    body = body.copy()
    ids = _ToolCallIds()
    for message in _copy_objects(body, "messages"):  # OpenAI's chat, Anthropic, Ollama, Bedrock
        if "tool_calls" in message:
            for call in _copy_objects(message, "tool_calls"):
                ids.add_definition(call, "id")
        if type(message.get("content")) is list:
            for block in _copy_objects(message, "content"):
                _add_block_ids(ids, block)
        if "tool_call_id" in message:
            ids.add_reference(message, "tool_call_id")
    for item in _copy_objects(body, "input"):  # OpenAI's responses
        _add_item_ids(ids, item)
    for content in _copy_objects(body, "contents"):  # Gemini
        for part in _copy_objects(content, "parts"):
            _add_part_ids(ids, part)
    return body, ids


def _add_block_ids(ids: _ToolCallIds, block: JSONObject) -> None:
    """The ids in a block of a message: `tool_use` and its results, or Bedrock's `toolUse` and `toolResult`."""
    if str(block.get("type", "")).endswith("tool_use"):
        ids.add_definition(block, "id")
        if "caller" in block:
            ids.add_reference(_copy_object(block, "caller"), "tool_id")
    if "tool_use_id" in block:
        ids.add_reference(block, "tool_use_id")
    if "toolUse" in block:
        ids.add_definition(_copy_object(block, "toolUse"), "toolUseId")
    if "toolResult" in block:
        ids.add_reference(_copy_object(block, "toolResult"), "toolUseId")


def _add_item_ids(ids: _ToolCallIds, item: JSONObject) -> None:
    """The ids of an input item: a call has an id of its own, and one to which its output refers."""
    kind = str(item.get("type", ""))
    if kind.endswith("_call"):
        ids.add_definition(item, "call_id")
        ids.add_definition(item, "id")
    else:
        ids.add_reference(item, "call_id")
        if kind == "mcp_approval_request":
            ids.add_definition(item, "id")
        elif kind == "item_reference":
            ids.add_reference(item, "id")
    ids.add_reference(item, "approval_request_id")


def _add_part_ids(ids: _ToolCallIds, part: JSONObject) -> None:
    for name in ("functionCall", "function_call"):
        if name in part:
            ids.add_definition(_copy_object(part, name), "id")
    for name in ("functionResponse", "function_response"):
        if name in part:
            ids.add_reference(_copy_object(part, name), "id")


def _copy_object(holder: JSONObject, name: str) -> JSONObject:
    """Put a copy of an object in its place, and return it; an empty object where the member is something else."""
    member = holder[name]
    if not isinstance(member, dict):
        return {}
    copy = holder[name] = member.copy()
    return copy


def _copy_objects(holder: JSONObject, name: str) -> Iterator[JSONObject]:
    """Put a copy of a list of objects in its place, and yield the copied objects."""
    items = holder.get(name)
    if isinstance(items, list):
        copies = holder[name] = items.copy()
        for index, item in enumerate(items):
            if isinstance(item, dict):
                copy = copies[index] = item.copy()
                yield copy
