"""The differences of two JSON values.

In: two JSON values and their path. Out: one `ValueChange` for each place that differs. Never: takes absent for null,
1 for "1", or true for 1.

Numbers are compared by value: 1 and 1.0 are equal, 2**53 and 2**53 + 1 are not. Hashes are computed with doubles
(docs/decisions/0005), so a file may state such an integer rounded; `is_same_as_doubles` allows for that. The order of
an object's keys is ignored, that of a list's items is not. Lists are compared item by item; a list of plain values
whose length changed is one difference, because `["a", "b"]` becoming `["b"]` is one change and not two.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, json_path

if TYPE_CHECKING:
    from traceforge.compare.text_diff import TextDiff

PATH_LENGTH_MAX = 1000  # A body may have names of any length above any number of values.


class Absent(Enum):
    """The type of ABSENT: there is nothing at this place, not even null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Side: TypeAlias = "JSON | Absent"


class ValueChange(Struct, frozen=True, dict=True):
    """One difference. `path` is its JSON path in the second call, or in the first if it was removed."""

    path: str
    before: Side
    after: Side

    @cached_property
    def text(self) -> TextDiff | None:
        """The word-level difference, where both sides are texts."""
        if isinstance(self.before, str) and isinstance(self.after, str):
            # Deferred: its expressions are large, and few trees differ in words.
            from traceforge.compare.text_diff import diff_words

            return diff_words(self.before, self.after)
        return None

    def to_json(self) -> JSONObject:
        """The row; a side that is absent has no key."""
        sides = {"before": self.before, "after": self.after}
        return {"path": self.path, **{name: side for name, side in sides.items() if not isinstance(side, Absent)}}


def is_same_json(before: Side, after: Side) -> bool:
    """Whether two values are the same JSON."""
    kind = type(before)
    if kind is str or kind is bool or before is None:
        return kind is type(after) and before == after
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(is_same_json(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(is_same_json, before, after))
    if _is_number(before) and _is_number(after):
        return before == after  # Python compares an integer with a double exactly.
    return type(before) is type(after) and before == after


def is_same_as_doubles(before: Side, after: Side) -> bool:
    """Whether two values are the same JSON for a reader whose numbers are all doubles, such as JavaScript."""
    return is_same_json(before, after) or all(
        _is_number(change.before) and _is_number(change.after) and float(change.before) == float(change.after)
        for change in list_differences(before, after, "$")
    )


def list_differences(before: Side, after: Side, path: str) -> Iterator[ValueChange]:
    """Every place at or below `path` where two values differ; objects by key in the order of their first mention.

    What lies below a path that is too long to be repeated for each value is one difference.
    """
    if len(path) > PATH_LENGTH_MAX:
        if not is_same_json(before, after):
            yield ValueChange(path, before, after)
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from list_differences(before.get(key, ABSENT), after.get(key, ABSENT), json_path(path, key))
    elif isinstance(before, list) and isinstance(after, list) and not _is_one_row(before, after):
        for place in range(max(len(before), len(after))):
            yield from list_differences(_item(before, place), _item(after, place), json_path(path, place))
    elif not is_same_json(before, after):
        yield ValueChange(path, before, after)


def _is_one_row(before: list[JSON], after: list[JSON]) -> bool:
    return len(before) != len(after) and not any(isinstance(item, list | dict) for item in before + after)


def _item(items: list[JSON], place: int) -> Side:
    return items[place] if place < len(items) else ABSENT


def _is_number(value: Side) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)  # A union would be made each time.
