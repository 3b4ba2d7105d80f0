"""What changed in the request.

In: two requests. Out: rows for its settings, changes for its messages and tools. Every difference is in exactly one
place of the result. Never: classifies; `classification` does.

    part        fields
    model       model
    prompt      messages, prompt, system, instructions, input, contents, … (PROMPT_FIELDS)
    tools       tools, functions, and how they may be used (TOOL_FIELDS)
    format      response_format, … (FORMAT_FIELDS)
    parameters  every other field, also those that only one provider knows
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from traceforge.canon import JSON, JSONObject, json_path
from traceforge.compare.alignment import align_items
from traceforge.compare.json_diff import ABSENT, Side, ValueChange, is_same_json, list_differences
from traceforge.compare.request_fields import FORMAT_FIELDS, MODEL_FIELDS, PROMPT_FIELDS, TOOL_FIELDS, TOOL_LISTS
from traceforge.compare.sequence_diff import match_equal

ROOT = "$.request"
_TOOLS_WORK_MAX = 100_000  # Steps to find which tools moved; beyond, all count as moved.


@dataclass(frozen=True)
class ItemChange:
    """A message or a tool that was added, removed, changed or moved; `name` is its role, or the tool's name."""

    field: str
    name: str
    before_index: int | None
    after_index: int | None
    before: Side
    after: Side
    rows: tuple[ValueChange, ...] = ()  # What differs inside an item that both calls have.
    moved: bool = False

    @property
    def kind(self) -> str:
        """`added`, `removed`, `changed` or `moved`."""
        if self.before_index is None:
            return "added"
        if self.after_index is None:
            return "removed"
        return "changed" if self.rows else "moved"

    @property
    def path(self) -> str:
        """Its JSON path in the second call, or in the first if it was removed."""
        index = self.before_index if self.after_index is None else self.after_index
        return f"{json_path(ROOT, self.field)}[{index}]"

    def to_json(self) -> JSONObject:
        """The change; an added or removed item is shown whole."""
        result: JSONObject = {"kind": self.kind, "name": self.name, "path": self.path}
        if self.kind in ("added", "removed"):
            item = self.after if self.kind == "added" else self.before
            return {**result, "value": None if item is ABSENT else item}
        return {
            **result,
            "before_index": self.before_index,
            "after_index": self.after_index,
            "moved": self.moved,
            "rows": [_row_with_text(row) for row in self.rows],
        }


@dataclass(frozen=True)
class RequestDiff:
    """The differences of two requests, by part."""

    model: tuple[ValueChange, ...] = ()
    parameters: tuple[ValueChange, ...] = ()
    format: tuple[ValueChange, ...] = ()
    prompt: tuple[ValueChange, ...] = ()  # A prompt that is not a list of messages.
    messages: tuple[ItemChange, ...] = ()
    tool_settings: tuple[ValueChange, ...] = ()
    tools: tuple[ItemChange, ...] = ()

    @property
    def table(self) -> tuple[ValueChange, ...]:
        """Every setting that differs: model, parameters, format and the use of tools."""
        return self.model + self.parameters + self.format + self.tool_settings

    def to_json(self) -> JSONObject:
        """The parts, as `Comparison.to_json` shows them."""
        return {
            "parameters": [row.to_json() for row in self.table],
            "prompt": [_row_with_text(row) for row in self.prompt],
            "messages": [change.to_json() for change in self.messages],
            "tools": [change.to_json() for change in self.tools],
        }


def diff_request(before: JSONObject, after: JSONObject) -> RequestDiff:
    """Find every difference of two requests."""
    rows: dict[str, list[ValueChange]] = defaultdict(list)
    messages: list[ItemChange] = []
    tools: list[ItemChange] = []
    for name in {**before, **after}:
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if is_same_json(old, new):
            continue
        lists = _lists(old, new) if name in PROMPT_FIELDS or name in TOOL_LISTS else None
        if lists is None:
            rows[_part(name)] += list_differences(old, new, json_path(ROOT, name))
        elif name in TOOL_LISTS:
            tools += _tool_changes(name, *lists)
        else:
            messages += _message_changes(name, *lists)
    by_part = {part: tuple(changes) for part, changes in rows.items()}
    return RequestDiff(**by_part, messages=tuple(messages), tools=tuple(tools))


def _part(name: str) -> str:
    parts = {"model": MODEL_FIELDS, "prompt": PROMPT_FIELDS, "tool_settings": TOOL_FIELDS, "format": FORMAT_FIELDS}
    return next((part for part, fields in parts.items() if name in fields), "parameters")


def _lists(before: Side, after: Side) -> tuple[list[JSON], list[JSON]] | None:
    """Both sides as lists, an absent one as the empty list; None where that would lose something."""
    old, new = ([] if side is ABSENT else side for side in (before, after))
    if isinstance(old, list) and isinstance(new, list) and (old or new):
        return old, new
    return None


def _message_changes(name: str, before: list[JSON], after: list[JSON]) -> Iterator[ItemChange]:
    for i, j in align_items(before, after):
        old, new = _side(before, i), _side(after, j)
        path = f"{json_path(ROOT, name)}[{i if j is None else j}]"
        rows = tuple(_message_rows(old, new, path)) if i is not None and j is not None else ()
        if rows or i is None or j is None:
            yield ItemChange(name, _role(old if new is ABSENT else new), i, j, old, new, rows)


def _message_rows(before: Side, after: Side, path: str) -> Iterator[ValueChange]:
    """The differences of two messages; the parts of their content are aligned as messages are."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield from list_differences(before, after, path)
        return
    for key in {**before, **after}:
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        inner = json_path(path, key)
        if key in ("content", "parts") and isinstance(old, list) and isinstance(new, list) and old and new:
            yield from _part_rows(old, new, inner)
        else:
            yield from list_differences(old, new, inner)


def _part_rows(before: list[JSON], after: list[JSON], path: str) -> Iterator[ValueChange]:
    for i, j in align_items(before, after):
        yield from list_differences(_side(before, i), _side(after, j), f"{path}[{i if j is None else j}]")


def _tool_changes(name: str, before: list[JSON], after: list[JSON]) -> Iterator[ItemChange]:
    """Tools are paired by name, the n-th of a name with the n-th, at any position."""
    old, new = _by_name(before), _by_name(after)
    common = [key for key in old if key in new]
    order = sorted(common, key=new.__getitem__)
    unmoved = match_equal(common, order, _TOOLS_WORK_MAX) or []
    in_place = {common[i] for i, _ in unmoved}
    for key in {**old, **new}:
        i, j = old.get(key), new.get(key)
        path = f"{json_path(ROOT, name)}[{i if j is None else j}]"
        both = i is not None and j is not None
        rows = tuple(list_differences(_side(before, i), _side(after, j), path)) if both else ()
        moved = both and key not in in_place
        if rows or moved or not both:
            yield ItemChange(name, key[0], i, j, _side(before, i), _side(after, j), rows, moved)


def _by_name(tools: list[JSON]) -> dict[tuple[str, int], int]:
    counts: dict[str, int] = defaultdict(int)
    places: dict[tuple[str, int], int] = {}
    for place, tool in enumerate(tools):
        name = tool_name(tool)
        places[name, counts[name]] = place
        counts[name] += 1
    return places


def tool_name(tool: JSON) -> str:
    """What a tool is called: its function's name, its own, that of its server, or its type; "" if it has none."""
    if not isinstance(tool, dict):
        return ""
    function = tool.get("function")
    inner = function.get("name") if isinstance(function, dict) else None
    candidates = (inner, tool.get("name"), tool.get("server_label"), tool.get("type"))
    return next((name for name in candidates if isinstance(name, str)), "")


def _role(message: Side) -> str:
    role = message.get("role", message.get("type")) if isinstance(message, dict) else None
    return role if isinstance(role, str) else ""


def _side(items: list[JSON], place: int | None) -> Side:
    return ABSENT if place is None else items[place]


def _row_with_text(row: ValueChange) -> JSONObject:
    return row.to_json() if row.text is None else {"path": row.path, "text": row.text.to_json()}
