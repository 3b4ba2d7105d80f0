"""One answer, as assertions see it: the same for every provider, from a trace, a snapshot or a live call.

In: the body of a trace, or a snapshot record. Out: `Answer`s, one for each choice of the response. Never: reads a
file, or makes up what the call does not say: a latency, a token count or a cost that is unknown is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject
from traceforge.compare.compared_call import ComparedCall, ComparedChoice, ToolCall
from traceforge.config import ModelRule
from traceforge.snapshots.formats.model_prices import price_usage
from traceforge.wire.unified import as_object, is_number, list_objects


class Measures(NamedTuple):
    """The latency, the tokens and the cost of an answer. None: unknown."""

    latency_ms: float | None = None
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    cost: float | None = None


class Answer(NamedTuple):
    """One answer of a model, or of a session: then the text is that of its last answer."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    refusal: str = ""
    model: str = ""
    measures: Measures = Measures()
    redacted: tuple[str, ...] = ()  # the types of what the redactor took out when the answer was recorded


class FailedCall(NamedTuple):
    """A call without an answer: the provider failed, so there is nothing that an assertion could look at."""

    reason: str


def read_trace_answers(body: JSONObject, prices: Mapping[str, ModelRule]) -> list[Answer] | FailedCall:
    """The answers in a valid trace (`Trace.body`)."""
    metadata = as_object(body.get("metadata"))
    if metadata.get("status") == "error":
        return FailedCall(str(metadata.get("error") or "the recorded call failed"))
    call = ComparedCall.from_trace(body)
    if call.answer is None or not call.answer.choices:
        return FailedCall("the recorded call is not an answer of a model")
    model = str(call.answer.model or call.request.get("model") or "")
    measures = make_measures(
        as_object(as_object(body.get("response")).get("usage")), metadata.get("duration_ms"), model, prices
    )
    redacted = _list_redacted_types(as_object(body.get("redacted")).get("response"))
    return [_make_answer(choice, model, measures, redacted) for choice in call.answer.choices]


def read_call_answers(
    call: ComparedCall,
    usage: JSONObject,
    latency_ms: JSON,
    redacted: Iterable[JSONObject],
    prices: Mapping[str, ModelRule],
) -> list[Answer] | FailedCall:
    """The answers of an approved call."""
    if call.answer is None or not call.answer.choices:
        return FailedCall("the approved call is not an answer of a model")
    model = str(call.answer.model or call.request.get("model") or "")
    measures = make_measures(usage, latency_ms, model, prices)
    types = _list_redacted_types([*redacted])
    return [_make_answer(choice, model, measures, types) for choice in call.answer.choices]


def join_session(answers: Sequence[Answer]) -> Answer:
    """A session as one answer: the last text, every tool call in order, and the sums of the measures."""
    last = answers[-1]
    return last._replace(
        tool_calls=tuple(call for answer in answers for call in answer.tool_calls),
        measures=Measures(*map(_sum_known, zip(*(answer.measures for answer in answers), strict=True))),
        redacted=tuple(dict.fromkeys(kind for answer in answers for kind in answer.redacted)),
    )


def make_measures(usage: JSONObject, latency_ms: JSON, model: str, prices: Mapping[str, ModelRule]) -> Measures:
    """The measures of a call, from its token usage and the prices of the configuration."""
    prompt, completion = (_number(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return Measures(_number(latency_ms), prompt, completion, price_usage(model, usage, prices))


def _make_answer(choice: ComparedChoice, model: str, measures: Measures, redacted: tuple[str, ...]) -> Answer:
    reason = choice.finish_reason if isinstance(choice.finish_reason, str) else ""
    return Answer(choice.text, choice.tool_calls, reason, choice.refusal, model, measures, redacted)


def _list_redacted_types(entries: JSON) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(entry.get("type")) for entry in list_objects(entries)))


def _sum_known(values: tuple[float | None, ...]) -> float | None:
    return None if None in values else sum(cast("tuple[float, ...]", values))


def _number(value: JSON) -> float | None:
    return float(cast("float", value)) if is_number(value) else None
