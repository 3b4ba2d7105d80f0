"""Volatile parts: what may differ between two requests that are the same."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import as_object
from support.json_texts import fuzz, json_texts
from traceforge.canon import parse_json
from traceforge.compare.json_diff import is_same_json, list_differences
from traceforge.errors import InvalidConfig
from traceforge.replay.volatile import VOLATILE, VolatileRules, parse_path

VALUE: dict[str, Any] = {
    "id": "abc",
    "messages": [{"role": "user", "content": "on 2026-11-15, run-7"}, {"role": "tool", "content": "run-8", "t": 1}],
    "a b": {"x.y": [1, 2, 3], 'q"\\': None},
}


@pytest.mark.parametrize(
    ("path", "times", "places"),
    [
        ("$.id", 1, ["$.id"]),
        ("$.messages[0].content", 1, ["$.messages[0].content"]),
        ("$.messages[*].content", 2, ["$.messages[0].content", "$.messages[1].content"]),
        ("$.messages[*].t", 1, ["$.messages[1].t"]),
        ("$.messages.*.role", 2, ["$.messages[0].role", "$.messages[1].role"]),
        ('$["a b"]["x.y"][1]', 1, ['$["a b"]["x.y"][1]']),
        ('$["a b"]["q\\"\\\\"]', 1, ['$["a b"]["q\\"\\\\"]']),
        ('$["a b"].*', 2, ['$["a b"]["q\\"\\\\"]', '$["a b"]["x.y"]']),
        ("$.messages", 1, ["$.messages"]),
        ("$.*", 3, ["$.id", "$.messages", '$["a b"]']),
        ("$[*]", 3, ["$.id", "$.messages", '$["a b"]']),
        ("$.nothing", 0, []),
        ("$.messages[2].content", 0, []),
        ("$.id.deeper", 0, []),
        ("$.messages.content", 0, []),
        ("$[0]", 0, []),
    ],
)
def test_a_path_replaces_what_it_leads_to(path: str, times: int, places: list[str]) -> None:
    """And nothing else; every use is counted."""
    before = copy.deepcopy(VALUE)

    cleaned, used = VolatileRules([path]).replace_parts(VALUE)

    rows = list(list_differences(VALUE, cleaned, "$"))
    assert before == VALUE
    assert times == used.total()
    assert {VOLATILE} >= {row.after if isinstance(row.after, str) else "" for row in rows}
    assert places == sorted(row.path for row in rows)


def test_a_pattern_matches_inside_every_text() -> None:
    """Of values, not of names; a lone surrogate is no obstacle."""
    value = {"run-1": ["run-2 and run-3", {"x": "no"}, 4], "y": "\ud800 run-5"}

    cleaned, used = VolatileRules(patterns=["run-[0-9]+", "never"]).replace_parts(value)

    both = f"{VOLATILE} and {VOLATILE}"
    assert {"run-1": [both, {"x": "no"}, 4], "y": f"\ud800 {VOLATILE}"} == cleaned
    assert {"run-[0-9]+": 3} == used


def test_without_declarations_nothing_is_volatile() -> None:
    """The value is the same object; one is falsy to tell so."""
    assert not VolatileRules()
    assert VALUE is VolatileRules(["$.nothing"]).replace_parts(VALUE).value
    assert {} == VolatileRules(["$.nothing"]).replace_parts(VALUE).use_counts


def test_a_missing_value_differs_from_a_volatile_one() -> None:
    """A value that may differ must be there."""
    volatile = VolatileRules(["$.id"])

    assert volatile.replace_parts({"id": 1}).value == volatile.replace_parts({"id": [2]}).value
    assert volatile.replace_parts({"id": 1}).value != volatile.replace_parts({}).value


@pytest.mark.parametrize(
    "path", ["", "$", "id", "messages[0]", "$.", "$..id", "$.messages[", "$.messages[x]", "$[-1]", "$.a b", '$["a]']
)
def test_an_invalid_path_is_reported_with_its_position(path: str) -> None:
    """Nothing is ignored silently because of a slip."""
    with pytest.raises(InvalidConfig) as caught:
        VolatileRules(["$.id", path], where="traceforge.config.json")

    assert "traceforge.config.json: match.ignore_paths[1] is not a JSON path" in str(caught.value)
    assert "$.match.ignore_paths[1]" == caught.value.findings[0].path


@pytest.mark.parametrize(
    ("pattern", "message"), [("(?=x)", "not a google-re2"), ("(", "not a google-re2"), ("a*", "empty")]
)
def test_an_invalid_expression_is_reported_with_its_position(pattern: str, message: str) -> None:
    """Also one that would match everywhere."""
    with pytest.raises(InvalidConfig) as caught:
        VolatileRules(patterns=["x", pattern])

    assert f"match.ignore_patterns[1] {'matches' if message == 'empty' else 'is'}" in str(caught.value)
    assert message in str(caught.value)


def test_every_bad_declaration_is_found_at_once() -> None:
    """Paths and expressions."""
    with pytest.raises(InvalidConfig) as caught:
        VolatileRules(["x"], ["x", "("], where="f")

    assert ["$.match.ignore_paths[0]", "$.match.ignore_patterns[1]"] == [
        finding.path for finding in caught.value.findings
    ]


@fuzz(80)
@given(json_texts, json_texts)
def test_every_path_in_an_explanation_can_be_declared(first: bytes, second: bytes) -> None:
    """Declaring all of them makes two values the same, unless something is missing in one of them."""
    before, after = {"a": parse_json(first)}, {"a": parse_json(second)}
    rows = list(list_differences(before, after, "$"))

    volatile = VolatileRules([row.path for row in rows])

    if all({"before", "after"} <= row.to_json().keys() for row in rows):
        assert is_same_json(
            volatile.replace_parts(as_object(before)).value, volatile.replace_parts(as_object(after)).value
        )
    assert all(volatile.is_volatile(row.path) for row in rows)


@given(st.lists(st.one_of(st.text(min_size=1), st.integers(0, 999)), min_size=1, max_size=4))
def test_a_path_that_we_write_is_one_that_we_read(steps: list[str | int]) -> None:
    """Whatever the names are."""
    from traceforge.canon import json_path

    path = "$"
    for step in steps:
        path = json_path(path, step)

    assert json.loads(json.dumps(steps)) == parse_path(path)


def test_a_path_below_a_volatile_one_is_volatile() -> None:
    """A redacted part there is not compared."""
    volatile = VolatileRules(["$.mcp_servers[*].authorization_token", '$["a b"]'])

    assert volatile.is_volatile("$.mcp_servers[1].authorization_token")
    assert volatile.is_volatile('$["a b"].c[0]')
    assert not volatile.is_volatile("$.mcp_servers[1].name")
    assert not volatile.is_volatile("$.mcp_servers")
    assert not VolatileRules().is_volatile("$.a")
