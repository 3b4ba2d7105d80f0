"""One item of a replay run: what is asked on each lane, and what the answers say about each other.

In: questions, ready to be sent. Out: what each lane answered, how the answers differ, and one word for it. Never: the
database; so the same work runs in a thread of this process and on another machine.

    recorded          what the baseline answered when the snapshot was made
    fresh_baseline    what the baseline answers now
    candidate         what the candidate answers now
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
    """What an item shows."""

    UNCHANGED = "unchanged"  # the candidate says what was recorded
    CANDIDATE_CHANGED = "candidate_changed"  # it does not, and the baseline still does
    BOTH_CHANGED = "both_changed"  # neither does: this is not the candidate's doing alone
    DRIFT_ONLY = "drift_only"  # the candidate does, and the baseline does not any more
    NOT_RECORDED = "not_recorded"  # nothing was recorded: the candidate can be held against the fresh baseline only
    FAILED = "failed"  # a lane gave no answer


class LaneRequest(Struct, frozen=True):
    """One call, as it crosses a process border."""

    target: Target
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    session_id: str = ""


class LaneAnswer(Struct, frozen=True):
    """What one lane answered; `error` where it did not."""

    target: Target | None
    output: dict[str, Any] | None = None
    finish_reason: str | None = None
    trace_id: str | None = None
    error: str | None = None


class ItemRequests(Struct, frozen=True):
    """What is asked for one item; `fresh` is None where the baseline is not asked again."""

    position: int
    fresh: LaneRequest | None
    candidate: LaneRequest


class ItemAnswers(Struct, frozen=True):
    """What came back."""

    position: int
    fresh: LaneAnswer | None
    candidate: LaneAnswer


def run_item(
    models: ModelClients, item: ItemRequests, hold: Callable[[ModelCall], object] | None = None
) -> ItemAnswers:
    """The work of one item: the same function on every engine."""
    fresh = None if item.fresh is None else run_lane(models, item.fresh, hold)
    return ItemAnswers(item.position, fresh, run_lane(models, item.candidate, hold))


def run_lane(
    models: ModelClients, request: LaneRequest, hold: Callable[[ModelCall], object] | None = None
) -> LaneAnswer:
    """Ask, and wait for the whole answer. A model that fails is a lane that says so; `hold` gets the call."""
    try:
        call = models.start_call(request.target, request.messages, request.parameters, session_id=request.session_id)
    except StoreRefused as exc:
        return LaneAnswer(request.target, error=exc.reason)
    if hold is not None:
        hold(call)
    try:
        response = check_response(call.wait())
    except ProviderFailed as exc:
        return LaneAnswer(request.target, trace_id=call.trace_id, error=f"provider_{exc.kind.value}")
    return LaneAnswer(request.target, response.message, response.finish_reason, call.trace_id)


def compare_lanes(recorded: LaneAnswer | None, fresh: LaneAnswer | None, candidate: LaneAnswer) -> JSONObject:
    """What the lanes say about each other: the verdict, and each comparison that both sides have an answer for."""
    pairs = {
        "drift": (recorded, fresh),
        "candidate": (recorded, candidate),
        "candidate_against_fresh": (fresh, candidate),
    }
    compared: JSONObject = {name: _changes(before, after) for name, (before, after) in pairs.items()}
    return {"verdict": _verdict(recorded, fresh, candidate, compared).value, "differences": compared}


def question_json(blocks: Sequence[ContentBlock]) -> JSON:
    """What a model is to answer: the blocks behind its last word, and how many stand before them.

    Before its first word, those behind the instructions in front; where there are no others, the instructions.
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
    """A lane as the report holds it."""
    return cast("JSON", msgspec.to_builtins(lane))


def read_lane(value: JSON) -> LaneAnswer | None:
    """The lane of a report."""
    return convert(value, LaneAnswer | None)


def _changes(before: LaneAnswer | None, after: LaneAnswer | None) -> JSON:
    """The rules that spoke; None where a side has no answer."""
    if before is None or after is None or before.output is None or after.output is None:
        return None
    return [change.to_json() for change in compare(_call(before), _call(after)).answer_changes]


def _call(lane: LaneAnswer) -> ComparedCall:
    choice: JSONObject = {"message": without_provider_parts(lane.output), "finish_reason": lane.finish_reason}
    return ComparedCall.from_trace({"request": {}, "response": {"choices": [choice]}})


def without_provider_parts(message: JSON) -> JSON:
    """A message without the provider's own parts: two providers say the same in other words."""
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
