"""Check files, and the answers that they judge: any of them, from anybody."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from traceforge.canon import JSON
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.evaluation import evaluate
from traceforge.checks.assertions.judge_assertions import EvaluationTools
from traceforge.checks.formats.assertion_types import AnyAssertion
from traceforge.checks.formats.check_file import make_check, read_check_file
from traceforge.compare.compared_call import ToolCall
from traceforge.conversion import convert
from traceforge.errors import InvalidFile
from traceforge.redact.redactor import Redactor

PIECES = [
    "name: a\n", "trace_id: abcd\n", "assertions:\n", "  - type: contains\n", "    value: x\n", "tests:\n", "  - ",
    "- ", "cases: [{a: 1}]\n", "cases: {file: x}\n", '"{{a}}"', "{{b}}", "type: not\n", "assertion: ", "{", "}",
    "[", "]", ": ", ", ", "\n", "  ", "&a ", "*a", "!!str ", "<<: ", "? ", "| ", "> ", "null", "1e999", "0x1",
    ".nan", "'", '"', "\t", "#", "%", "---\n", "...\n", "\ufeff", "\x85", "\u2028", "\x00", "\\ud800",
    "runs: -1\n", "pass_rate: 2\n", "request: {model: m, prompt: x}\n", "fixtures: {setup: [[a]]}\n",
    "tags: [x]\n",
]  # fmt: skip
# One of each kind whose library or expression sees the answer.
ASSERTIONS: list[dict[str, Any]] = [
    {"type": "exact", "value": "x", "ignore_case": True, "trim": True},
    {"type": "not_contains", "value": "x"},
    {"type": "regex", "pattern": "(x+x+)+y"},
    {"type": "json_path", "path": "$..[?match(@.a, '.*') || search(@.b, @.a)]"},
    {"type": "json_schema", "schema": {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"$ref": "#"}}}}}},
    {"type": "json_subset", "value": {"a": [{"b": 1}]}, "source": "block"},
    {"type": "fuzzy", "value": "x", "method": "words"},
    {"type": "length", "max": 1, "unit": "lines"},
    {"type": "language", "value": "en"},
    {"type": "token_count", "max": 1},
    {"type": "no_refusal"},
    {"type": "no_pii"},
    {"type": "tool_called", "tool": "t", "arguments": {"a": 1}, "schema": {"type": "object"}, "after": "u"},
    {"type": "judge", "rubric": "x", "provider": "openai", "model": "m"},
]

any_text = st.text(st.characters(codec=None), max_size=20)  # also with half characters
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab") | any_text, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.fuzzer(20)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("".join(PIECES[:5]))
def test_any_check_file_is_read_or_refused(text: str) -> None:
    """With a place for every finding; what is read can be made a check, or is refused, too."""
    try:
        for definition in read_check_file(text.encode(), "a.yaml"):
            cases = definition.cases
            for case in cases if isinstance(cases, list) else [None]:
                make_check(definition, case, "case 1")
            assert definition.mark.line >= 1
    except InvalidFile as exc:
        for finding in exc.findings:
            assert re.fullmatch(r"(line \d+ column \d+)?", finding.path), finding


@pytest.mark.fuzzer(20)
@given(any_text, st.lists(st.tuples(st.sampled_from(["t", "u"]) | any_text, any_json), max_size=3), any_text)
@example("\ud800", [("t", {"a": "\ud800"})], "\ud800")
@example('{"a": "\\ud800", "b": "("}', [], "")
@example('```json\n{"a": [1, {"b": 1}]}\n```', [], "")
def test_any_answer_is_judged(text: str, calls: list[tuple[str, JSON]], reason: str) -> None:
    """Each assertion passes, fails or could not be checked, and its outcome can be written."""
    tool_calls = tuple(ToolCall(name, arguments) for name, arguments in calls)
    answer = Answer(text, tool_calls, reason, "", "m")
    tools = EvaluationTools(Redactor(), lambda _request: [answer])

    for value in ASSERTIONS:
        assertion: AnyAssertion = convert(value, AnyAssertion)
        outcome = evaluate(assertion, answer, tools)
        assert outcome.expected
        assert outcome.to_json()


def test_a_deep_answer_takes_no_process_away() -> None:
    """JSON as deep as it is read, with a schema that refers to itself, and a query that looks everywhere."""
    deep = '{"a":' * 199 + "1" + "}" * 199
    answer = Answer(deep, (ToolCall("t", {}),))
    tools = EvaluationTools(Redactor())

    for value in ASSERTIONS:
        assertion: AnyAssertion = convert(value, AnyAssertion)
        assert evaluate(assertion, answer, tools).actual


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("$..[?count($..*) > 0]", json.dumps([[0]] * 5_000)),
        ("$..[?@.a || $..c]", json.dumps([{"a": 1, "b": 2}] * 5_000)),
        ("$..a..a..b", ('{"a":[' + "1," * 500) * 90 + "1" + "]}" * 90),
        ("$..a..a..a..b", '{"a":' * 200 + "1" + "}" * 200),
    ],
)
def test_a_query_does_not_look_at_a_large_answer_again_and_again(path: str, text: str) -> None:
    """A model may answer with JSON for which a harmless query takes minutes: that is not checked, and not green."""
    assertion = convert({"type": "json_path", "path": path}, AnyAssertion)

    outcome = evaluate(assertion, Answer(text), EvaluationTools(Redactor()))

    assert "too large for this query" in str(outcome), outcome


LONG_NAMES = '{"' + '":{"'.join("k" * 10_000 for _ in range(50)) + f'":[{",".join("1" * 1_000)}]' + "}" * 50


@pytest.mark.parametrize(
    "assertion",
    [{"type": "json_path", "path": "$..*"}, {"type": "json_schema", "schema": {"not": {}}}],
    ids=["json_path", "json_schema"],
)
def test_long_names_above_many_values_are_not_repeated_for_each(assertion: dict[str, Any]) -> None:
    """A model that answers with half a megabyte must not fill the memory with the places of its values."""
    outcome = evaluate(convert(assertion, AnyAssertion), Answer(LONG_NAMES), EvaluationTools(Redactor()))

    assert "unchecked" == outcome.verdict, outcome


def test_long_keys_above_many_values_of_a_check_file_are_refused() -> None:
    """Where a problem is, says a table of all places of the file."""
    with pytest.raises(InvalidFile) as refused:
        read_check_file(f"name: a\nunknown: {LONG_NAMES.replace('{', '{? ')}".encode(), "a.yaml")

    assert "long keys with too many values below them" in refused.value.findings[0].message


def test_a_check_file_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read it imports nothing: the function of `python` is loaded when its check runs."""
    (tmp_path / "planted_module.py").write_text("raise SystemExit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "name: a\ntrace_id: abcd\nassertions: [{type: python, function: 'planted_module:f'}]\n"

    (definition,) = read_check_file(text.encode(), "a.yaml")

    assert "a" == make_check(definition, None, "").name
    assert "planted_module" not in sys.modules
