"""A draft: what a snapshot would say about a call.

In: a call in the unified view, and what the configuration declares about its model. Out: the request and the response
of a record, or every reason why the format cannot hold the call. Never: infers: a value that was not sent is declared
by a person, listed as such, or missing.

A call is *refused* where something is missing that the user can add, and *wire only* where the format has no place
for it: an error, an embedding, several answers, a list of prompts. Such a call is committed as its wire answer
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import cast

from msgspec import UNSET

from traceforge.canon import JSON, JSONObject
from traceforge.config import ModelRule
from traceforge.tuples import NamedTuple
from traceforge.wire.unified import as_object, is_number, list_objects

# In the order in which a record has them; everything else that was sent follows.
REQUEST_FIELDS = (
    "model", "messages", "prompt", "temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty",
    "seed", "stop", "tools",
)  # fmt: skip


class DraftKind(StrEnum):
    """What can be made of a call."""

    SNAPSHOT = "snapshot"
    REFUSED = "refused"
    RAW_ONLY = "wire_only"


class RefusalReason(NamedTuple):
    """Why a call is no snapshot: the field, what is wrong, and what to do."""

    field: str
    message: str
    hint: str


class RecordDraft(NamedTuple):
    """What a record would say; empty objects where it is none."""

    kind: DraftKind
    request: JSONObject
    response: JSONObject  # without `latency_ms` and `wire`, which are not the model's
    reasons: tuple[RefusalReason, ...] = ()


def draft_record(request: JSONObject, response: JSONObject | None, models: Mapping[str, ModelRule]) -> RecordDraft:
    """Say what a snapshot of this call would say."""
    unsupported = _find_unsupported(request, response)
    if unsupported or response is None:
        return RecordDraft(DraftKind.RAW_ONLY, {}, {}, tuple(unsupported))
    record_request, reasons = _convert_request(request, models)
    rule = find_model_rule(str(request.get("model")), models)
    record_response, response_reasons = _convert_response(
        response, has_usage=rule is None or rule.usage == "required"
    )
    reasons += response_reasons
    if record_response["tokens_used"] == 0 and rule is not None and rule.usage == "absent":
        record_request["declared"] = [*cast("list[JSON]", record_request.get("declared", [])), "tokens_used"]
    return RecordDraft(
        DraftKind.REFUSED if reasons else DraftKind.SNAPSHOT, record_request, record_response, tuple(reasons)
    )


def draft_request(request: JSONObject, models: Mapping[str, ModelRule]) -> JSONObject:
    """The request of a record, whatever it lacks: to be compared with one that lacks nothing."""
    return _convert_request(request, models)[0]


def _find_unsupported(request: JSONObject, response: JSONObject | None) -> list[RefusalReason]:
    """What the format has no place for."""
    reasons: list[RefusalReason] = []
    if response is None:
        reasons.append(RefusalReason("response", "the provider answered with an error", ""))
    elif len(list_objects(response.get("choices"))) != 1:
        reasons.append(RefusalReason("response.choices", "the answer is not one answer of a model", ""))
    if isinstance(request.get("prompt"), list):
        reasons.append(RefusalReason("request.prompt", "a list of prompts", ""))
    if "messages" not in request and "prompt" not in request:
        reasons.append(RefusalReason("request", "no messages and no prompt", ""))
    return reasons


def _convert_request(request: JSONObject, models: Mapping[str, ModelRule]) -> tuple[JSONObject, list[RefusalReason]]:
    rule = find_model_rule(str(request.get("model")), models)
    fields = {name: value for name, value in request.items() if value is not None and name != "stream"}
    declared: list[JSON] = []
    reasons: list[RefusalReason] = []
    for field in ("temperature", "max_tokens"):
        if is_number(fields.get(field)):
            continue
        value = getattr(rule, field) if rule is not None else UNSET
        if value is UNSET:
            hint = f"Send {field}, or declare it for this model in the configuration: models, {field}."
            reasons.append(RefusalReason(f"request.{field}", f"the request has no {field}", hint))
        else:
            fields[field] = value
            declared.append(field)
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    ordered = {name: fields.pop(name) for name in REQUEST_FIELDS if name in fields}
    return {**ordered, **fields, **({"declared": declared} if declared else {})}, reasons


def _convert_response(response: JSONObject, *, has_usage: bool) -> tuple[JSONObject, list[RefusalReason]]:
    (choice,) = list_objects(response.get("choices"))
    message = as_object(choice.get("message")) or {"content": choice.get("text")}
    reasons: list[RefusalReason] = []
    total = as_object(response.get("usage")).get("total_tokens")
    if not is_number(total) and not has_usage:
        total = 0
    if not is_number(total):
        hint = 'Ask for it (stream_options.include_usage), or declare "usage": "absent" for this model.'
        reasons.append(RefusalReason("response.usage", "the answer does not say how many tokens it used", hint))
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        hint = "Record the call again: its answer was cut off."
        reasons.append(RefusalReason("response.finish_reason", "the answer does not say why it ended", hint))
    fields: JSONObject = {"content": _answer_text(message), "tokens_used": total, "finish_reason": reason}
    tool_calls = list_objects(message.get("tool_calls"))
    return {**fields, **({"tool_calls": cast("list[JSON]", tool_calls)} if tool_calls else {})}, reasons


def _answer_text(message: JSONObject) -> str:
    """The text of an answer; that of a refusal where it says nothing else; "" where it only calls tools."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part["text"]) for part in list_objects(content) if isinstance(part.get("text"), str))
    if isinstance(content, str) and content:
        return content
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def find_model_rule(model: str, models: Mapping[str, ModelRule]) -> ModelRule | None:
    """What is declared about a model; the first pattern that fits counts."""
    return next((rule for pattern, rule in models.items() if fnmatchcase(model, pattern)), None)
