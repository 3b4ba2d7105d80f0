"""`chat/execution_trace.py`: exactly the locked object of the specification, no key more and no key fewer."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
import pytest

from support.corpus import need_shared
from support.format_examples import HEX, example_execution_trace
from traceforge.chat.execution_trace import (
    ExecutionTrace,
    check_execution_trace,
    read_execution_trace,
    write_execution_trace,
)
from traceforge.errors import InvalidFile, NotJSON

PATHS = [
    ("trace_id",),
    ("timestamp",),
    ("model",),
    ("session_id",),
    ("inputs",),
    ("inputs", "system_prompt_hash"),
    ("inputs", "developer_prompt_hash"),
    ("inputs", "session_prompt_hash"),
    ("inputs", "user_message"),
    ("output",),
    ("output", "assistant_message"),
]


def _rules(value: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check_execution_trace(value)]


def _set(path: tuple[str, ...], bad: Any) -> dict[str, Any]:
    value = example_execution_trace()
    place = value[path[0]] if len(path) == 2 else value
    place[path[-1]] = bad
    return value


def _drop(path: tuple[str, ...]) -> dict[str, Any]:
    value = example_execution_trace()
    place = value[path[0]] if len(path) == 2 else value
    del place[path[-1]]
    return value


def _spelled(path: tuple[str, ...]) -> str:
    return "$." + ".".join(path)


def test_the_object_has_the_locked_structure_of_the_specification() -> None:
    """The same keys in the same order, inside `inputs` and `output` too."""
    text = need_shared("seeds/001_45a0da39cc1470d0.txt").read_text(encoding="utf-8")
    block = re.search(r"TRACE OBJECT \(LOCKED STRUCTURE\)\s*(\{.*?\n\})", text, re.DOTALL)
    assert block
    seed, trace = json.loads(block[1]), example_execution_trace()

    assert list(seed) == list(trace)
    assert list(seed["inputs"]) == list(trace["inputs"])
    assert list(seed["output"]) == list(trace["output"])


def test_a_written_trace_has_the_key_order_of_the_specification() -> None:
    """Two spaces, a final newline, whatever order it was read in."""
    value = {name: example_execution_trace()[name] for name in reversed(example_execution_trace())}
    trace = read_execution_trace(json.dumps(value).encode())
    data = write_execution_trace(trace)

    assert json.dumps(example_execution_trace(), indent=2) + "\n" == data.decode()
    assert trace == read_execution_trace(data)
    assert "Paris." == trace.output.assistant_message


def test_a_prompt_appears_as_its_bare_hash_only() -> None:
    """Lower-case hex SHA-256 of the UTF-8 text; a `sha256:` prefix, which our other digests have, is refused."""
    digest = hashlib.sha256(b"You are helpful.\n").hexdigest()

    assert [] == check_execution_trace(_set(("inputs", "system_prompt_hash"), digest))
    for bad in (f"sha256:{digest}", digest.upper(), digest[1:], f"{digest}\n", "You are helpful.\n", "", None):
        assert [("ET1", "$.inputs.system_prompt_hash")] == _rules(_set(("inputs", "system_prompt_hash"), bad))


@pytest.mark.parametrize("path", PATHS, ids=_spelled)
def test_a_missing_key_is_refused(path: tuple[str, ...]) -> None:
    """There are no partial traces."""
    assert [("ET1", _spelled(path))] == _rules(_drop(path))


@pytest.mark.parametrize(
    "path", [("extra",), ("inputs", "system_prompt"), ("inputs", "history"), ("output", "tokens")]
)
def test_an_additional_key_is_refused(path: tuple[str, ...]) -> None:
    """The structure is locked at every level."""
    assert [("ET1", _spelled(path))] == _rules(_set(path, "x"))


@pytest.mark.parametrize("path", PATHS, ids=_spelled)
@pytest.mark.parametrize("bad", [None, 5, True, [], ["x"]], ids=ascii)
def test_a_value_of_another_type_is_one_finding(path: tuple[str, ...], bad: Any) -> None:
    """Every key, every other type."""
    assert [("ET1", _spelled(path))] == _rules(_set(path, bad))


@pytest.mark.parametrize("path", [path for path in PATHS if path not in (("inputs",), ("output",))], ids=_spelled)
def test_only_an_answer_may_be_empty(path: tuple[str, ...]) -> None:
    """A model may answer with nothing; everything else has a value."""
    expected = [] if path[-1] == "assistant_message" else [("ET1", _spelled(path))]

    assert expected == _rules(_set(path, ""))


@pytest.mark.parametrize(
    "bad", ["yesterday", "2026-01-09T10:30:00", "2026-02-30T10:30:00Z", "2026-01-09T10:30:00Z\n"]
)
def test_a_time_is_an_instant_that_exists(bad: str) -> None:
    """ISO 8601 with a zone, on a day of the calendar."""
    assert [("ET1", "$.timestamp")] == _rules(_set(("timestamp",), bad))


def test_all_findings_are_reported_together() -> None:
    """Three findings in the error; a text that is not JSON is refused as such."""
    value = example_execution_trace() | {"model": "", "extra": 1, "output": {}}
    with pytest.raises(InvalidFile) as caught:
        read_execution_trace(json.dumps(value).encode())
    with pytest.raises(NotJSON):
        read_execution_trace(b"{")

    assert {"$.model", "$.extra", "$.output.assistant_message"} == {finding.path for finding in caught.value.findings}
    assert "a.json" == check_execution_trace(None, "a.json")[0].file


def test_a_message_may_hold_any_text() -> None:
    """Lone surrogates, newlines and quotes are unchanged."""
    text = '"\n\ud800é😀\u2028'
    trace = read_execution_trace(json.dumps(_set(("inputs", "user_message"), text)).encode())

    assert text == trace.inputs.user_message
    assert trace == read_execution_trace(write_execution_trace(trace))


def test_a_trace_cannot_be_changed() -> None:
    """It is a frozen object."""
    trace = msgspec.convert(example_execution_trace(), ExecutionTrace)
    with pytest.raises(AttributeError):
        trace.model = "other"  # type: ignore[misc]
    assert HEX == trace.inputs.system_prompt_hash
