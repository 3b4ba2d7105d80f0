"""`compare/json_diff.py`: every row is true of both values, and equal means equal JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.canon import canonical_bytes, json_path
from traceforge.compare.json_diff import ABSENT, ValueChange, is_same_json, list_differences

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 0.5, "", "1", "a", "b"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x-y"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def _places(value: Any, path: str = "$") -> dict[str, Any]:
    """Every place of a value by its path."""
    places = {path: value}
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        places |= _places(child, json_path(path, key))
    return places


@given(values, values)
def test_values_are_the_same_exactly_where_their_canonical_texts_are(before: Any, after: Any) -> None:
    assert (canonical_bytes(before) == canonical_bytes(after)) == is_same_json(before, after)


@given(values, values)
def test_every_row_is_true_of_both_values(before: Any, after: Any) -> None:
    """Both values have the row's values at its path, and no path comes twice."""
    rows = list(list_differences(before, after, "$"))
    old, new = _places(before), _places(after)

    assert rows == [ValueChange(row.path, old.get(row.path, ABSENT), new.get(row.path, ABSENT)) for row in rows]
    assert len(rows) == len({row.path for row in rows})


@given(values, values)
def test_values_differ_exactly_where_there_is_a_row(before: Any, after: Any) -> None:
    assert is_same_json(before, after) == (not list(list_differences(before, after, "$")))


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [(1, 1.0, True), (0, -0.0, True), (1, "1", False), (1, True, False), (0, False, False), (None, ABSENT, False)],
)
def test_numbers_are_doubles_and_nothing_else_is_a_number(before: Any, after: Any, equal: bool) -> None:
    """1 is 1.0, and neither the text "1" nor true."""
    assert equal == is_same_json(before, after)


def test_absent_is_not_null() -> None:
    """Also in the JSON of the difference."""
    rows = list(list_differences({"a": None}, {"b": None}, "$"))

    assert [ValueChange("$.a", None, ABSENT), ValueChange("$.b", ABSENT, None)] == rows
    assert [{"path": "$.a", "before": None}, {"path": "$.b", "after": None}] == [row.to_json() for row in rows]


def test_a_shorter_list_of_plain_values_is_one_row() -> None:
    """Removing the first item is one change, not a change of every item after it."""
    assert [ValueChange("$.stop", ["a", "b"], ["b"])] == list(
        list_differences({"stop": ["a", "b"]}, {"stop": ["b"]}, "$")
    )


def test_texts_have_a_word_level_difference_and_other_values_none() -> None:
    diff = ValueChange("$", "a b", "a c").text

    assert diff is not None
    assert [("b", "c")] == [(edit.before, edit.after) for edit in diff.edits]
    assert ValueChange("$", "a", 1).text is None


def test_long_names_above_many_values_are_repeated_once() -> None:
    """Half a megabyte with a thousand differences must not become half a gigabyte of places."""
    before, after = ({"name" * 100: {"name" * 200: [mark, *range(1000)]}} for mark in "ab")
    shifted = {"name" * 100: {"name" * 200: [*range(1, 1000), "b", 0]}}
    place = json_path(json_path("$", "name" * 100), "name" * 200)

    assert [] == list(list_differences(before, before, "$"))
    for other in (after, shifted):
        [row] = list_differences(before, other, "$")
        assert (place, before["name" * 100]["name" * 200]) == (row.path, row.before)
        assert other["name" * 100]["name" * 200] == row.after
