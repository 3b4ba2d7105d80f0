"""A JSON value as nested HTML."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.parsed_html import ParsedHtml
from support.work_counts import count_lines
from traceforge.canon import JSON
from traceforge.ui.views.json_view import ITEMS_MAX, json_html

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        (None, "null"),
        (2**53 + 1, "9007199254740993"),
        ('a"<b>', '"a\\"<b>"'),
        ("a\nb", '"a\nb"'),
        ({"a": [], "b": {"c": True}}, '{"a": [],"b": {"c": true}}'),
        ({"a": 1, "b": "x"}, '{"a": 1, "b": "x"}'),
    ],
)
def test_a_value_is_shown_as_json(value: JSON, text: str) -> None:
    """Integers are exact, and a text of several lines keeps them."""
    assert text == ParsedHtml(json_html(value)).text


def test_values_below_the_second_level_are_folded() -> None:
    """Two levels are open; what is folded says how many members it has."""
    page = ParsedHtml(json_html({"a": {"b": {"c": {"d": [[1], [2], [3]]}}}}))

    assert 3 == len(page.find_all("details", "json-fold"))
    assert "{ 1 field }" in page.text
    assert "[ 3 items ]" in page.text


def test_a_long_list_is_counted_and_not_shown_whole() -> None:
    """An embedding has 1,536 numbers, and a hostile answer a million."""
    page = ParsedHtml(json_html(list(range(1_000_000))))

    assert f"… {1_000_000 - ITEMS_MAX:,} more" in page.text
    assert len(page.text) < 2_000


def test_work_is_bounded_for_any_number_of_values() -> None:
    """Ten times the values take hardly more steps once the page is full."""
    values: list[list[JSON]] = [[{"a": [place, {"b": "c" * 80}]} for place in range(size)] for size in (200, 2_000)]
    steps = [count_lines(partial(json_html, value)) for value in values]

    assert steps[1] < 1.5 * steps[0]


def test_a_deep_value_is_shown_without_recursion() -> None:
    """Beyond the limit it is one line."""
    value: JSON = "end"
    for _ in range(90):
        value = [value, "x" * 80]

    page = ParsedHtml(json_html(value))

    assert [] == page.unbalanced
    assert page.depth < 130
    assert "end" in page.text


@given(VALUES)
def test_any_value_gives_harmless_html(value: JSON) -> None:
    """Balanced, and with our own elements alone."""
    html = json_html(value)
    page = ParsedHtml(html)

    assert [] == page.unbalanced
    assert {element.tag for element in page.elements} <= {"div", "span", "details", "summary", "mark"}
    html.encode()
