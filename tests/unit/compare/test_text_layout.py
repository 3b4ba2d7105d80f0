"""`compare/text_layout.py`: the form of a text, and its changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.compare.text_layout import describe_layout_change, find_layout


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" \n", "empty"),
        ("Hello.", "text"),
        ('{"a": 1}', "JSON"),
        ("\n[1]\n", "JSON"),
        ('```json\n{"a": 1}\n```', "JSON in a code block"),
        ("{not json}", "text"),
        ("12", "text"),
        ('{"a": "\ud800"}', "text"),
    ],
)
def test_a_text_is_json_only_if_it_is_an_object_or_a_list(text: str, kind: str) -> None:
    """A bare number is prose; JSON in a fence is a form of its own."""
    assert kind == find_layout(text).kind


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ('{"a": 1}', "It is 1.", "JSON became text"),
        ("", "Hello.", "empty became text"),
        ('{"a": 1}', '```json\n{"a": 1}\n```', "JSON became JSON in a code block"),
        ('{"a": 1}', '{"b": 1}', "the JSON no longer has $.a (number); the JSON now has $.b (number)"),
        ('{"a": 1}', '{"a": "1"}', "the JSON no longer has $.a (number); the JSON now has $.a (string)"),
        ('{"a": 1, "b": 2}', '{"b": 2.0, "a": 1}', "the same JSON value in another spelling"),
        ("a\nb", "- a\n- b", "the text now has a bulleted list"),
        ("1. a", "a", "the text no longer has a numbered list"),
        ("a", "# a", "the text now has a heading of level 1"),
        ("x", "```python\n# no heading\n```", "the text now has a code block (python)"),
        ("a", "> a", "the text now has a quotation"),
        ("a", "| a | b |\n|---|---|\n| 1 | 2 |", "the text now has a table"),
        ("a", "**a**", "the text now has bold text"),
    ],
)
def test_a_change_of_form_is_named(before: str, after: str, change: str) -> None:
    """JSON or prose, keys and their types, and the blocks of Markdown."""
    assert change == describe_layout_change(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Hello.", "Goodbye."),
        ('{"a": 1}', '{"a": 2}'),
        ('{"a": [1]}', '{"a": [1, 2]}'),
        ("- a", "- a\n- b"),
        ("# A", "# B"),
        ("* a", "- a"),
        ('{"a": 1, "a": 2}', '{"a": 9, "a": 2}'),
        (f'{{"a": {2**70}}}', f'{{"a": {2**70 + 1}}}'),
    ],
)
def test_other_content_in_the_same_form_is_not_a_change(before: str, after: str) -> None:
    """More items, other values, other words."""
    assert "" == describe_layout_change(before, after)


@given(st.text(alphabet='`#-*>|[]{}": \n1a.'))
def test_a_text_has_the_same_form_as_itself(text: str) -> None:
    """And no text raises."""
    assert "" == describe_layout_change(text, text)
