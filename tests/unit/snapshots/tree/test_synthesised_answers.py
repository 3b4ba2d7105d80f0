"""Snapshots that a person wrote: where their calls go and their headers count if the record states them."""

from __future__ import annotations

import json

from traceforge.canon import JSON, Digest, JSONObject
from traceforge.exchange import Headers
from traceforge.replay.request_key import RequestKeyer
from traceforge.replay.volatile import VolatileRules
from traceforge.snapshots.formats.determinism_policy import BEHAVIOUR_GATE, ModelPolicy
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.synthesised_answers import SynthesisedAnswers

REQUEST: JSONObject = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Hi"}],
    "temperature": 0,
    "max_tokens": 5,
}
RESPONSE: JSONObject = {"content": "yes", "tokens_used": 3, "latency_ms": 0, "finish_reason": "stop"}
OPENAI, GATEWAY = "https://api.openai.com", "https://llm.example.com"


def written(**head: JSON) -> ApprovedCall:
    """An approved record without a raw response."""
    request: JSONObject = {**REQUEST, **head}
    record: JSONObject = {"id": "by-hand", "source": {}, "request": request, "response": RESPONSE}
    return ApprovedCall("by-hand", "openai", "openai/by-hand.json", Digest("x"), record, None, BEHAVIOUR_GATE)


def ask(call: ApprovedCall, host: str, *headers: tuple[str, str], **fields: object) -> str:
    """The id of the snapshot that answers a request, or why none does."""
    keys = RequestKeyer(None, VolatileRules())
    answers = SynthesisedAnswers([call], ModelPolicy(), keys)
    sent: Headers = (("content-type", "application/json"), ("user-agent", "x"), *headers)
    body = json.dumps({**REQUEST, **fields}).encode()
    request = keys.key_request("POST", f"{host}/v1/chat/completions", sent, body)
    match = answers.find_response(request)
    return match[0] if match else answers.explain_no_response(request)


def test_a_record_that_states_neither_equals_any_upstream_and_header() -> None:
    """It is counted as one of which this is unknown; its body still counts."""
    call = written()

    assert call.has_unknown_head
    assert "by-hand" == ask(call, OPENAI) == ask(call, GATEWAY, ("x-tenant", "a"))
    assert "" == ask(call, OPENAI, response_format={"type": "json_object"})
    assert "" == ask(call, OPENAI, upstream="openai")


def test_a_stated_upstream_counts() -> None:
    call = written(upstream="openai")

    assert "by-hand" == ask(call, OPENAI)
    assert "by-hand is approved for the upstream openai, and the request goes to llm.example.com/v1" == ask(
        call, GATEWAY
    )


def test_stated_headers_count_as_they_do_in_a_key() -> None:
    call = written(upstream="openai", headers={"OpenAI-Beta": "b, a"})

    assert not call.has_unknown_head
    assert "by-hand" == ask(call, OPENAI, ("openai-beta", "a,b"), ("traceparent", "1"))
    assert "by-hand is approved with other headers: openai-beta" == ask(call, OPENAI)
    assert "by-hand is approved with other headers: x-tenant" == ask(
        call, OPENAI, ("openai-beta", "a,b"), ("x-tenant", "a")
    )


def test_a_field_that_the_record_only_declares_need_not_be_sent() -> None:
    """A plain request has no temperature; one with another temperature is another request."""
    call = written(declared=["temperature", "max_tokens"], gate="request", gate_reason="no temperature, no seed")

    assert "by-hand" == ask(call, OPENAI, temperature=None, max_tokens=None)
    assert "by-hand" == ask(call, OPENAI)
    assert "" == ask(call, OPENAI, temperature=0.5)
    assert "" == ask(written(), OPENAI, temperature=None, max_tokens=None)
