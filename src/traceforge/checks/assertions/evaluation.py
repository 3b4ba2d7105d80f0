"""Evaluates any assertion about an answer.

In: an assertion, an answer, the redactor of the project, and a way to ask a judge. Out: an `Outcome`. Never: opens a
file or a socket itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

import re2
from msgspec import UNSET

from traceforge.canon import canonical_bytes, json_path
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.answer_assertions import (
    check_cost,
    check_finish_reason,
    check_latency,
    check_no_pii,
    check_no_refusal,
    check_refusal,
)
from traceforge.checks.assertions.json_assertions import (
    InvalidJsonPath,
    check_json_path,
    check_json_schema,
    check_json_subset,
    compile_json_path,
    compile_schema,
)
from traceforge.checks.assertions.judge_assertions import JUDGE_FIELDS, EvaluationTools, check_judge
from traceforge.checks.assertions.language_detection import LANGUAGES
from traceforge.checks.assertions.outcome import Outcome, Verdict
from traceforge.checks.assertions.python_assertions import check_python
from traceforge.checks.assertions.schema_keywords import find_misspelt_keywords
from traceforge.checks.assertions.semantic_assertions import check_semantic
from traceforge.checks.assertions.text_assertions import (
    check_contains,
    check_exact,
    check_fuzzy,
    check_language,
    check_length,
    check_not_contains,
    check_regex,
    check_token_count,
    compile_expression,
)
from traceforge.checks.assertions.tool_assertions import check_tool_called
from traceforge.checks.formats.assertion_types import (
    AllOfAssertion,
    AnyAssertion,
    AnyOfAssertion,
    ContainsAssertion,
    CostAssertion,
    ExactAssertion,
    FinishReasonAssertion,
    FuzzyAssertion,
    JsonPathAssertion,
    JsonSchemaAssertion,
    JsonSubsetAssertion,
    JudgeAssertion,
    LanguageAssertion,
    LatencyAssertion,
    LengthAssertion,
    NoPiiAssertion,
    NoRefusalAssertion,
    NotAssertion,
    NotContainsAssertion,
    PythonAssertion,
    RefusalAssertion,
    RegexAssertion,
    SemanticAssertion,
    TokenCountAssertion,
    ToolCalledAssertion,
)
from traceforge.shape import ShapeProblem

# An expression that matches all of each of them matches any text.
_ANY_TEXTS = ("", "{", "Refund: 5 €\n\n- \u4e2d\u6587\t1", " \r\n", "e" * 500)


def evaluate(assertion: AnyAssertion, answer: Answer, tools: EvaluationTools) -> Outcome:
    """Whether an assertion holds for an answer.

    Raises:
        MissingExtra: it needs a package that is not installed.
    """
    match assertion:
        case ExactAssertion():
            return check_exact(assertion, answer)
        case ContainsAssertion():
            return check_contains(assertion, answer)
        case NotContainsAssertion():
            return check_not_contains(assertion, answer)
        case RegexAssertion():
            return check_regex(assertion, answer)
        case JsonPathAssertion():
            return check_json_path(assertion, answer)
        case JsonSchemaAssertion():
            return check_json_schema(assertion, answer)
        case JsonSubsetAssertion():
            return check_json_subset(assertion, answer)
        case FuzzyAssertion():
            return check_fuzzy(assertion, answer)
        case SemanticAssertion():
            return check_semantic(assertion, answer)
        case LengthAssertion():
            return check_length(assertion, answer)
        case LatencyAssertion():
            return check_latency(assertion, answer)
        case CostAssertion():
            return check_cost(assertion, answer)
        case FinishReasonAssertion():
            return check_finish_reason(assertion, answer)
        case RefusalAssertion():
            return check_refusal(assertion, answer)
        case NoRefusalAssertion():
            return check_no_refusal(assertion, answer)
        case ToolCalledAssertion():
            return check_tool_called(assertion, answer)
        case NoPiiAssertion():
            return check_no_pii(assertion, answer, tools.redactor)
        case LanguageAssertion():
            return check_language(assertion, answer)
        case TokenCountAssertion():
            return check_token_count(assertion, answer)
        case PythonAssertion():
            return check_python(assertion, answer)
        case JudgeAssertion():
            return check_judge(assertion, answer, tools)
        case AllOfAssertion():
            return _check_all_of([evaluate(each, answer, tools) for each in assertion.assertions])
        case AnyOfAssertion():
            return _check_any_of([evaluate(each, answer, tools) for each in assertion.assertions])
        case NotAssertion():
            return _negate(evaluate(assertion.assertion, answer, tools))
    assert_never(assertion)


def _check_all_of(outcomes: list[Outcome]) -> Outcome:
    """The first that does not hold; else, the first that could not be checked."""
    for verdict in (Verdict.FAILED, Verdict.UNCHECKED):
        for outcome in outcomes:
            if outcome.verdict is verdict:
                return outcome
    return Outcome(Verdict.PASSED, " and ".join(outcome.expected for outcome in outcomes), outcomes[0].actual)


def _check_any_of(outcomes: list[Outcome]) -> Outcome:
    expected = " or ".join(outcome.expected for outcome in outcomes)
    verdicts = [outcome.verdict for outcome in outcomes]
    verdict = next(
        (verdict for verdict in (Verdict.PASSED, Verdict.UNCHECKED) if verdict in verdicts), Verdict.FAILED
    )
    outcome = next(outcome for outcome in outcomes if outcome.verdict is verdict)
    return Outcome(verdict, expected, outcome.actual, outcome.where)


def _negate(outcome: Outcome) -> Outcome:
    opposite = {Verdict.PASSED: Verdict.FAILED, Verdict.FAILED: Verdict.PASSED}
    verdict = opposite.get(outcome.verdict, Verdict.UNCHECKED)
    return Outcome(verdict, f"not: {outcome.expected}", outcome.actual, outcome.where)


def find_assertion_problems(assertions: Iterable[AnyAssertion], path: str) -> Iterator[ShapeProblem]:
    """Mistakes that types cannot express: an invalid expression, query or schema, or one that holds for every answer.

    Raises:
        MissingExtra: an assertion needs a package that is not installed.
    """
    for place, assertion in enumerate(assertions):
        yield from _find_problems(assertion, f"{path}[{place}]")


def _find_problems(assertion: AnyAssertion, path: str) -> Iterator[ShapeProblem]:
    match assertion:
        case RegexAssertion():
            yield from _find_expression_problem(assertion, f"{path}.pattern")
        case JsonPathAssertion():
            yield from _find_query_problem(assertion, f"{path}.path")
        case JsonSchemaAssertion():
            yield from _find_schema_problem(assertion.schema, f"{path}.schema")
        case ToolCalledAssertion():
            if assertion.schema is not UNSET:
                yield from _find_schema_problem(assertion.schema, f"{path}.schema")
            if assertion.exact and assertion.arguments is UNSET:
                yield ShapeProblem(f"{path}.exact", "needs arguments")
        case JudgeAssertion():
            for name in sorted(JUDGE_FIELDS & {*assertion.parameters}):
                yield ShapeProblem(json_path(f"{path}.parameters", name), "is not a parameter: the check pins it")
        case LanguageAssertion():
            if assertion.value not in LANGUAGES:
                yield ShapeProblem(f"{path}.value", f"must be one of {', '.join(LANGUAGES)}")
        case LengthAssertion() | TokenCountAssertion():
            if assertion.max is UNSET and assertion.min in (UNSET, 0):
                yield ShapeProblem(path, "needs max, or a min of more than 0: else it would hold for every answer")
            elif assertion.min is not UNSET and assertion.max is not UNSET and assertion.min > assertion.max:
                yield ShapeProblem(f"{path}.min", "must not be more than max")
        case FuzzyAssertion() | SemanticAssertion() if assertion.at_least == 0:
            yield ShapeProblem(f"{path}.at_least", "must be more than 0: else it would hold for every answer")
        case AllOfAssertion() | AnyOfAssertion():
            yield from find_assertion_problems(assertion.assertions, f"{path}.assertions")
        case NotAssertion():
            yield from _find_problems(assertion.assertion, f"{path}.assertion")


def _find_expression_problem(assertion: RegexAssertion, path: str) -> Iterator[ShapeProblem]:
    try:
        expression = compile_expression(assertion)
    except re2.error as exc:
        reason = exc.args[0] if exc.args else "not an expression"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        yield ShapeProblem(path, f"is not a google-re2 expression: {text}")
        return
    if assertion.whole and all(expression.fullmatch(text) for text in _ANY_TEXTS):
        yield ShapeProblem(path, "matches any text, so it would hold for every answer")
    elif not assertion.whole and expression.search(""):
        yield ShapeProblem(path, "matches the empty text, so it would hold for every answer")


def _find_query_problem(assertion: JsonPathAssertion, path: str) -> Iterator[ShapeProblem]:
    try:
        compile_json_path(assertion.path)
    except InvalidJsonPath as exc:
        yield ShapeProblem(path, f"is not a JSONPath of RFC 9535: {exc}")


def _find_schema_problem(schema: object, path: str) -> Iterator[ShapeProblem]:
    yield from find_misspelt_keywords(schema, path)
    try:
        compile_schema(canonical_bytes(schema))  # type: ignore[arg-type]
    except ValueError as exc:
        yield ShapeProblem(path, f"is not a JSON Schema: {str(exc).partition(chr(10))[0]}")
