"""`shape/`: the explanation agrees with msgspec's decision, and contains no value of the document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.example_counts import RunLength
from support.format_examples import FORMATS
from support.json_mutations import JUNK, SECRET, Mutation, mutate, mutations
from support.json_texts import fuzz
from traceforge.canon import json_path
from traceforge.config import Config
from traceforge.packs.pack_format import PackBundle
from traceforge.shape import (
    DigestText,
    NonEmptyText,
    NonNegative,
    OpenObject,
    ShapeProblem,
    Timestamp,
    WholeNumber,
    find_problems,
    find_timestamp_problems,
    json_type_name,
)
from traceforge.shape.difference_walk import list_shape_differences

EXAMPLES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{name: (case.shape, case.examples) for name, case in FORMATS.items()},
    "pack-bundle": (PackBundle, (lambda: {"bundle_id": "bundle-1", "outputs": {}},)),
    "config": (
        Config,
        (
            lambda: {
                "traces_dir": "traces",
                "max_trace_retention": 30,
                "redact_fields": ["x"],
                "models": {"claude-*": {"gate": "request", "temperature": 1, "max_tokens": 5}, "gpt-4": {}},
            },
        ),
    ),
}


def _is_accepted(value: Any, shape: Any) -> bool:
    try:
        msgspec.convert(_without_surrogates(value), shape)
    except msgspec.ValidationError:
        return False
    return True


def _without_surrogates(value: Any) -> Any:
    """The value without lone surrogates, at which msgspec raises UnicodeEncodeError."""
    if isinstance(value, str):
        return value.replace("\ud800", "\ufffd")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(member) for key, member in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, list) else value


def _cases() -> list[Any]:
    return [
        pytest.param(shape, example, id=f"{name}-{place}")
        for name, (shape, examples) in EXAMPLES.items()
        for place, example in enumerate(examples)
    ]


@pytest.mark.parametrize(("shape", "example"), _cases())
def test_a_good_example_has_no_problem(shape: Any, example: Any) -> None:
    """The fullest and the smallest value of every format."""
    assert [] == find_problems(example(), shape)
    assert [] == list(list_shape_differences(example(), shape))


@pytest.mark.parametrize("name", EXAMPLES)
@fuzz(300)
@given(data=st.data())
def test_a_problem_is_found_exactly_where_msgspec_refuses(name: str, data: st.DataObject) -> None:
    shape, examples = EXAMPLES[name]
    value = mutate(data.draw(st.sampled_from(examples))(), data.draw(mutations))

    problems = list(list_shape_differences(value, shape))

    assert _is_accepted(value, shape) == (not problems)
    assert problems == find_problems(value, shape)
    assert not [problem for problem in problems if SECRET in problem.message or problem.message.endswith(" ")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_problem_prints_a_string_of_the_document(name: str) -> None:
    """With one junk value after another at every place, or at every fifth in a short run."""
    places = range(0, 60, 5 if RunLength.is_short else 1)
    shape, (example, *_) = EXAMPLES[name]
    secrets = [choice for choice, junk in enumerate(JUNK) if SECRET in str(junk)]
    values = [mutate(example(), [Mutation(place, 0, choice)]) for place in places for choice in secrets]
    messages = {problem.message for value in values for problem in list_shape_differences(value, shape)}

    assert messages
    assert not [message for message in messages if SECRET in message]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("junk", [None, True, 0, 1.5, "", SECRET, "\ud800", [], [{}]], ids=ascii)
def test_a_document_of_another_type_is_one_problem_at_its_root(junk: Any, name: str) -> None:
    """A list, a text or null is named once, with its JSON type."""
    assert [ShapeProblem("$", f"must be object, got {json_type_name(junk)}")] == find_problems(
        junk, EXAMPLES[name][0]
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "\ud800", "many": [1]}, []),
        ({"name": "a", "many": [1], "\ud800": 1}, []),
        ({"name": "a", "many": ["\ud800"]}, [ShapeProblem("$.many[0]", "must be number, got string")]),
        ({"name": "a", "many": [1], "mode": "\ud800"}, [ShapeProblem("$.mode", "must be 'record' or 'replay'")]),
        ({"\ud800": 1, "many": [1]}, [ShapeProblem("$.name", "required field name is missing")]),
    ],
    ids=ascii,
)
def test_a_lone_surrogate_is_accepted_as_text(value: Any, expected: list[ShapeProblem]) -> None:
    """JSON text may hold one anywhere, also in a key."""
    assert expected == find_problems(value, _Open)


class _Inner(msgspec.Struct, forbid_unknown_fields=True):
    text: NonEmptyText
    many: list[WholeNumber]


class _Outer(msgspec.Struct):
    inner: _Inner
    maybe: str | list[_Inner] | msgspec.UnsetType | None = msgspec.UNSET
    digest: DigestText | msgspec.UnsetType = msgspec.UNSET
    when: Timestamp | msgspec.UnsetType = msgspec.UNSET
    open: OpenObject | msgspec.UnsetType = msgspec.UNSET
    share: Annotated[float, msgspec.Meta(ge=0, le=2)] | msgspec.UnsetType = msgspec.UNSET
    few: Annotated[list[Any], msgspec.Meta(max_length=2)] | msgspec.UnsetType = msgspec.UNSET
    by_name: dict[str, NonNegative] | msgspec.UnsetType = msgspec.UNSET


class _Open(msgspec.Struct):
    name: str
    many: list[float]
    mode: Literal["record", "replay"] = "record"


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ({"inner": None}, ("$.inner", "must be object, got null")),
        ({"inner": {"many": []}}, ("$.inner.text", "required field text is missing")),
        ({"inner": {"text": "", "many": []}}, ("$.inner.text", "must not be empty")),
        ({"inner": {"text": "a", "many": [1, True]}}, ("$.inner.many[1]", "must be number, got boolean")),
        ({"inner": {"text": "a", "many": [0.5]}}, ("$.inner.many[0]", "must be a whole number, got 0.5")),
        ({"inner": {"text": "a", "many": [-1]}}, ("$.inner.many[0]", "must be at least 0, got -1")),
        ({"inner": {"text": "a", "many": {}}}, ("$.inner.many", "must be array, got object")),
        ({"inner": {"text": "a", "many": [], "top-p": 1}}, (json_path("$.inner", "top-p"), "unknown field")),
        ({"maybe": 5}, ("$.maybe", "must be string or array or null, got number")),
        ({"maybe": [{"text": 5, "many": []}]}, ("$.maybe[0].text", "must be string, got number")),
        ({"digest": "sha256:AB"}, ("$.digest", "must be sha256: and 64 lower-case hex digits")),
        ({"when": "yesterday"}, ("$.when", "must be a timestamp such as 2026-01-09T10:30:00Z")),
        ({"open": []}, ("$.open", "must be object, got array")),
        ({"share": 2.5}, ("$.share", "must be at most 2, got 2.5")),
        ({"share": 1e21}, ("$.share", "must be at most 2, got 1e+21")),
        ({"few": [1, 2, 3]}, ("$.few", "must have at most 2 items, has 3")),
        ({"by_name": {"a b": -0.5}}, (json_path("$.by_name", "a b"), "must be at least 0, got -0.5")),
    ],
    ids=lambda case: ascii(case) if isinstance(case, dict) else "",
)
def test_a_problem_has_its_path_and_the_expected_value(member: Any, expected: tuple[str, str]) -> None:
    """Each kind of difference has its own sentence."""
    value = {"inner": {"text": "a", "many": []}, **member}

    assert [ShapeProblem(*expected)] == find_problems(value, _Outer)


def test_every_problem_is_named_not_only_the_first() -> None:
    """In the order of the type."""
    value: Any = {"inner": {"text": "", "many": [None], "more": 1}, "digest": 0}

    assert ["$.inner.text", "$.inner.many[0]", "$.inner.more", "$.digest"] == [
        problem.path for problem in find_problems(value, _Outer)
    ]


def test_a_value_is_never_changed() -> None:
    """12.0 stays a float and no default appears."""
    value: Any = {"inner": {"text": "a", "many": [12.0, 3]}, "unknown": {"kept": 1}}
    before = repr(value)

    assert [] == find_problems(value, _Outer)
    assert before == repr(value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (0, "number"),
        (0.5, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_a_type_has_its_json_name(value: Any, name: str) -> None:
    assert name == json_type_name(value)


@pytest.mark.parametrize(
    "text", ["2026-02-30T10:00:00Z", "2025-02-29T00:00:00Z", "2026-04-31T23:59:59.5+01:00", "0000-01-01T00:00:00Z"]
)
def test_a_day_that_does_not_exist_is_a_problem(text: str) -> None:
    """The pattern accepts the 30th of February; the calendar does not."""
    assert [] == find_problems({"inner": {"text": "a", "many": []}, "when": text}, _Outer)
    assert [ShapeProblem("$.when", "names a day or time that does not exist")] == find_timestamp_problems(
        text, "$.when"
    )


@pytest.mark.parametrize(
    "value", [None, 5, "yesterday", "2026-02-30", "2024-02-29T10:00:00Z", ["2026-02-30T10:00:00Z"]]
)
def test_only_timestamps_are_checked_against_the_calendar(value: Any) -> None:
    """Other types and spellings are reported as differences of shape."""
    assert [] == find_timestamp_problems(value, "$.when")
