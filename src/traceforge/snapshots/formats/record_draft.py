"""The draft of a record: what a snapshot of a call would hold.

In: a call in the unified view, and what the configuration declares about its model. Out: the request and the response
of a record, or every reason why a record cannot hold the call. Never: guesses a value: one that was not sent is
declared in the configuration and listed as declared, or it is missing.

A call is *refused* where something is missing that the user can add, and *raw only* where records have no field for
it: an error, an embedding, several answers, a list of prompts. Such a call is committed as its raw response alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple, cast

from msgspec import UNSET

from traceforge.canon import JSON, JSONObject
from traceforge.config import ModelRule
from traceforge.snapshots.formats.snapshot_format import find_request_problems, find_response_problems
from traceforge.wire.unified import as_object, is_number, list_objects

# In the order in which a record has them; everything else that was sent follows.
REQUEST_FIELDS = (
    "model", "messages", "prompt", "temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty",
    "seed", "stop", "tools", "stream",
)  # fmt: skip


LEFT_EARLY = "left_early"  # the finish reason of an answer that the application did not read to its end


class DraftKind(StrEnum):
    """What a call can become."""

    SNAPSHOT = "snapshot"
    REFUSED = "refused"
    RAW_ONLY = "wire_only"


class RefusalReason(NamedTuple):
    """Why a call cannot be a snapshot: the field, the problem, and what to do."""

    field: str
    message: str
    hint: str


class RecordDraft(NamedTuple):
    """The parts of a record; empty objects if the call cannot have one."""

    kind: DraftKind
    request: JSONObject
    response: JSONObject  # without `latency_ms` and `wire`, which the model did not send
    reasons: tuple[RefusalReason, ...] = ()


def draft_record(
    request: JSONObject,
    response: JSONObject | None,
    models: Mapping[str, ModelRule],
    *,
    is_left_early: bool = False,
) -> RecordDraft:
    """Draft the record of a call; `response` is None where the provider answered with an error.

    `is_left_early`: the application closed the stream before its end, which has the finish reason and the usage.
    """
    unsupported = _find_unsupported(request, response)
    if unsupported or response is None:
        return RecordDraft(DraftKind.RAW_ONLY, {}, {}, tuple(unsupported))
    record_request, reasons = _convert_request(request, models)
    rule = find_model_rule(str(request.get("model")), models)
    may_lack_usage = is_left_early or (rule is not None and rule.usage_in_answers == "absent")
    record_response, response_reasons = _convert_response(
        response, has_usage=not may_lack_usage, is_left_early=is_left_early
    )
    reasons += response_reasons
    declared: list[JSON] = ["tokens_used"] if record_response["tokens_used"] == 0 and may_lack_usage else []
    declared += ["finish_reason"] if record_response["finish_reason"] == LEFT_EARLY and is_left_early else []
    if declared:
        record_request["declared"] = [*cast("list[JSON]", record_request.get("declared", [])), *declared]
    unsupported = _find_invalid_fields(record_request, record_response, {reason.field for reason in reasons})
    if unsupported:
        return RecordDraft(DraftKind.RAW_ONLY, {}, {}, tuple(unsupported))
    return RecordDraft(
        DraftKind.REFUSED if reasons else DraftKind.SNAPSHOT, record_request, record_response, tuple(reasons)
    )


def draft_request(request: JSONObject, models: Mapping[str, ModelRule]) -> JSONObject:
    """The request of a record even if fields are missing, to compare it with an approved one."""
    return _convert_request(request, models)[0]


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
    return reasons


def _find_invalid_fields(request: JSONObject, response: JSONObject, missing: set[str]) -> list[RefusalReason]:
    """Values that were really sent and that a record cannot hold, such as no messages, or a `top_p` of 2.

    `missing` are the fields that the user can add, or declare.
    """
    problems = [("request", problem) for problem in find_request_problems(request)]
    problems += [("response", problem) for problem in find_response_problems({**response, "latency_ms": 0})]
    reasons = [
        RefusalReason(f"{part}{problem.path.removeprefix('$')}", problem.message, "") for part, problem in problems
    ]
    absent = missing | ({"response.tokens_used"} if "response.usage" in missing else set())
    return [reason for reason in reasons if reason.field not in absent]


def _convert_request(request: JSONObject, models: Mapping[str, ModelRule]) -> tuple[JSONObject, list[RefusalReason]]:
    rule = find_model_rule(str(request.get("model")), models)
    fields = {name: value for name, value in request.items() if value is not None}
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


def _convert_response(
    response: JSONObject, *, has_usage: bool, is_left_early: bool
) -> tuple[JSONObject, list[RefusalReason]]:
    (choice,) = list_objects(response.get("choices"))
    message = as_object(choice.get("message")) or {"content": choice.get("text")}
    reasons: list[RefusalReason] = []
    total = as_object(response.get("usage")).get("total_tokens")
    if not is_number(total) and not has_usage:
        total = 0
    if not is_number(total):
        hint = 'Ask for it (stream_options.include_usage), or declare "usage_in_answers": "absent" for this model.'
        reasons.append(RefusalReason("response.usage", "the answer has no token usage", hint))
    reason = choice.get("finish_reason") or (LEFT_EARLY if is_left_early else None)
    if not isinstance(reason, str) or not reason:
        hint = "Record the call again: its answer was cut off."
        reasons.append(RefusalReason("response.finish_reason", "the answer has no finish reason", hint))
    fields: JSONObject = {"content": _answer_text(message), "tokens_used": total, "finish_reason": reason}
    tool_calls = list_objects(message.get("tool_calls"))
    return {**fields, **({"tool_calls": cast("list[JSON]", tool_calls)} if tool_calls else {})}, reasons


def _answer_text(message: JSONObject) -> str:
    """The text of an answer, or of a refusal if that is the only text; "" for tool calls alone."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part["text"]) for part in list_objects(content) if isinstance(part.get("text"), str))
    if isinstance(content, str) and content:
        return content
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def find_model_rule(model: str, models: Mapping[str, ModelRule]) -> ModelRule | None:
    """The configured rule for a model: the first whose pattern matches."""
    return next((rule for pattern, rule in models.items() if fnmatchcase(model, pattern)), None)
