"""The assertion about calls of tools: tool_called."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from traceforge.canon import json_path, number_text
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.json_assertions import check_schema, find_difference, is_equal_json
from traceforge.checks.assertions.outcome import Outcome, decide, value_text
from traceforge.checks.formats.assertion_types import ToolCalledAssertion
from traceforge.compare.compared_call import ToolCall

CALLS_SHOWN = 3


def check_tool_called(assertion: ToolCalledAssertion, answer: Answer) -> Outcome:
    """The calls of the tool with these arguments are as many as expected, and come after another tool."""
    expected = _describe(assertion)
    calls = [(place, call) for place, call in enumerate(answer.tool_calls) if call.name == assertion.tool]
    if assertion.after is not UNSET:
        names = [call.name for call in answer.tool_calls]
        first = names.index(assertion.after) if assertion.after in names else len(names)
        calls = [(place, call) for place, call in calls if place > first]
    problems = [_find_problem(assertion, call, place) for place, call in calls]
    matching = problems.count(None)
    if assertion.count is not UNSET:
        return decide(
            matching == assertion.count, expected, f"{matching} such calls; {_list_calls(answer)}", "tool_calls"
        )
    if matching:
        return decide(True, expected, _list_calls(answer), "tool_calls")
    nearest = next((problem for problem in problems if problem is not None), None)
    if nearest is not None and nearest.where.startswith("tool_calls["):
        return nearest._replace(expected=expected if len(problems) > 1 else f"{expected}: {nearest.expected}")
    return decide(False, expected, _list_calls(answer), "tool_calls")


def _find_problem(assertion: ToolCalledAssertion, call: ToolCall, place: int) -> Outcome | None:
    """Why a call of the tool is not the expected one; None where it is."""
    root = f"{json_path('tool_calls', place)}.arguments"
    if assertion.arguments is not UNSET:
        if assertion.exact and not is_equal_json(assertion.arguments, call.arguments):
            return decide(False, value_text(assertion.arguments), value_text(call.arguments), root)
        if difference := find_difference(assertion.arguments, call.arguments, root):
            return decide(False, value_text(difference.expected), difference.actual, difference.path)
    if assertion.schema is not UNSET:
        outcome = check_schema(assertion.schema, call.arguments, "arguments that are valid under the schema", root)
        return None if outcome.holds else outcome
    return None


def _describe(assertion: ToolCalledAssertion) -> str:
    parts = [f"a call of {assertion.tool}"]
    if assertion.arguments is not UNSET:
        parts.append(f"with {'exactly ' if assertion.exact else ''}{value_text(assertion.arguments)}")
    if assertion.after is not UNSET:
        parts.append(f"after {assertion.after}")
    if assertion.count is not UNSET:
        parts.append(f"{number_text(assertion.count)} times")
    return " ".join(parts)


def _list_calls(answer: Answer) -> str:
    calls = list(_call_texts(answer))
    more = f", … {len(calls) - CALLS_SHOWN} more" if len(calls) > CALLS_SHOWN else ""
    return f"called: {', '.join(calls[:CALLS_SHOWN])}{more}" if calls else "no tool was called"


def _call_texts(answer: Answer) -> Iterator[str]:
    return (f"{call.name}({value_text(call.arguments)})" for call in answer.tool_calls)
