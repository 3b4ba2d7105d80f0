"""JSON text that is not hashed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from support.json_texts import fuzz, json_texts
from traceforge.canon import json_bytes, parse_json


def _is_identical(left: Any, right: Any) -> bool:
    """Equal, with the same types, order and sign of zero."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(_is_identical(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_is_identical, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@fuzz(200)
@given(json_texts)
def test_a_written_value_is_read_back_unchanged(text: bytes) -> None:
    """On one line or indented: types, order, every number, and lone surrogates."""
    value = parse_json(text)

    for indent in (False, True):
        assert _is_identical(value, parse_json(json_bytes(value, indent=indent)))


@fuzz(100)
@given(json_texts)
def test_writing_is_stable(text: bytes) -> None:
    """Reading the text and writing it again gives the same text."""
    for indent in (False, True):
        written = json_bytes(parse_json(text), indent=indent)

        assert written == json_bytes(parse_json(written), indent=indent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"b": 1, "a": [1.0, 1e16, -0.0]}', '{"b":1,"a":[1.0,1e+16,-0.0]}'),
        ('"é\\u2028"', '"é\u2028"'),
        ('"\\ud800"', '"\\ud800"'),
        ("18446744073709551615", "18446744073709551615"),
    ],
)
def test_numbers_and_texts_stay_as_they_are(text: str, expected: str) -> None:
    """Nothing is sorted, and nothing is escaped without need."""
    assert expected.encode() == json_bytes(parse_json(text.encode()))


def test_an_indented_text_has_two_spaces_a_level() -> None:
    assert b'{\n  "a": [\n    1\n  ]\n}' == json_bytes({"a": [1]}, indent=True)
    assert b'{\n  "a": [\n    100000000000000000000\n  ]\n}' == json_bytes({"a": [10**20]}, indent=True)
    assert b"[]" == json_bytes([], indent=True)
