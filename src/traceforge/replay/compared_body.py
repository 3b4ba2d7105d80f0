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
from typing import Any, NamedTuple, cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind


class UncomparedField(NamedTuple):
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
# Of Converse, which is no dialect of ours.
_BEDROCK_FIELDS = (UncomparedField(("requestMetadata",), _is_texts_by_name),)

_VERTEX_PATH = re.compile(r"/(?:publishers|projects)/[^/]+/")
_BEDROCK_PATH = re.compile(r"/model/[^/]+/converse(?:-stream)?/?\Z")

# Of a request in the unified view, which has no path: by its provider.
_UNIFIED_FIELDS: dict[str, Sequence[UncomparedField]] = {
    Dialect.OPENAI: _OPENAI_FIELDS,
    Dialect.ANTHROPIC: _ANTHROPIC_FIELDS,
    Dialect.GEMINI: _VERTEX_FIELDS,
}

_RENUMBERED = re.compile(r"\[TOOL_CALL \d+\]=*\Z")

Path = tuple[str | int, ...]


class IdPlace(NamedTuple):
    """Where a body has the id of a tool call."""

    path: Path
    id: str
    is_definition: bool  # of the call itself; otherwise a reference to it


def find_uncompared_fields(endpoint: Endpoint, path: str) -> Sequence[UncomparedField]:
    """The fields of a request that are not compared; `path` is that of its URL."""
    if endpoint.dialect is Dialect.OPENAI:
        has_all = endpoint.kind in (EndpointKind.CHAT, EndpointKind.RESPONSES)
        return _OPENAI_FIELDS if has_all else (_OPENAI_USER,)
    if endpoint.dialect is Dialect.ANTHROPIC:
        return _ANTHROPIC_FIELDS
    if endpoint.dialect is Dialect.GEMINI:
        return _VERTEX_FIELDS if _VERTEX_PATH.search(path) else ()
    return _BEDROCK_FIELDS if endpoint.dialect is None and _BEDROCK_PATH.search(path) else ()


def drop_fields(body: JSON, fields: Sequence[UncomparedField]) -> tuple[JSON, tuple[str, ...]]:
    """The body without these fields, and the paths of those that it had in their documented form.

    An object that only held such a field goes, too.
    """
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


def find_compared_part(request: JSONObject, dialect: str) -> JSONObject:
    """What is compared of a request that is in the unified view, such as that of a snapshot which a person wrote."""
    compared, _ = drop_fields(request, _UNIFIED_FIELDS.get(dialect, ()))
    return cast("JSONObject", renumber_ids(compared))


def is_at_field(path: str, field_paths: Sequence[str]) -> bool:
    """Whether a path leads to one of these fields, or below it."""
    return any(path.startswith(at) and path[len(at) :][:1] in ("", ".", "[") for at in field_paths)


def _without(body: JSONObject, name: str) -> JSONObject:
    return {key: value for key, value in body.items() if key != name}


def renumber_ids(body: JSON) -> JSON:
    """The body with its ids of tool calls renumbered; the body itself where it defines none."""
    if not isinstance(body, dict):
        return body
    places = list(list_ids(body))
    numbered: dict[str, str] = {}
    for place in places:
        if place.is_definition and place.id not in numbered:
            numbered[place.id] = f"[TOOL_CALL {len(numbered) + 1}]"
    if not numbered:
        return body
    return _replace_at(body, [(place.path, numbered.get(place.id) or _literal(place.id)) for place in places])


def _literal(undefined_id: str) -> str:
    """An id that the body does not define, told apart from a renumbered one."""
    return f"{undefined_id}=" if _RENUMBERED.match(undefined_id) else undefined_id


def list_ids(body: JSONObject) -> Iterator[IdPlace]:
    """Every place with the id of a tool call, in the order of the conversation."""
    for path, message in _list_objects(body, "messages"):  # OpenAI's chat, Anthropic, Ollama, Bedrock
        if "tool_calls" in message:
            for call_path, call in _list_objects(message, "tool_calls"):
                yield from _find_id(call, (*path, *call_path), "id", is_definition=True)
        if type(message.get("content")) is list:
            for block_path, block in _list_objects(message, "content"):
                yield from _list_block_ids(block, (*path, *block_path))
        if "tool_call_id" in message:
            yield from _find_id(message, path, "tool_call_id", is_definition=False)
    for path, item in _list_objects(body, "input"):  # OpenAI's responses
        yield from _list_item_ids(item, path)
    for path, content in _list_objects(body, "contents"):  # Gemini
        for part_path, part in _list_objects(content, "parts"):
            yield from _list_part_ids(part, (*path, *part_path))


def _list_block_ids(block: JSONObject, path: Path) -> Iterator[IdPlace]:
    """The ids in a block of a message: `tool_use` and its results, or Bedrock's `toolUse` and `toolResult`."""
    if str(block.get("type", "")).endswith("tool_use"):
        yield from _find_id(block, path, "id", is_definition=True)
        yield from _find_nested_id(block, path, "caller", "tool_id", is_definition=False)
    yield from _find_id(block, path, "tool_use_id", is_definition=False)
    yield from _find_nested_id(block, path, "toolUse", "toolUseId", is_definition=True)
    yield from _find_nested_id(block, path, "toolResult", "toolUseId", is_definition=False)


def _list_item_ids(item: JSONObject, path: Path) -> Iterator[IdPlace]:
    """The ids of an input item: a call has an id of its own, and one to which its output refers."""
    kind = str(item.get("type", ""))
    is_call = kind.endswith("_call")
    yield from _find_id(item, path, "call_id", is_definition=is_call)
    if is_call or kind in ("mcp_approval_request", "item_reference"):
        yield from _find_id(item, path, "id", is_definition=kind != "item_reference")
    yield from _find_id(item, path, "approval_request_id", is_definition=False)


def _list_part_ids(part: JSONObject, path: Path) -> Iterator[IdPlace]:
    for name in ("functionCall", "function_call"):
        yield from _find_nested_id(part, path, name, "id", is_definition=True)
    for name in ("functionResponse", "function_response"):
        yield from _find_nested_id(part, path, name, "id", is_definition=False)


def _find_id(holder: JSONObject, path: Path, name: str, *, is_definition: bool) -> Iterator[IdPlace]:
    value = holder.get(name)
    if isinstance(value, str) and value:
        yield IdPlace((*path, name), value, is_definition)


def _find_nested_id(
    holder: JSONObject, path: Path, name: str, inner: str, *, is_definition: bool
) -> Iterator[IdPlace]:
    nested = holder.get(name)
    if isinstance(nested, dict):
        yield from _find_id(nested, (*path, name), inner, is_definition=is_definition)


def _list_objects(holder: JSONObject, name: str) -> Iterator[tuple[Path, JSONObject]]:
    items = holder.get(name)
    if isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict):
                yield (name, index), item


def _replace_at(body: JSONObject, changes: Sequence[tuple[Path, JSON]]) -> JSONObject:
    """A copy of the body with other values at some places; what is not on the way to one is shared."""
    root: Any = dict(body)
    copied: set[int] = {id(root)}
    for path, value in changes:
        node = root
        for step in path[:-1]:
            child = node[step]
            if id(child) not in copied:
                child = node[step] = child.copy()
                copied.add(id(child))
            node = child
        node[path[-1]] = value
    return cast("JSONObject", root)
