"""Bodies of requests: read as JSON, and never with a name twice in one object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.example_counts import scale_examples
from traceforge.context.api.request_decoding import read_json
from traceforge.errors import InvalidFields

NAMES = st.text(alphabet='ab:"\\é', max_size=3)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='a:"\\{}é', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=scale_examples(200), deadline=None)
@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_a_body_with_unique_names_is_read(value: Any, ascii_only: bool, indent: int | None) -> None:
    """However it is written: with spaces, with escapes, with colons in its texts."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()

    assert value == read_json(text)


@settings(max_examples=scale_examples(200), deadline=None)
@given(NAMES, VALUES, VALUES, VALUES, st.integers(0, 3))
def test_a_body_with_a_repeated_name_is_refused(
    name: str, first_value: Any, two: Any, siblings: Any, depth: int
) -> None:
    """Wherever it stands, also where it is escaped in one of the two places."""
    first = json.dumps(name)
    second = '"' + "".join(f"\\u{ord(letter):04X}" for letter in name) + '"'
    text = f'{{"_": {json.dumps(siblings)}, {first}: {json.dumps(first_value)}, {second} :{json.dumps(two)}}}'
    for _ in range(depth):
        text = f'[{{"_": {text}}}]'

    with pytest.raises(InvalidFields) as error:
        read_json(text.encode())

    assert (400, "duplicate_name", name or None) == (error.value.status, error.value.reason, error.value.param)
