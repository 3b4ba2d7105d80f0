"""`traceforge.expect(response)`: the assertions of check files, in a test written in Python.

    expect(response).tool_called("refund", amount=59.9).no_refusal()

In: a response. Out: the same expectation, so that calls can be chained, or an `AssertionError` with what was
expected, what there is, and where. Never: passes where something could not be checked.
"""

from __future__ import annotations

from typing import Any, Self

from traceforge.canon import JSON
from traceforge.checks.assertions.evaluation import evaluate, find_assertion_problems
from traceforge.checks.assertions.judge_assertions import EvaluationTools
from traceforge.checks.assertions.outcome import Outcome, Verdict
from traceforge.checks.assertions.response_reading import read_response_answers
from traceforge.checks.formats.assertion_types import AnyAssertion
from traceforge.conversion import convert
from traceforge.redact.redactor import Redactor
from traceforge.shape import find_problems


class Expectation:
    """What is expected of a response. Each method raises `AssertionError` unless it holds for every choice."""

    def __init__(self, response: object) -> None:
        self._answers = read_response_answers(response)
        self._tools = EvaluationTools(Redactor())

    def holds(self, assertion_type: str, /, **fields: JSON) -> Self:
        """Any assertion of a check file: its `type`, and its fields.

        Raises:
            ValueError: no assertion has this type, or a field is wrong.
            AssertionError: it does not hold, or could not be checked.
        """
        value: Any = {"type": assertion_type, **fields}
        if problems := find_problems(value, AnyAssertion):
            raise ValueError("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
        assertion: AnyAssertion = convert(value, AnyAssertion)
        if problems := list(find_assertion_problems([assertion], "$")):
            raise ValueError("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
        for answer in self._answers:
            outcome = evaluate(assertion, answer, self._tools)
            if not outcome.holds:
                raise AssertionError(_describe(assertion_type, outcome))
        return self

    def contains(self, *texts: str, ignore_case: bool = False) -> Self:
        """The text contains each of these texts."""
        return self.holds("contains", value=[*texts], ignore_case=ignore_case)

    def not_contains(self, *texts: str, ignore_case: bool = False) -> Self:
        """The text contains none of these texts."""
        return self.holds("not_contains", value=[*texts], ignore_case=ignore_case)

    def regex(self, pattern: str, *, whole: bool = False) -> Self:
        """The text has a match of a google-re2 expression."""
        return self.holds("regex", pattern=pattern, whole=whole)

    def json_schema(self, schema: dict[str, JSON]) -> Self:
        """The text is JSON, and valid under a JSON Schema."""
        return self.holds("json_schema", schema=schema)

    def json_subset(self, value: dict[str, JSON] | list[JSON]) -> Self:
        """The text is JSON that has everything in `value`."""
        return self.holds("json_subset", value=value)

    def finish_reason(self, *reasons: str) -> Self:
        """The model stopped for one of these reasons, in the words of the unified view."""
        return self.holds("finish_reason", value=[*reasons])

    def no_refusal(self) -> Self:
        """The model did not refuse."""
        return self.holds("no_refusal")

    def no_pii(self) -> Self:
        """The redactor finds neither secrets nor personal data in the answer."""
        return self.holds("no_pii")

    def tool_called(self, tool: str, /, **arguments: JSON) -> Self:
        """The model called a tool; the call has at least these arguments."""
        return self.holds("tool_called", tool=tool, **({"arguments": arguments} if arguments else {}))


def expect(response: object) -> Expectation:
    """What is expected of the response of an SDK, or of a provider's response as a dictionary.

    Raises:
        TypeError: it has none of the forms of a response that TraceForge knows.
    """
    return Expectation(response)


def _describe(assertion_type: str, outcome: Outcome) -> str:
    verdict = "does not hold" if outcome.verdict is Verdict.FAILED else "could not be checked"
    where = f" (where: {outcome.where})" if outcome.where != "text" else ""
    return f"{assertion_type} {verdict}: expected {outcome.expected}; got {outcome.actual}{where}"
