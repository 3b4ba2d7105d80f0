"""`traceforge schema check`: what an editor says about a check file."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from traceforge.schemas import load_schema

CHECK: dict[str, Any] = {"name": "a", "trace_id": "abcd", "assertions": [{"type": "contains", "value": "x"}]}
NESTED = {"type": "not", "assertion": {"type": "any_of", "assertions": [{"type": "refusal"}]}}


def is_valid(value: object) -> bool:
    schema = json.loads(load_schema("check"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        CHECK,
        {"tests": [CHECK]},
        {**CHECK, "assertions": [NESTED]},
        {**CHECK, "cases": [{"a": 1}]},
        {**CHECK, "cases": {"file": "a.csv"}},
        {**CHECK, "cases": {"traces": "", "limit": 3}},
        {**CHECK, "request": {"model": "m", "prompt": "x", "temperature": 0}},
    ],
)
def test_a_good_check_is_valid(value: object) -> None:
    """Alone and in a list, with every kind of data set."""
    assert is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"tests": []},
        {**CHECK, "tag": []},
        {**CHECK, "assertions": [{"type": "contians", "value": "x"}]},
        {**CHECK, "assertions": [{"type": "contains", "value": 3}]},
        {**CHECK, "assertions": [{"type": "not", "assertion": {"type": "refusal", "value": 1}}]},
        {**CHECK, "cases": {"file": "a.csv", "limit": 3}},
        {**CHECK, "request": {"prompt": "x"}},
    ],
)
def test_a_mistake_is_not_valid(value: object) -> None:
    """An unknown field or type, and a field of another type."""
    assert not is_valid(value)
