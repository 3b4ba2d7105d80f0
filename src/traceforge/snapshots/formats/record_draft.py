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
from traceforge.wire.unified import is_number, obj, objects

# In the order in which a record has them; everything else that was sent follows.
REQUEST_FIELDS = (
    "model", "messages", "prompt", "temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty",
    "seed", "stop", "tools",
)  # fmt: skip


class Kind(StrEnum):
    """What can be made of a call."""

    SNAPSHOT = "snapshot"
    REFUSED = "refused"
    WIRE_ONLY = "wire_only"


class Reason(NamedTuple):
    """Why a call is no snapshot: the field, what is wrong, and what to do."""

    field: str
    message: str
    hint: str


class Draft(NamedTuple):
    """What a record would say; empty objects where it is none."""

    kind: Kind
    request: JSONObject
    response: JSONObject  # without `latency_ms` and `wire`, which are not the model's
    reasons: tuple[Reason, ...] = ()


def draft(request: JSONObject, response: JSONObject | None, models: Mapping[str, ModelRule]) -> Draft:
    """Say what a snapshot of this call would say."""
    unfit = _unfit(request, response)
    if unfit or response is None:
        return Draft(Kind.WIRE_ONLY, {}, {}, tuple(unfit))
    asked, reasons = _request(request, models)
    rule = find_rule(str(request.get("model")), models)
    said, more = _response(response, has_usage=rule is None or rule.usage == "required")
    reasons += more
    if said["tokens_used"] == 0 and rule is not None and rule.usage == "absent":
        asked["declared"] = [*cast("list[JSON]", asked.get("declared", [])), "tokens_used"]
    return Draft(Kind.REFUSED if reasons else Kind.SNAPSHOT, asked, said, tuple(reasons))


def draft_request(request: JSONObject, models: Mapping[str, ModelRule]) -> JSONObject:
    """The request of a record, whatever it lacks: to be compared with one that lacks nothing."""
    return _request(request, models)[0]


def _unfit(request: JSONObject, response: JSONObject | None) -> list[Reason]:
    """What the format has no place for."""
    found: list[Reason] = []
    if response is None:
        found.append(Reason("response", "the provider answered with an error", ""))
    elif len(objects(response.get("choices"))) != 1:
        found.append(Reason("response.choices", "the answer is not one answer of a model", ""))
    if isinstance(request.get("prompt"), list):
        found.append(Reason("request.prompt", "a list of prompts", ""))
    if "messages" not in request and "prompt" not in request:
        found.append(Reason("request", "no messages and no prompt", ""))
    return found


def _request(request: JSONObject, models: Mapping[str, ModelRule]) -> tuple[JSONObject, list[Reason]]:
    rule = find_rule(str(request.get("model")), models)
    asked = {name: value for name, value in request.items() if value is not None and name != "stream"}
    declared: list[JSON] = []
    reasons: list[Reason] = []
    for field in ("temperature", "max_tokens"):
        if is_number(asked.get(field)):
            continue
        value = getattr(rule, field) if rule is not None else UNSET
        if value is UNSET:
            hint = f"Send {field}, or declare it for this model in the configuration: models, {field}."
            reasons.append(Reason(f"request.{field}", f"the request has no {field}", hint))
        else:
            asked[field] = value
            declared.append(field)
    if isinstance(asked.get("stop"), str):
        asked["stop"] = [asked["stop"]]
    ordered = {name: asked.pop(name) for name in REQUEST_FIELDS if name in asked}
    return {**ordered, **asked, **({"declared": declared} if declared else {})}, reasons


def _response(response: JSONObject, *, has_usage: bool) -> tuple[JSONObject, list[Reason]]:
    (choice,) = objects(response.get("choices"))
    message = obj(choice.get("message")) or {"content": choice.get("text")}
    reasons: list[Reason] = []
    total = obj(response.get("usage")).get("total_tokens")
    if not is_number(total) and not has_usage:
        total = 0
    if not is_number(total):
        hint = 'Ask for it (stream_options.include_usage), or declare "usage": "absent" for this model.'
        reasons.append(Reason("response.usage", "the answer does not say how many tokens it used", hint))
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        hint = "Record the call again: its answer was cut off."
        reasons.append(Reason("response.finish_reason", "the answer does not say why it ended", hint))
    said: JSONObject = {"content": _content(message), "tokens_used": total, "finish_reason": reason}
    calls = objects(message.get("tool_calls"))
    return {**said, **({"tool_calls": cast("list[JSON]", calls)} if calls else {})}, reasons


def _content(message: JSONObject) -> str:
    """The text of an answer; that of a refusal where it says nothing else; "" where it only calls tools."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part["text"]) for part in objects(content) if isinstance(part.get("text"), str))
    if isinstance(content, str) and content:
        return content
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def find_rule(model: str, models: Mapping[str, ModelRule]) -> ModelRule | None:
    """What is declared about a model; the first pattern that fits counts."""
    return next((rule for pattern, rule in models.items() if fnmatchcase(model, pattern)), None)
