"""What a snapshot would say about a call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.format_examples import least_record
from traceforge.config import ModelRule
from traceforge.shape import find_problems
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.record_draft import DraftKind, RecordDraft, draft_record
from traceforge.snapshots.formats.snapshot_format import SnapshotRequest, SnapshotResponse, write_document
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind

REQUEST: dict[str, Any] = {
    "seed": 7, "model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 5,
    "stream": True, "logit_bias": {"1": 2}, "top_p": None,
}  # fmt: skip
FIELDS = ["model", "messages", "temperature", "max_tokens", "seed", "stream", "logit_bias"]
CHAT = Endpoint(Dialect.OPENAI, EndpointKind.CHAT)
DECLARED = ModelPolicy({"m": ModelRule(temperature=1, max_tokens=9)})
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
    draft = draft_record(REQUEST, unified_response(), ModelPolicy(), CHAT)

    assert (DraftKind.SNAPSHOT, ()) == (draft.kind, draft.reasons)
    assert [*FIELDS, "gate", "gate_reason"] == list(draft.request)
    assert ("behaviour", "temperature 0 and a seed") == (draft.request["gate"], draft.request["gate_reason"])
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
        ({"temperature": "warm"}, "request.temperature"),
        ({"declared": 5}, "request.declared"),
        ({"gate": "behaviour"}, "request.gate"),
        ({"gate_reason": "mine"}, "request.gate_reason"),
    ],
)
def test_a_request_that_a_record_cannot_hold_is_its_raw_response_alone(changes: dict[str, Any], field: str) -> None:
    """An application may send what no record can state; the call is never refused for it."""
    draft = draft_record({**REQUEST, **changes}, unified_response(), ModelPolicy(), CHAT)

    assert (DraftKind.RAW_ONLY, [field]) == (draft.kind, fields(draft))


@pytest.mark.parametrize("changes", [{"max_tokens": -1}, {"max_tokens": 5.0}, {"top_p": 1}, {"stream": False}])
def test_a_value_at_the_border_is_a_snapshot(changes: dict[str, Any]) -> None:
    """-1 is several providers' word for unlimited."""
    assert DraftKind.SNAPSHOT is draft_record({**REQUEST, **changes}, unified_response(), ModelPolicy(), CHAT).kind


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
    policy = ModelPolicy({"*": ModelRule(temperature=1, max_tokens=0)} if declares else {})
    draft = draft_record({**REQUEST, **changes}, answer, policy, CHAT)

    if draft.kind is DraftKind.SNAPSHOT:
        body = {**least_record(), "request": draft.request, "response": {**draft.response, "latency_ms": 1}}
        assert write_document([body])


@pytest.mark.parametrize(
    ("model", "endpoint", "temperature", "max_tokens"),
    [
        ("gpt-4o-mini", CHAT, 1, 16_384),
        ("openai/gpt-5", CHAT, 1, 128_000),
        ("claude-sonnet-4-5", Endpoint(Dialect.ANTHROPIC, EndpointKind.MESSAGES), 1, 0),
        ("gemini-2.5-flash", Endpoint(Dialect.GEMINI, EndpointKind.GENERATE), 1, 65_536),
        ("llama3.2", Endpoint(Dialect.OLLAMA, EndpointKind.CHAT), 0.8, -1),
        ("someones-model", CHAT, 0, 0),
        ("m", CHAT, 1, 9),  # declared in the configuration
    ],
)
def test_what_was_not_sent_is_the_documented_default_and_listed_as_declared(
    model: str, endpoint: Endpoint, temperature: float, max_tokens: int
) -> None:
    """Or 0 where there is none; the configuration wins. Such a call is gated on its prompt."""
    draft = draft_record({"model": model, "messages": REQUEST["messages"]}, unified_response(), DECLARED, endpoint)

    assert DraftKind.SNAPSHOT is draft.kind
    assert ["temperature", "max_tokens"] == draft.request["declared"]
    assert (temperature, max_tokens) == (draft.request["temperature"], draft.request["max_tokens"])
    assert "request" == draft.request["gate"]


@pytest.mark.parametrize(
    ("endpoint", "gate"),
    [
        (CHAT, "request"),
        (Endpoint(Dialect.OPENAI, EndpointKind.RESPONSES), "behaviour"),
        (Endpoint(Dialect.ANTHROPIC, EndpointKind.MESSAGES), "behaviour"),
    ],
)
def test_temperature_0_fixes_the_answer_where_the_api_has_no_seed(endpoint: Endpoint, gate: str) -> None:
    """Responses and Messages have no such field."""
    request = {name: value for name, value in REQUEST.items() if name != "seed"}

    assert gate == draft_record(request, unified_response(), ModelPolicy(), endpoint).request["gate"]


def test_a_sent_value_wins_over_a_declared_one() -> None:
    """It is not listed as declared."""
    draft = draft_record(REQUEST, unified_response(), DECLARED, CHAT)

    assert (0, 5, False) == (draft.request["temperature"], draft.request["max_tokens"], "declared" in draft.request)


def test_a_single_stop_sequence_becomes_a_list() -> None:
    """A translation, and nothing inferred."""
    assert ["x"] == draft_record({**REQUEST, "stop": "x"}, unified_response(), ModelPolicy(), CHAT).request["stop"]


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
    draft = draft_record(REQUEST, unified_response(message), ModelPolicy(), CHAT)

    assert (DraftKind.SNAPSHOT, content) == (draft.kind, draft.response["content"])
    assert message.get("tool_calls") == draft.response.get("tool_calls")


def test_an_answer_without_token_counts_or_finish_reason_declares_them() -> None:
    """Many streams have neither."""
    answer = {**unified_response(usage=None), "choices": [{"index": 0, "message": MESSAGE, "finish_reason": None}]}
    draft = draft_record(REQUEST, answer, ModelPolicy(), CHAT)

    assert DraftKind.SNAPSHOT is draft.kind
    assert ["tokens_used", "finish_reason"] == draft.request["declared"]
    assert (0, "unknown") == (draft.response["tokens_used"], draft.response["finish_reason"])


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
    draft = draft_record(request_body, answer, ModelPolicy(), CHAT)

    assert (DraftKind.RAW_ONLY, {}, {}) == (draft.kind, draft.request, draft.response)
    assert draft.reasons
