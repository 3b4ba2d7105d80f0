"""Assertions about the JSON in the text of an answer: json_path, json_schema, json_subset.

JSON Schema is checked by jsonschema-rs and JSONPath by python-jsonpath, both with the regular expressions of engines
that take linear time: an expression in a check file cannot make a build hang. Neither fetches anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import re2
from msgspec import UNSET

from traceforge.canon import (
    JSON,
    PATHS_LENGTH_MAX,
    canonical_bytes,
    json_path,
    measure_paths,
    number_text,
    parse_json,
)
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.outcome import (
    Outcome,
    decide,
    quote,
    replace_half_characters,
    unchecked,
    value_text,
)
from traceforge.checks.formats.assertion_types import JsonPathAssertion, JsonSchemaAssertion, JsonSubsetAssertion
from traceforge.errors import MissingExtra, NotJSON

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment
    from re2 import _Regexp

try:
    import jsonpath
    import jsonschema_rs
    from jsonpath.function_extensions import ExpressionType, FilterFunction
except ImportError:  # The extra `checks` is not installed.
    jsonpath = jsonschema_rs = None  # type: ignore[assignment]

SELECTED_MAX = 10_000  # values that one JSONPath may select; `$..*..*` selects more than there are
STEPS_MAX = 20_000_000  # of a query, at about a million a second; see `_estimate_steps`
PROBLEMS_SHOWN = 3

_BLOCK = re.compile(r"^```[A-Za-z0-9_-]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class InvalidJsonPath(ValueError):
    """The text is not a JSONPath; the message says why."""


class JsonDifference(NamedTuple):
    """Where a value lacks a part of another."""

    path: str
    expected: JSON
    actual: str


def check_json_path(assertion: JsonPathAssertion, answer: Answer) -> Outcome:
    expected = _describe_json_path(assertion)
    value, problem = read_answer_json(answer.text, assertion.source)
    if problem:
        return decide(False, expected, problem)
    query = compile_json_path(assertion.path)
    if _estimate_steps(assertion.path, value) > STEPS_MAX or measure_paths(value) > PATHS_LENGTH_MAX:
        return unchecked(expected, "the answer is too large for this query", assertion.path)
    try:
        selected_nodes = islice(query.finditer(value), SELECTED_MAX + 1)
        matches = [(node.path, cast("JSON", node.obj)) for node in selected_nodes]
    except (jsonpath.JSONPathError, RecursionError) as exc:
        return unchecked(expected, str(exc).partition("\n")[0] or "nested too deeply", assertion.path)
    if len(matches) > SELECTED_MAX:
        return unchecked(expected, f"it selects more than {SELECTED_MAX} values", assertion.path)
    if not matches and assertion.count is UNSET:
        return decide(False, expected, f"nothing in {value_text(value)}", assertion.path)
    if assertion.count is not UNSET and len(matches) != assertion.count:
        return decide(False, expected, f"{len(matches)} values", assertion.path)
    if assertion.value is not UNSET:
        for path, selected in matches:
            if not is_equal_json(selected, assertion.value):
                return decide(False, expected, value_text(selected), path)
    return decide(True, expected, value_text([selected for _, selected in matches]), assertion.path)


def _estimate_steps(path: str, value: JSON) -> int:
    """How many values a query may look at, at most.

    Each `..` after another looks at what lies below each value that the one before selects, and a value lies below
    as many as it is deep. `$..` in a filter looks at every value for each candidate. A model may answer with JSON of
    any size.
    """
    count, depth, level = 0, 0, [value]
    while level:
        count, depth = count + len(level), depth + 1
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    in_filters = path.partition("?")[2].count("$..")
    return count * int(depth ** max(0, path.count("..") - in_filters - 1)) * int(count**in_filters)


def check_json_schema(assertion: JsonSchemaAssertion, answer: Answer) -> Outcome:
    value, problem = read_answer_json(answer.text, assertion.source)
    expected = "JSON that is valid under the schema"
    return decide(False, expected, problem) if problem else check_schema(assertion.schema, value, expected, "$")


def check_schema(schema: Mapping[str, Any] | bool, value: JSON, expected: str, root: str) -> Outcome:
    """Whether a value is valid under a schema; the outcome names the first problems."""
    if measure_paths(value) > PATHS_LENGTH_MAX:  # of the errors, which the validator builds all at once
        return unchecked(expected, "its names are too long for this many values", root)
    validator = compile_schema(canonical_bytes(schema))  # type: ignore[arg-type]
    try:
        errors = list(islice(validator.iter_errors(value), PROBLEMS_SHOWN))
    except UnicodeEncodeError:
        return unchecked(expected, "it holds half of a character", root)
    if not errors:
        return decide(True, expected, value_text(value), root)
    where = root
    for key in errors[0].instance_path:
        where = json_path(where, key)
    return decide(False, expected, "; ".join(error.message for error in errors), where)


def check_json_subset(assertion: JsonSubsetAssertion, answer: Answer) -> Outcome:
    expected = f"JSON with {value_text(assertion.value)}"
    value, problem = read_answer_json(answer.text, assertion.source)
    if problem:
        return decide(False, expected, problem)
    difference = find_difference(assertion.value, value, "$")
    if difference is None:
        return decide(True, expected, value_text(value), "$")
    return decide(False, value_text(difference.expected), difference.actual, difference.path)


def find_difference(expected: JSON, actual: JSON, path: str) -> JsonDifference | None:
    """The first part of `expected` that `actual` does not have; None where it has all of them.

    An object has its members. An array has its items in their order, and may have others between them.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, member in expected.items():
            place = json_path(path, key)
            if key not in actual:
                return JsonDifference(place, member, "nothing")
            if difference := find_difference(member, actual[key], place):
                return difference
        return None
    if isinstance(expected, list) and isinstance(actual, list):
        start = 0
        for item in expected:
            differences = (find_difference(item, other, path) for other in actual[start:])
            match = next((place for place, difference in enumerate(differences) if difference is None), None)
            if match is None:
                reason = f"no such item in {value_text(actual)}" if start == 0 else f"no such item from [{start}] on"
                return JsonDifference(path, item, reason)
            start += match + 1
        return None
    return None if is_equal_json(expected, actual) else JsonDifference(path, expected, value_text(actual))


def is_equal_json(value: JSON, other: JSON) -> bool:
    """Whether two values are equal as JSON: 1 is 1.0, and not true."""
    return canonical_bytes(value) == canonical_bytes(other)


def read_answer_json(text: str, source: str) -> tuple[JSON, str]:
    """The JSON of an answer, and why there is none."""
    if source == "block":
        blocks = _BLOCK.findall(text)
        if len(blocks) != 1:
            return None, f"{len(blocks)} fenced blocks in {quote(text)}"
        text = blocks[0]
    try:
        return parse_json(text.encode("utf-8", "surrogatepass")), ""
    except NotJSON as exc:
        return None, f"not JSON ({exc.message}): {quote(text)}"


@lru_cache(maxsize=256)
def compile_schema(schema: bytes) -> jsonschema_rs.Validator:
    """The validator of a schema, given as its canonical JSON.

    Raises:
        MissingExtra: jsonschema-rs is not installed.
        ValueError: it is not a JSON Schema, or refers to another one.
    """
    if jsonschema_rs is None:
        raise MissingExtra("JSON Schemas cannot be checked here: jsonschema-rs is not installed", "checks")
    options = jsonschema_rs.RegexOptions()  # the engine that takes linear time
    return jsonschema_rs.validator_for(parse_json(schema), retriever=_refuse_remote, pattern_options=options)  # type: ignore[arg-type]


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError("a schema refers to nothing outside of itself")


@lru_cache(maxsize=256)
def compile_json_path(path: str) -> JSONPath | CompoundJSONPath:
    """The compiled query.

    Raises:
        MissingExtra: python-jsonpath is not installed.
        InvalidJsonPath: it is not a JSONPath of RFC 9535.
    """
    if jsonpath is None:
        raise MissingExtra("the assertion json_path cannot run here: python-jsonpath is not installed", "checks")
    try:
        return _json_path_environment().compile(path)
    except (jsonpath.JSONPathError, RecursionError) as exc:
        raise InvalidJsonPath(str(exc).partition("\n")[0]) from None


@lru_cache(maxsize=1)
def _json_path_environment() -> JSONPathEnvironment:
    """RFC 9535 and nothing more. Its expressions (RFC 9485) are a subset of those of google-re2."""

    class ExpressionFunction(FilterFunction):
        arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012
        return_type = ExpressionType.LOGICAL

        def __init__(self, *, is_whole: bool) -> None:
            self._is_whole = is_whole

        def __call__(self, value: object, pattern: object) -> bool:
            if not isinstance(value, str) or not isinstance(pattern, str):
                return False
            expression = _compile_expression(replace_half_characters(pattern))
            if expression is None:
                return False
            text = replace_half_characters(value)
            return bool(expression.fullmatch(text) if self._is_whole else expression.search(text))

    environment = jsonpath.JSONPathEnvironment(strict=True)
    environment.function_extensions["match"] = ExpressionFunction(is_whole=True)
    environment.function_extensions["search"] = ExpressionFunction(is_whole=False)
    return environment


@lru_cache(maxsize=256)
def _compile_expression(pattern: str) -> _Regexp | None:
    """The expression of a query, which an answer may hold; None where it is none, as RFC 9535 has it."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _describe_json_path(assertion: JsonPathAssertion) -> str:
    parts = []
    if assertion.count is not UNSET:
        parts.append(f"{number_text(assertion.count)} values")
    if assertion.value is not UNSET:
        parts.append(f"nothing but {value_text(assertion.value)}" if parts else value_text(assertion.value))
    return f"{', '.join(parts) or 'a value'} at {assertion.path}"
