"""Shapes that only requests have: integers, enumerations, and texts that are too long."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from traceforge.shape import ShapeProblem, find_problems


class Colour(StrEnum):
    """Two values."""

    RED = "red"
    BLUE = "blue"


class RequestFields(Struct, forbid_unknown_fields=True):
    """One field of each kind."""

    count: Annotated[int, Meta(ge=0, le=10)] = 0
    colour: Colour = Colour.RED
    label: Annotated[str, Meta(max_length=3)] = ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"count": -1}, ShapeProblem("$.count", "must be at least 0, got -1")),
        ({"count": 11}, ShapeProblem("$.count", "must be at most 10, got 11")),
        ({"count": 1.5}, ShapeProblem("$.count", "must be an integer, got 1.5")),
        ({"count": True}, ShapeProblem("$.count", "must be integer, got boolean")),
        ({"count": "1"}, ShapeProblem("$.count", "must be integer, got string")),
        ({"colour": "green"}, ShapeProblem("$.colour", "must be 'red' or 'blue'")),
        ({"colour": 3}, ShapeProblem("$.colour", "must be 'red' or 'blue'")),
        ({"label": "four"}, ShapeProblem("$.label", "must have at most 3 characters, has 4")),
    ],
)
def test_a_wrong_field_has_one_sentence(value: Any, expected: ShapeProblem) -> None:
    assert [expected] == find_problems(value, RequestFields)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "count": st.integers(-3, 14)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.booleans()
            | st.none(),
            "colour": st.sampled_from(["red", "blue", "green", 1, None]),
            "label": st.text(max_size=5) | st.integers(),
        },
    )
)
def test_a_value_has_a_problem_exactly_where_it_cannot_be_converted(value: dict[str, Any]) -> None:
    try:
        msgspec.convert(value, RequestFields)
    except msgspec.ValidationError:
        assert find_problems(value, RequestFields)
    else:
        assert [] == find_problems(value, RequestFields)
