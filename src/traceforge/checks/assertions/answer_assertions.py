"""Assertions about an answer as a whole: latency, cost, finish_reason, refusal, no_refusal, no_pii."""

from __future__ import annotations

from traceforge.canon import number_text
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.outcome import Outcome, decide, quote, unchecked
from traceforge.checks.assertions.text_assertions import list_texts
from traceforge.checks.formats.assertion_types import (
    CostAssertion,
    FinishReasonAssertion,
    LatencyAssertion,
    NoPiiAssertion,
    NoRefusalAssertion,
    RefusalAssertion,
)
from traceforge.compare.compared_call import ComparedChoice
from traceforge.compare.refusal_signs import find_refusal_sign
from traceforge.redact.redactor import Redactor


def check_latency(assertion: LatencyAssertion, answer: Answer) -> Outcome:
    expected = f"at most {number_text(assertion.max_ms)} ms"
    latency = answer.measures.latency_ms
    if latency is None:
        return unchecked(expected, "the latency is unknown", "latency")
    return decide(latency <= assertion.max_ms, expected, f"{number_text(latency)} ms", "latency")


def check_cost(assertion: CostAssertion, answer: Answer) -> Outcome:
    expected = f"a cost of at most {number_text(assertion.max)}"
    cost = answer.measures.cost
    if cost is None:
        reason = "its token usage is unknown" if answer.measures.prompt_tokens is None else "no prices are configured"
        return unchecked(expected, f"the cost of {answer.model or 'the model'} is unknown: {reason}", "cost")
    return decide(cost <= assertion.max, expected, number_text(cost), "cost")


def check_finish_reason(assertion: FinishReasonAssertion, answer: Answer) -> Outcome:
    expected = " or ".join(list_texts(assertion.value))
    if not answer.finish_reason:
        return unchecked(expected, "the answer has no finish reason", "finish_reason")
    return decide(
        answer.finish_reason in list_texts(assertion.value), expected, answer.finish_reason, "finish_reason"
    )


def check_refusal(_assertion: RefusalAssertion, answer: Answer) -> Outcome:
    sign = _find_refusal_sign(answer)
    return decide(bool(sign), "a refusal", sign or quote(answer.text))


def check_no_refusal(_assertion: NoRefusalAssertion, answer: Answer) -> Outcome:
    sign = _find_refusal_sign(answer)
    return decide(not sign, "no refusal", sign or quote(answer.text))


def _find_refusal_sign(answer: Answer) -> str:
    return find_refusal_sign(ComparedChoice(answer.text, answer.finish_reason, answer.refusal))


def check_no_pii(_assertion: NoPiiAssertion, answer: Answer, redactor: Redactor) -> Outcome:
    """Neither in the answer, nor taken out of it when it was recorded. The values are not shown."""
    expected = "no secret and no personal data"
    if answer.redacted:
        return decide(False, expected, f"redacted when it was recorded: {', '.join(answer.redacted)}", "answer")
    if spans := redactor.find_secrets(answer.text):
        kinds = ", ".join(dict.fromkeys(span.type for span in spans))
        return decide(False, expected, kinds, f"text, character {spans[0].start + 1}")
    for place, call in enumerate(answer.tool_calls):
        if log := redactor.redact_json(call.arguments, f"tool_calls[{place}].arguments").log:
            return decide(False, expected, ", ".join(dict.fromkeys(item.type for item in log)), log[0].path)
    return decide(True, expected, "none", "answer")
