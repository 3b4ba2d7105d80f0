"""One item of a replay run: the calls of its lanes, and the comparison of their answers.

Never: uses the database, so the same work runs in a thread of this process and on another machine.

    recorded          the baseline's answer when the snapshot was made
    fresh_baseline    the baseline's answer now
    candidate         the candidate's answer now
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, cast

import msgspec
from msgspec import Struct

from traceforge.canon import JSON, JSONObject
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import Target
from traceforge.context.model_calls import ModelClients, check_response
from traceforge.conversion import convert
from traceforge.errors import ProviderFailed, StoreRefused
from traceforge.modelio.model_call import ModelCall

LANES = ("recorded", "fresh_baseline", "candidate")


class ItemVerdict(StrEnum):
    """The result of an item."""

    UNCHANGED = "unchanged"  # the candidate answers as recorded
    CANDIDATE_CHANGED = "candidate_changed"  # it does not, and the baseline still does
    BOTH_CHANGED = "both_changed"  # neither does: the candidate alone is not the reason
    DRIFT_ONLY = "drift_only"  # the candidate does, and the baseline no longer does
    NOT_RECORDED = "not_recorded"  # nothing was recorded: the candidate is compared with the fresh baseline only
    FAILED = "failed"  # a lane gave no answer


class LaneRequest(Struct, frozen=True):
    """One call, as it is sent to another process."""

    target: Target
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    session_id: str = ""


class LaneAnswer(Struct, frozen=True):
    """The answer of a lane, or its `error`."""

    target: Target | None
    output: dict[str, Any] | None = None
    finish_reason: str | None = None
    trace_id: str | None = None
    error: str | None = None


class ItemRequests(Struct, frozen=True):
    """The calls of one item; `fresh` is None if the baseline is not asked again."""

    position: int
    fresh: LaneRequest | None
    candidate: LaneRequest


class ItemAnswers(Struct, frozen=True):
    """The answers of one item."""

    position: int
    fresh: LaneAnswer | None
    candidate: LaneAnswer


def run_item(
    models: ModelClients, item: ItemRequests, add_call: Callable[[ModelCall], object] | None = None
) -> ItemAnswers:
    """Do one item; every engine uses this function."""
    fresh = None if item.fresh is None else run_lane(models, item.fresh, add_call)
    return ItemAnswers(item.position, fresh, run_lane(models, item.candidate, add_call))


def run_lane(
    models: ModelClients, request: LaneRequest, add_call: Callable[[ModelCall], object] | None = None
) -> LaneAnswer:
    """Call the model and wait for its answer. A failure is an answer with an `error`; `add_call` gets the call."""
    try:
        call = models.start_call(request.target, request.messages, request.parameters, session_id=request.session_id)
    except StoreRefused as exc:
        return LaneAnswer(request.target, error=exc.reason)
    if add_call is not None:
        add_call(call)
    try:
        response = check_response(call.wait())
    except ProviderFailed as exc:
        return LaneAnswer(request.target, trace_id=call.trace_id, error=f"provider_{exc.kind.value}")
    return LaneAnswer(request.target, response.message, response.finish_reason, call.trace_id)


def compare_lanes(recorded: LaneAnswer | None, fresh: LaneAnswer | None, candidate: LaneAnswer) -> JSONObject:
    """The verdict, and the comparison of each two lanes that both have an answer."""
    pairs = {
        "drift": (recorded, fresh),
        "candidate": (recorded, candidate),
        "candidate_against_fresh": (fresh, candidate),
    }
    compared: JSONObject = {name: _changes(before, after) for name, (before, after) in pairs.items()}
    return {"verdict": _verdict(recorded, fresh, candidate, compared).value, "differences": compared}


def question_json(blocks: Sequence[ContentBlock]) -> JSON:
    """What the model is to answer: the blocks after its last message, and how many blocks come before them.

    If it has not answered yet, the blocks after the leading instructions; if there are none, the instructions.
    """
    before = [place for place, block in enumerate(blocks) if block.role == "assistant"]
    if before:
        place = before[-1] + 1
    else:
        place = next((at for at, block in enumerate(blocks) if block.role not in ("system", "developer")), 0)
    question_blocks: list[JSON] = [
        {
            "role": block.role,
            "kind": block.kind,
            "content": None if isinstance(block.content, bytes) else block.content,
        }
        for block in blocks[place:]
    ]
    return {"earlier_blocks": place, "blocks": question_blocks}


def lane_json(lane: LaneAnswer | None) -> JSON:
    """A lane as JSON of the report."""
    return cast("JSON", msgspec.to_builtins(lane))


def read_lane(value: JSON) -> LaneAnswer | None:
    """A lane from the JSON of a report."""
    return convert(value, LaneAnswer | None)


def _changes(before: LaneAnswer | None, after: LaneAnswer | None) -> JSON:
    """The rules that found a difference; None if a lane has no answer."""
    if before is None or after is None or before.output is None or after.output is None:
        return None
    return [change.to_json() for change in compare(_call(before), _call(after)).answer_changes]


def _call(lane: LaneAnswer) -> ComparedCall:
    choice: JSONObject = {"message": without_provider_parts(lane.output), "finish_reason": lane.finish_reason}
    return ComparedCall.from_trace({"request": {}, "response": {"choices": [choice]}})


def without_provider_parts(message: JSON) -> JSON:
    """A message without the provider's own parts, which differ between providers."""
    return {name: value for name, value in message.items() if name != "parts"} if isinstance(message, dict) else {}


def _verdict(
    recorded: LaneAnswer | None, fresh: LaneAnswer | None, candidate: LaneAnswer, compared: JSONObject
) -> ItemVerdict:
    if candidate.output is None or (fresh is not None and fresh.output is None):
        return ItemVerdict.FAILED
    if recorded is None:
        return ItemVerdict.NOT_RECORDED
    drifted, changed = bool(compared["drift"]), bool(compared["candidate"])
    if drifted:
        return ItemVerdict.BOTH_CHANGED if changed else ItemVerdict.DRIFT_ONLY
    return ItemVerdict.CANDIDATE_CHANGED if changed else ItemVerdict.UNCHANGED
