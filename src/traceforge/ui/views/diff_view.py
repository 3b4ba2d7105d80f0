"""The difference of two calls for a page: settings, prompt, messages, tools with their schemas, answers, tool calls.

In: a `Comparison`, or rows of one. Out: plain data for `templates/macros/diff.html`. Never: compares or classifies by
itself; shows more than FIELDS_MAX rows of one section: the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from traceforge.canon import JSON
from traceforge.compare.answer_diff import AnswerDiff, ChoiceDiff, ToolCallChange
from traceforge.compare.classification import ClassifiedChange
from traceforge.compare.comparison import Comparison
from traceforge.compare.json_diff import Absent, Side, ValueChange
from traceforge.compare.request_diff import ItemChange
from traceforge.ui.views.json_view import json_html
from traceforge.ui.views.text_diff_view import TextDiffView

FIELDS_MAX = 200  # An embedding differs in 1,536 places.


@dataclass(frozen=True)
class FieldChange:
    """One place that differs. A text has `text`, any other value has the HTML of each side that has it."""

    path: str
    kind: str  # `added`, `removed` or `changed`
    text: TextDiffView | None = None
    before: Markup | None = None
    after: Markup | None = None


@dataclass(frozen=True)
class ChangeGroup:
    """A message, a tool or a tool call that differs, with its fields; `omitted` fields are not shown."""

    title: str
    kind: str  # `added`, `removed`, `changed`, `moved` or `renamed`
    fields: tuple[FieldChange, ...]
    name: str = ""
    omitted: int = 0


@dataclass(frozen=True)
class ComparisonView:
    """Everything that differs between two calls, and what kind of change it is."""

    changes: tuple[ClassifiedChange, ...]
    groups: tuple[ChangeGroup, ...]


def view_comparison(comparison: Comparison) -> ComparisonView:
    """Every difference of two calls, the request first."""
    request = comparison.request
    groups = [
        *_row_group("Settings", comparison.parameters),
        *_row_group("Prompt", request.prompt),
        *(_item_group("Message", item) for item in request.messages),
        *(_item_group("Tool", item) for item in request.tools),
        *_answer_groups(comparison.answer),
    ]
    return ComparisonView(comparison.changes, tuple(groups))


def view_value_changes(title: str, rows: Iterable[ValueChange]) -> ChangeGroup:
    """The fields that differ in two JSON values."""
    all_rows = list(rows)
    fields = tuple(map(_field, all_rows[:FIELDS_MAX]))
    return ChangeGroup(title, "changed", fields, omitted=len(all_rows) - len(fields))


def _row_group(title: str, rows: Iterable[ValueChange]) -> Iterator[ChangeGroup]:
    group = view_value_changes(title, rows)
    if group.fields:
        yield group


def _answer_groups(answer: AnswerDiff) -> Iterator[ChangeGroup]:
    if answer.presence:
        yield ChangeGroup(
            f"The answer {answer.presence}", "added" if answer.presence == "appeared" else "removed", ()
        )
    for choice in answer.choices:
        yield from _choice_groups(choice)
    yield from _row_group("Answer", answer.other)
    if answer.served_model:
        yield from _row_group("Another model answered", [answer.served_model])


def _choice_groups(choice: ChoiceDiff) -> Iterator[ChangeGroup]:
    title = f"Answer {choice.index + 1}" if choice.index else "Answer"
    if choice.before is None or choice.after is None:
        old, new = (Absent.ABSENT if side is None else side.text for side in (choice.before, choice.after))
        row = _field(ValueChange(choice.path, old, new))
        yield ChangeGroup(title, row.kind, (row,))
        return
    rows = [row for row in (choice.text, choice.refusal, choice.finish_reason) if row]
    yield from _row_group(title, [*rows, *choice.other])
    yield from map(_tool_call_group, choice.tool_calls)


def _tool_call_group(change: ToolCallChange) -> ChangeGroup:
    rows = change.rows
    if change.before is None or change.after is None:
        old, new = (Absent.ABSENT if call is None else call.arguments for call in (change.before, change.after))
        rows = (ValueChange("$.arguments", old, new),)
    return _named_group("Tool call", change.name, change.kind, rows)


def _item_group(title: str, item: ItemChange) -> ChangeGroup:
    """A message or a tool; one that was added or removed is shown whole."""
    rows = item.rows
    if item.kind in ("added", "removed"):
        rows = (ValueChange(item.path, item.before, item.after),)
    return _named_group(title, item.name, item.kind, rows)


def _named_group(title: str, name: str, kind: str, rows: Iterable[ValueChange]) -> ChangeGroup:
    group = view_value_changes(title, rows)
    return ChangeGroup(title, kind, group.fields, name, group.omitted)


def _field(row: ValueChange) -> FieldChange:
    if row.text is not None and _is_prose(row.before, row.after):
        return FieldChange(row.path, "changed", TextDiffView(row.text))
    kind = "added" if isinstance(row.before, Absent) else "removed" if isinstance(row.after, Absent) else "changed"
    return FieldChange(row.path, kind, None, _value_html(row.before), _value_html(row.after))


def _is_prose(*sides: Side) -> bool:
    """Whether a diff of words says more than both values: one of them has white space."""
    return any(isinstance(side, str) and len(side.split(maxsplit=1)) > 1 for side in sides)


def _value_html(side: Side) -> Markup | None:
    value: JSON | Absent = side
    return None if isinstance(value, Absent) else json_html(value)
