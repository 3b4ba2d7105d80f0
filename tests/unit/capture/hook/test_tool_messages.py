"""Calls of tools as bytes: what a replay makes again, and what it refuses to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from traceforge.capture.hook.redacted_json import can_be_same_json
from traceforge.capture.hook.tool_messages import (
    NotJson,
    decode_answer,
    encode_error,
    encode_request,
    encode_result,
)


class Course(Enum):
    """An argument that a framework has made of a text."""

    SOUP = "soup"


@dataclass
class Table:
    """A result that is no JSON, and is made again by its class."""

    guests: int
    name: str


class Word(StrEnum):
    """A text that is more than a text."""

    SOUP = "soup"


class Degrees(float):
    """A number with methods of its own, such as numpy's `float64`."""


class Count(int):
    """The same of a whole number."""


class Greeting(str):
    """The same of a text."""

    __slots__ = ()


@dataclass
class Checked:
    """Equal to another that says something else."""

    number: int
    note: str = field(default="", compare=False)


class Coded(Exception):
    """An error with an attribute."""

    def __init__(self, message: str, code: Any = 0) -> None:
        super().__init__(message)
        self.code = code


class TwoArguments(Exception):
    """An error that cannot be made of its message alone."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} at {where}")


def _as_it_is(fields: Any) -> Any:
    return fields


def _as_table(fields: Any) -> Table:
    return Table(**fields)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Course.SOUP, '"soup"'),
        (datetime(2026, 1, 2), '"2026-01-02 00:00:00"'),
        (Decimal("1.50"), '"1.50"'),
        (Path("a/b"), '"a/b"'),
        ((1, [2.5, None]), "[1,[2.5,null]]"),
        (Table(2, "Ä"), '{"guests":2,"name":"Ä"}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_argument_is_written_as_json(value: Any, text: str) -> None:
    assert f'{{"tool":"find","arguments":{{"a":{text}}}}}' == encode_request("find", {"a": value}).decode()


class Unwilling:
    """A value that fails to say what it holds, with a word that nobody may read."""

    def model_dump(self, mode: str) -> object:
        raise RuntimeError("hunter2")


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize("value", [Unwilling(), HOLDS_ITSELF, [Unwilling()]], ids=["fails", "cycle", "inside"])
def test_a_value_that_fails_is_refused_like_any_other(value: Any) -> None:
    """Its own error would reach the application, and may quote what it holds."""
    with pytest.raises(NotJson, match=r"written as JSON \((RuntimeError|RecursionError)\)"):
        encode_request("find", {"a": value})
    with pytest.raises(NotJson):
        encode_result(value, _as_it_is)


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), "\ud800", b"bytes", {"deep": {1, 2}}, Table])
def test_an_argument_without_a_form_in_json_is_refused(value: Any) -> None:
    """Two calls with different arguments would be taken for one."""
    with pytest.raises(NotJson):
        encode_request("find", {"a": value})


@pytest.mark.parametrize(
    ("result", "restore"),
    [
        (None, _as_it_is),
        ({"a": [1, 2.5, True]}, _as_it_is),
        (("text", {"b": 1}), _as_it_is),
        (Table(2, "x"), _as_table),
    ],
    ids=["nothing", "json", "tuple", "object"],
)
def test_a_result_is_made_again(result: Any, restore: Callable[[Any], Any]) -> None:
    assert result == decode_answer(encode_result(result, restore), restore).result


@pytest.mark.parametrize(
    ("value", "text"),
    [(Degrees(12.5), "12.5"), (Count(3), "3"), (Greeting("hello"), '"hello"'), (Word.SOUP, '"soup"')],
)
def test_an_argument_of_a_subclass_is_written_as_its_base(value: Any, text: str) -> None:
    """The code has its type, as of every argument."""
    assert b'{"tool":"t","arguments":{"a":%b}}' % text.encode() == encode_request("t", {"a": value})


@pytest.mark.parametrize(
    ("result", "restore"),
    [
        (object(), _as_it_is),
        (Course.SOUP, _as_it_is),
        ([(1, 2)], _as_it_is),
        (Table(2, "x"), _as_it_is),
        ({"a": Decimal(1)}, _as_it_is),
        ([Word.SOUP], _as_it_is),
        ({"a": defaultdict(list)}, _as_it_is),
        (Checked(1, note="x"), lambda fields: Checked(fields["number"])),
        (float("inf"), _as_it_is),
        (Degrees(12.5), _as_it_is),
        ([Count(3)], _as_it_is),
        ({"a": Greeting("hello")}, _as_it_is),
    ],
    ids=[
        "object",
        "enum",
        "inner tuple",
        "class unknown",
        "inner decimal",
        "inner text enum",
        "inner default",
        "not compared",
        "infinity",
        "number with methods",
        "inner number with methods",
        "inner text with methods",
    ],
)
def test_a_result_of_which_another_value_would_be_made_is_refused(result: Any, restore: Callable[[Any], Any]) -> None:
    """The application would go another way in the test than it did when it was recorded."""
    with pytest.raises(NotJson):
        encode_result(result, restore)


def test_an_error_is_raised_again_with_its_arguments() -> None:
    error = decode_answer(encode_error(LookupError("no dish", 4)), _as_it_is).error

    assert (LookupError, ("no dish", 4)) == (type(error), error.args if error else None)


def test_an_error_is_raised_again_with_its_attributes() -> None:
    """Applications decide by them."""
    noted = Coded("no dish", 404)
    noted.add_note("ask again")

    errors = [
        decode_answer(encode_error(error), _as_it_is).error for error in (noted, FileNotFoundError(2, "No", "x"))
    ]

    assert isinstance(errors[0], Coded)
    assert isinstance(errors[1], FileNotFoundError)
    assert (404, ["ask again"], "x") == (errors[0].code, errors[0].__notes__, errors[1].filename)


@pytest.mark.parametrize(
    "error",
    [
        TwoArguments("a", "b"),
        type("Local", (Exception,), {})("x"),
        ValueError(Decimal(1)),
        KeyError((1, 2)),
        Coded("x", object()),
        ExceptionGroup("all", [ValueError()]),
        Coded(Greeting("x"), 1),
    ],
    ids=["arguments", "of no module", "argument", "inner tuple", "attribute", "group", "text with methods"],
)
def test_an_error_that_cannot_be_made_again_is_refused(error: Exception) -> None:
    with pytest.raises(NotJson):
        encode_error(error)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"result": 1',
        b'{"other": 1}',
        b'{"error": {"type": "os.system", "args": ["true"], "message": ""}}',
        b'{"error": {"type": "antigravity.X", "args": [], "message": ""}}',
        b'{"error": {"type": "builtins.SystemExit", "args": [], "message": ""}}',
        b"[" * 100_000,
    ],
    ids=["empty", "list", "cut", "nothing", "function", "not loaded", "no error", "deep"],
)
def test_an_answer_that_no_tool_gave_is_refused(answer: bytes) -> None:
    """It comes from a file of the checkout: no function runs and no module is imported because of it."""
    with pytest.raises(ValueError, match="cannot be used"):
        decode_answer(answer, _as_it_is)


@pytest.mark.parametrize(
    ("recorded", "now", "can_be_same"),
    [
        (b'{"result":"a"}', b'{"result":"a"}', True),
        (b'{"result":"a"}', b'{"result":"b"}', False),
        (b'{"result":"to [REDACTED], now"}', b'{"result":"to a@b.c, now"}', True),
        (b'{"result":"to [REDACTED], now"}', b'{"result":"to a@b.c, then"}', False),
        (b'{"result":{"a":1}}', b'{"result":{"a":1,"b":2}}', False),
        (b'{"result":[1,2]}', b'{"result":[1]}', False),
        (b'{"result":1}', b'{"result":true}', False),
        (b'{"result":"[REDACTED]"}', b'{"result":4111}', True),
    ],
)
def test_an_answer_is_compared_with_the_approved_one(recorded: bytes, now: bytes, can_be_same: bool) -> None:
    """What was redacted stands for anything, until who can redact the other one has compared it."""
    assert can_be_same == can_be_same_json(json.loads(recorded), json.loads(now))
