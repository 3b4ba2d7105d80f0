"""`checks/formats/check_file.py`: a malformed check file never passes, and its errors have a place."""

from __future__ import annotations

import pytest

from traceforge.checks.formats.check_file import make_check, read_check_file
from traceforge.checks.formats.check_types import Check
from traceforge.errors import InvalidFile

GOOD = """name: a
trace_id: "12345678"
assertions:
  - {type: contains, value: x}
"""
ENTRY = "  - {name: %s, trace_id: abcd, assertions: [{type: refusal}]}\n"
SEVERAL = "tests:\n" + 2 * ENTRY


def make_first_check(text: str) -> Check:
    """The first check of a file, of its first case where it has cases."""
    definition = read_check_file(text.encode(), "a.yaml")[0]
    cases = definition.cases
    return make_check(definition, cases[0], "case 1") if isinstance(cases, list) else make_check(definition, None, "")


def read_problems(text: str) -> list[tuple[str, str, str]]:
    """The place, the message and the hint of every finding."""
    with pytest.raises(InvalidFile) as refused:
        make_first_check(text)
    assert {"a.yaml"} == {finding.file for finding in refused.value.findings}
    return [(finding.path, finding.message, finding.hint) for finding in refused.value.findings]


def test_a_file_holds_one_check_or_several() -> None:
    """Each with its name and its line."""
    several = "tests:\n" + "".join(
        f"  - {{name: {name}, trace_id: abcd, assertions: [{{type: refusal}}]}}\n" for name in "ab"
    )

    single_definitions = read_check_file(GOOD.encode(), "a.yaml")
    definitions = read_check_file(several.encode(), "a.yaml")

    assert [("a", 1)] == [(item.name, item.mark.line) for item in single_definitions]
    assert [("a", 2), ("b", 3)] == [(item.name, item.mark.line) for item in definitions]
    assert "x" == getattr(make_check(single_definitions[0], None, "").assertions[0], "value", None)


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("", "line 1 column 1", "the file is empty", ""),
        ("- a", "line 1 column 1", "must be a mapping: one check, or several under tests", ""),
        ("tests: []", "line 1 column 1", "tests must be an array of at least one check", ""),
        ("tests: 3", "line 1 column 1", "tests must be an array of at least one check", ""),
        (GOOD.replace("value: x", "valu: x"), "line 4 column 5", "assertions[0].value required field", ""),
        (GOOD.replace("contains", "contans"), "line 4 column 6", "assertions[0].type must be", "contains?"),
        (GOOD.replace("type: contains, ", ""), "line 4 column 5", "assertions[0].type required field type", ""),
        (GOOD.replace("name: a", 'name: " \\t"'), "line 1 column 1", "name must be a text with more than white", ""),
        (GOOD.replace("value: x", 'value: "{{x}}"'), "line 4 column 22", "assertions[0].value a variable, and", ""),
        (GOOD + "tags: [\0]", "line 5 column 8", "the character U+0000, which YAML does not allow", ""),
        (GOOD + "tag: [x]\n", "line 5 column 1", "tag unknown field", "Did you mean tags?"),
        (GOOD + "runs: 0\n", "line 5 column 1", "runs must be at least 1, got 0", ""),
        (GOOD + "timeout: 0\n", "line 5 column 1", "timeout must be more than 0", ""),
        (GOOD + "pass_rate: 0\n", "line 5 column 1", "pass_rate must be more than 0", ""),
        (GOOD + "pass_rate: 0.9\nmargin: 0.001\n", "line 5 column 1", "pass_rate cannot be judged: the margin", ""),
        (GOOD + "pass_rate: 0.01\n", "line 5 column 1", "pass_rate cannot be judged: the margin must be", ""),
        (GOOD + "margin: 0.1\n", "line 5 column 1", "margin needs a pass_rate", ""),
        (GOOD + "pass_rate: 0.1\nmargin: 0.2\n", "line 6 column 1", "margin must be more than 0 and less", ""),
        (GOOD + "session: s\n", "line 1 column 1", "must have one of trace_id, session, snapshot, request; has", ""),
        (GOOD.replace("trace_id", "request"), "line 2 column 1", "request must be object, got string", ""),
        (GOOD + "fixtures: {setup: [make]}\n", "line 5 column 20", "fixtures.setup[0] must be array, got", ""),
        (GOOD + "fixtures: {envs: {}}\n", "line 5 column 12", "fixtures.envs unknown field", "Did you mean env?"),
        (GOOD + "cases: {fil: x}\n", "line 5 column 9", "cases.fil unknown field", ""),
        (GOOD + "cases: {traces: x, limt: 3}\n", "line 5 column 20", "cases.limt unknown field", "limit?"),
        (GOOD + "cases: []\n", "line 5 column 1", "cases must have at least 1 item", ""),
        (GOOD.replace("  - {", "  - {type: not, assertion: {", 1).replace("x}", "3}}"), "line 4 column 45",
         "assertions[0].assertion.value must be string or array, got number", ""),
        (GOOD + "name: b\n", "line 5 column 1", "not YAML of a check file: the key 'name' occurs twice", ""),
        (SEVERAL % ("a", "a"), "line 3 column 5", "the check at line 2 has the same name: 'a'", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_at_its_place(text: str, place: str, message: str, hint: str) -> None:
    """With the nearest known word, where one is unknown."""
    problems = read_problems(text)

    assert [] != [problem for problem in problems if problem[0] == place and message in problem[1]], problems
    assert any(hint in problem[2] for problem in problems), problems


def test_a_case_fills_the_variables_with_their_types() -> None:
    """A text of one variable becomes its value; a value is never searched for variables."""
    text = """name: a
trace_id: "{{id}}"
cases: [{id: abcd, most: 3, text: "{{id}}", list: [1, 2]}]
assertions:
  - {type: length, max: "{{most}}"}
  - {type: exact, value: "{{text}} of {{ most }} in {{list}}"}
"""

    check = make_first_check(text)

    length, exact = check.assertions
    assert "abcd" == check.trace_id
    assert (3, "{{id}} of 3 in [1,2]") == (getattr(length, "max", 0), getattr(exact, "value", ""))


def test_a_variable_without_a_value_is_a_mistake() -> None:
    """At the text that names it, with what the case has."""
    text = GOOD.replace("value: x", 'value: "{{y}}"') + "cases: [{x: 1}]\n"

    ((place, message, _),) = read_problems(text)

    assert ("line 4 column 22", "assertions[0].value the case has no variable y; it has: x (in case 1)") == (
        place,
        message,
    )


@pytest.mark.parametrize("name", ["Größe", "order number", "2nd", "user.e-mail"])
def test_the_name_of_a_column_is_that_of_a_variable(name: str) -> None:
    """A table has any heads. A variable that is not recognised would be a text that no answer contains."""
    text = GOOD.replace("type: contains, value: x", f'type: not_contains, value: "{{{{ {name} }}}}"')

    check = make_first_check(text + f"cases: [{{{name}: y}}]\n")

    assert "y" == getattr(check.assertions[0], "value", "")


def test_a_variable_in_a_key_is_a_mistake() -> None:
    """None is filled there, so that the key would be one that no call has."""
    text = GOOD.replace("{type: contains, value: x}", '{type: tool_called, tool: f, arguments: {"{{x}}": 1}}')

    ((place, message, _),) = read_problems(text + "cases: [{x: 1}]\n")

    assert ("line 4 column 46", True) == (place, "a variable in a key, where none is filled" in message)


def test_without_cases_the_braces_of_a_request_are_text() -> None:
    """A prompt may be a template of the application; a request that nobody sent is found by no check."""
    check = make_first_check(GOOD.replace('trace_id: "12345678"', 'request: {model: m, prompt: "{{x}}"}'))

    assert {"model": "m", "prompt": "{{x}}"} == check.request
