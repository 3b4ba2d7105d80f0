"""The draft of a record: what a snapshot of a call would hold.

In: a call in the unified view, and what the configuration declares about its model. Out: the request and the response
of a record, or every reason why a record cannot hold the call. Never: refuses a call, or passes off a value that was
not sent as one that was.

Records have fields that many calls leave out: the draft holds what the configuration declares for the model, else the
provider's documented default, else 0, and lists the field in `request.declared`. A call is *raw only* where records
have no field for it: an error, an embedding, several answers, a list of prompts. It is committed as its raw response
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, cast

from msgspec import UNSET, Struct

from traceforge.canon import JSON, JSONObject
from traceforge.snapshots.formats.determinism_policy import (
    ADOPTED_REASON,
    DECLARABLE_FIELDS,
    POLICY_HINT,
    REQUEST_GATE,
    GateChoice,
    ModelPolicy,
    check_policy,
    choose_gate,
)
from traceforge.snapshots.formats.provider_defaults import find_default
from traceforge.snapshots.formats.snapshot_format import (
    OWN_REQUEST_FIELDS,
    find_request_problems,
    find_response_problems,
)
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind
from traceforge.wire.unified import as_object, is_number, list_objects

# In the order in which a record has them; everything else that was sent follows, then what the record adds.
REQUEST_FIELDS = (
    "model", "messages", "prompt", "temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty",
    "seed", "stop", "tools", "stream",
)  # fmt: skip

LEFT_EARLY = "left_early"  # the finish reason of an answer that the application did not read to its end
UNKNOWN_FINISH = "unknown"  # the finish reason of an answer that names none


class DraftKind(StrEnum):
    """What a call can become."""

    SNAPSHOT = "snapshot"
    RAW_ONLY = "wire_only"


class RefusalReason(NamedTuple):
    """Why a call cannot be a snapshot: the field, the problem, and what to do."""

    field: str
    message: str
    hint: str


class RecordDraft(Struct, frozen=True):
    """The parts of a record; empty objects if the call cannot have one."""

    kind: DraftKind
    request: JSONObject
    response: JSONObject  # without `latency_ms` and `wire`, which the model did not send
    reasons: tuple[RefusalReason, ...] = ()  # why a record cannot hold the call


def draft_record(
    request: JSONObject,
    response: JSONObject | None,
    policy: ModelPolicy,
    endpoint: Endpoint,
    *,
    is_left_early: bool = False,
    adopted_from: str | None = None,
) -> RecordDraft:
    """Draft the record of a call; `response` is None where the provider answered with an error.

    `is_left_early`: the application closed the stream before its end, which has the finish reason and the usage.
    `adopted_from`: see `raw_response`; an answer to another request is not gated.
    """
    unsupported = _find_unsupported(request, response)
    if unsupported or response is None:
        return RecordDraft(DraftKind.RAW_ONLY, {}, {}, tuple(unsupported))
    record_request = _fill_in(convert_request(request), policy, endpoint)
    record_response, declared = _convert_response(response, is_left_early=is_left_early)
    if declared:
        record_request["declared"] = [*cast("list[JSON]", record_request.get("declared", [])), *declared]
    choice = choose_gate(record_request, policy, has_seed=has_seed_field(endpoint))
    if adopted_from is not None:
        record_response["adopted_from"] = adopted_from
        choice = GateChoice(REQUEST_GATE, ADOPTED_REASON)
    record_request |= {"gate": choice.gate, "gate_reason": choice.reason}
    unsupported = _find_invalid_fields(record_request, record_response)
    if unsupported:
        return RecordDraft(DraftKind.RAW_ONLY, {}, {}, tuple(unsupported))
    return RecordDraft(DraftKind.SNAPSHOT, record_request, record_response)


def has_seed_field(endpoint: Endpoint) -> bool:
    """Whether requests to this API can carry a seed."""
    return endpoint.dialect is not Dialect.ANTHROPIC and endpoint.kind is not EndpointKind.RESPONSES


def convert_request(request: JSONObject) -> JSONObject:
    """What was sent, in the words and the order of a record."""
    fields = {name: value for name, value in request.items() if value is not None}
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    return {**{name: fields.pop(name) for name in REQUEST_FIELDS if name in fields}, **fields}


def declare_request(request: JSONObject, policy: ModelPolicy) -> JSONObject:
    """What was sent, with the values that the configuration declares for the model."""
    rule = policy.find_rule(str(request.get("model")))
    declared = {name: getattr(rule, name) for name in DECLARABLE_FIELDS if getattr(rule, name) is not UNSET}
    return {**declared, **convert_request(request)}


def _fill_in(sent: JSONObject, policy: ModelPolicy, endpoint: Endpoint) -> JSONObject:
    """The request of a record, with declared values for what was not sent."""
    model = str(sent.get("model"))
    rule = policy.find_rule(model)
    fields = dict(sent)
    declared: list[JSON] = [name for name in DECLARABLE_FIELDS if name not in sent]
    for name in DECLARABLE_FIELDS:
        if name not in sent:
            value = getattr(rule, name)
            fields[name] = find_default(name, model, str(endpoint.dialect)) if value is UNSET else value
    ordered = {name: fields.pop(name) for name in REQUEST_FIELDS if name in fields}
    return {**ordered, **fields, **({"declared": declared} if declared else {})}


def _find_unsupported(request: JSONObject, response: JSONObject | None) -> list[RefusalReason]:
    """Reasons why a record has no fields for this call."""
    reasons: list[RefusalReason] = []
    if response is None:
        reasons.append(RefusalReason("response", "the provider answered with an error", ""))
    elif len(list_objects(response.get("choices"))) != 1:
        reasons.append(RefusalReason("response.choices", "the response is not exactly one answer of a model", ""))
    if isinstance(request.get("prompt"), list):
        reasons.append(RefusalReason("request.prompt", "a list of prompts", ""))
    if "messages" not in request and "prompt" not in request:
        reasons.append(RefusalReason("request", "no messages and no prompt", ""))
    reasons += [
        RefusalReason(f"request.{name}", "the application sent a field that records use themselves", "")
        for name in OWN_REQUEST_FIELDS
        if request.get(name) is not None
    ]
    return reasons


def _find_invalid_fields(request: JSONObject, response: JSONObject) -> list[RefusalReason]:
    """Values that were really sent and that a record cannot hold, such as no messages, or a `top_p` of 2."""
    problems = [("request", problem) for problem in find_request_problems(request)]
    problems += [("response", problem) for problem in find_response_problems({**response, "latency_ms": 0})]
    return [
        RefusalReason(f"{part}{problem.path.removeprefix('$')}", problem.message, "") for part, problem in problems
    ]


def _convert_response(response: JSONObject, *, is_left_early: bool) -> tuple[JSONObject, list[JSON]]:
    """The response of a record, and the names of its fields that the provider did not send."""
    (choice,) = list_objects(response.get("choices"))
    message = as_object(choice.get("message")) or {"content": choice.get("text")}
    declared: list[JSON] = []
    total = as_object(response.get("usage")).get("total_tokens")
    if not is_number(total):
        total = 0
        declared.append("tokens_used")
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        reason = LEFT_EARLY if is_left_early else UNKNOWN_FINISH
        declared.append("finish_reason")
    fields: JSONObject = {"content": _answer_text(message), "tokens_used": total, "finish_reason": reason}
    tool_calls = list_objects(message.get("tool_calls"))
    return {**fields, **({"tool_calls": cast("list[JSON]", tool_calls)} if tool_calls else {})}, declared


def _answer_text(message: JSONObject) -> str:
    """The text of an answer, or of a refusal if that is the only text; "" for tool calls alone."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part["text"]) for part in list_objects(content) if isinstance(part.get("text"), str))
    if isinstance(content, str) and content:
        return content
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def find_policy_reasons(draft: RecordDraft, provider: str, policy: ModelPolicy) -> Iterator[RefusalReason]:
    """Why a strict project refuses a call that a record can hold."""
    for problem in check_policy(draft.request, provider, policy):
        yield RefusalReason(f"request.{problem.path}", problem.message, POLICY_HINT)
    if policy.is_strict and draft.response["finish_reason"] == UNKNOWN_FINISH:
        yield RefusalReason("response.finish_reason", "the answer has no finish reason", POLICY_HINT)


def is_policy_reason(reason: RefusalReason) -> bool:
    """Whether another configuration could approve the call."""
    return reason.hint == POLICY_HINT
