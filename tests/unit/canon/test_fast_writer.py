"""JSON text that nobody hashes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from support.json_texts import fuzz, json_texts
from traceforge.canon import json_bytes, parse_json


def _same(one: Any, other: Any) -> bool:
    """Equal, of the same types, in the same order, and the sign of zero as well."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


@fuzz(200)
@given(json_texts)
def test_what_was_written_reads_back_as_the_same_value(text: bytes) -> None:
    """On one line or indented: types, order, every number, and surrogates without a partner."""
    value = parse_json(text)

    for indent in (False, True):
        assert _same(value, parse_json(json_bytes(value, indent=indent)))


@fuzz(100)
@given(json_texts)
def test_writing_is_stable(text: bytes) -> None:
    """What was written and read is written the same way again; a layout can rely on that."""
    for indent in (False, True):
        once = json_bytes(parse_json(text), indent=indent)

        assert once == json_bytes(parse_json(once), indent=indent)


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
    """Nothing is sorted, nothing is escaped that need not be."""
    assert expected.encode() == json_bytes(parse_json(text.encode()))


def test_an_indented_text_has_two_spaces_a_level() -> None:
    """Whichever way it is written."""
    assert b'{\n  "a": [\n    1\n  ]\n}' == json_bytes({"a": [1]}, indent=True)
    assert b'{\n  "a": [\n    100000000000000000000\n  ]\n}' == json_bytes({"a": [10**20]}, indent=True)
    assert b"[]" == json_bytes([], indent=True)
