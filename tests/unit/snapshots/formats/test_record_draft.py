"""What a snapshot would say about a call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.format_examples import least_record
from traceforge.config import ModelRule
from traceforge.shape import find_problems
from traceforge.snapshots.formats.record_draft import DraftKind, RecordDraft, draft_record, find_model_rule
from traceforge.snapshots.formats.snapshot_format import SnapshotRequest, SnapshotResponse, write_document

REQUEST: dict[str, Any] = {
    "seed": 7, "model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 5,
    "stream": True, "logit_bias": {"1": 2}, "top_p": None,
}  # fmt: skip
MESSAGE = {"role": "assistant", "content": "Hello"}


def unified_response(message: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A unified response with one choice."""
    choice = {"index": 0, "message": message or MESSAGE, "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [choice], "usage": {"total_tokens": 3}, **changes}


def fields(draft: RecordDraft) -> list[str]:
    """Where something is missing."""
    return [reason.field for reason in draft.reasons]


def test_a_call_with_every_field_is_a_snapshot() -> None:
    """Its fields in the order of the format; the provider's own are kept, nulls are not."""
    draft = draft_record(REQUEST, unified_response(), {})

    assert (DraftKind.SNAPSHOT, ()) == (draft.kind, draft.reasons)
    assert ["model", "messages", "temperature", "max_tokens", "seed", "stream", "logit_bias"] == list(draft.request)
    assert {"content": "Hello", "tokens_used": 3, "finish_reason": "stop"} == draft.response
    assert [] == find_problems(draft.request, SnapshotRequest)
    assert [] == find_problems({**draft.response, "latency_ms": 1}, SnapshotResponse)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"messages": []}, "request.messages"),
        ({"messages": None, "prompt": ""}, "request.prompt"),
        ({"prompt": "as well"}, "request"),
        ({"messages": [{"content": "no role"}]}, "request.messages[0].role"),
        ({"max_tokens": 0}, "request.max_tokens"),
        ({"max_tokens": 1.5}, "request.max_tokens"),
        ({"max_tokens": -2}, "request.max_tokens"),
        ({"top_p": 2}, "request.top_p"),
        ({"temperature": 3}, "request.temperature"),
        ({"frequency_penalty": -3}, "request.frequency_penalty"),
        ({"stop": [1]}, "request.stop[0]"),
        ({"declared": 5}, "request.declared"),
    ],
)
def test_a_request_that_a_record_cannot_hold_is_its_raw_response_alone(changes: dict[str, Any], field: str) -> None:
    """An application may send what no record can state; the call is never refused for it."""
    draft = draft_record({**REQUEST, **changes}, unified_response(), {})

    assert (DraftKind.RAW_ONLY, [field]) == (draft.kind, fields(draft))


@pytest.mark.parametrize("changes", [{"max_tokens": -1}, {"max_tokens": 5.0}, {"top_p": 1}, {"stream": False}])
def test_a_value_at_the_border_is_a_snapshot(changes: dict[str, Any]) -> None:
    """-1 is several providers' word for unlimited."""
    assert DraftKind.SNAPSHOT is draft_record({**REQUEST, **changes}, unified_response(), {}).kind


_VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=2) | st.just([])
_MESSAGES = st.lists(st.fixed_dictionaries({}, optional={"role": _VALUES, "content": _VALUES}), max_size=2)


_FIELDS = ("model", "prompt", "temperature", "max_tokens", "top_p", "presence_penalty", "seed", "stream", "declared")
_CHANGES = st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=2) | st.fixed_dictionaries(
    {},
    optional={
        "messages": _MESSAGES | _VALUES,
        "stop": _VALUES | st.lists(_VALUES, max_size=2),
        "tools": _VALUES | st.lists(_VALUES, max_size=2),
    },
)


@given(changes=_CHANGES, usage=st.just(3) | _VALUES, reason=st.just("stop") | _VALUES, declares=st.booleans())
def test_a_draft_is_never_what_the_validator_refuses(
    changes: dict[str, Any], usage: Any, reason: Any, declares: bool
) -> None:
    """Whatever an application sends and a provider answers: a snapshot is valid, or the call is no snapshot."""
    choice = {"index": 0, "message": MESSAGE, "finish_reason": reason}
    answer = {"object": "chat.completion", "choices": [choice], "usage": {"total_tokens": usage}}
    models = {"*": ModelRule(temperature=1, max_tokens=0)} if declares else {}
    draft = draft_record({**REQUEST, **changes}, answer, models)

    if draft.kind is DraftKind.SNAPSHOT:
        body = {**least_record(), "request": draft.request, "response": {**draft.response, "latency_ms": 1}}
        assert write_document([body])


@pytest.mark.parametrize("field", ["temperature", "max_tokens"])
def test_a_missing_field_is_refused_with_a_fix_and_never_inferred(field: str) -> None:
    """The message names the field; a declaration fills it and is listed."""
    request = {name: value for name, value in REQUEST.items() if name != field}
    refused = draft_record(request, unified_response(), {"other-*": ModelRule(temperature=1, max_tokens=9)})
    declared = draft_record(request, unified_response(), {"m": ModelRule(temperature=1, max_tokens=9)})

    assert (DraftKind.REFUSED, [f"request.{field}"]) == (refused.kind, fields(refused))
    assert field in refused.reasons[0].hint
    assert field not in refused.request
    assert (DraftKind.SNAPSHOT, [field]) == (declared.kind, declared.request["declared"])
    assert {"temperature": 1, "max_tokens": 9}[field] == declared.request[field]


def test_a_sent_value_wins_over_a_declared_one() -> None:
    """It is not listed as declared."""
    draft = draft_record(REQUEST, unified_response(), {"m": ModelRule(temperature=1, max_tokens=9)})

    assert (0, 5, False) == (draft.request["temperature"], draft.request["max_tokens"], "declared" in draft.request)


def test_a_single_stop_sequence_becomes_a_list() -> None:
    """A translation, and nothing inferred."""
    assert ["x"] == draft_record({**REQUEST, "stop": "x"}, unified_response(), {}).request["stop"]


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": None, "tool_calls": [{"id": "1"}]}, ""),
        ({"content": None, "refusal": "No."}, "No."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": "", "refusal": None}, ""),
    ],
)
def test_the_content_is_the_text_of_the_answer(message: dict[str, Any], content: str) -> None:
    """An answer of tool calls only has empty content."""
    draft = draft_record(REQUEST, unified_response(message), {})

    assert (DraftKind.SNAPSHOT, content) == (draft.kind, draft.response["content"])
    assert message.get("tool_calls") == draft.response.get("tool_calls")


def test_an_answer_without_token_counts_or_finish_reason_is_refused() -> None:
    """The message says which option to request."""
    draft = draft_record(
        REQUEST,
        {**unified_response(usage=None), "choices": [{"index": 0, "message": MESSAGE, "finish_reason": None}]},
        {},
    )

    assert (DraftKind.REFUSED, ["response.usage", "response.finish_reason"]) == (draft.kind, fields(draft))
    assert "include_usage" in draft.reasons[0].hint


@pytest.mark.parametrize(
    ("request_body", "answer"),
    [
        (REQUEST, None),
        (REQUEST, unified_response(choices=[])),
        (REQUEST, unified_response(choices=[{"index": 0}, {"index": 1}])),
        ({**REQUEST, "prompt": ["a", "b"]}, unified_response()),
        ({"model": "m", "temperature": 0, "max_tokens": 1}, unified_response()),
    ],
)
def test_a_call_that_the_format_cannot_represent_is_only_a_raw_response(
    request_body: dict[str, Any], answer: dict[str, Any] | None
) -> None:
    draft = draft_record(request_body, answer, {})

    assert (DraftKind.RAW_ONLY, {}, {}) == (draft.kind, draft.request, draft.response)
    assert draft.reasons


def test_the_first_matching_pattern_is_used() -> None:
    """In the order of the configuration."""
    rules = {"claude-*": ModelRule(gate="request"), "*": ModelRule()}

    assert "request" == find_model_rule("claude-x", rules).gate  # type: ignore[union-attr]
    assert find_model_rule("gpt", {"claude-*": ModelRule()}) is None
