"""One pending change whole, and its place in the review queue.

In: the pending state of a project, already redacted. Out: plain data for `templates/changes/`. Never: decides whether
something may be approved, or says of a change anything else than the command line does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from markupsafe import Markup

from traceforge.canon import JSON, JSONObject
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.request_fields import PROMPT_FIELDS
from traceforge.replay.request_key import RequestKeyer
from traceforge.report.gate_text import (
    change_note_lines,
    count_change_lines,
    request_note_lines,
    unchecked_note_lines,
)
from traceforge.snapshots.approve.pending_state import PendingState
from traceforge.snapshots.formats.raw_response import RawResponse, decode_comparable_call
from traceforge.snapshots.record.change_groups import ComparedChange
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.record.pending_comparison import compare_with_approved
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.ui.views.change_item_view import ChangeItem, compare_all, view_item
from traceforge.ui.views.change_queue_view import list_queue
from traceforge.ui.views.conversation_view import ConversationView, view_conversation
from traceforge.ui.views.diff_view import ComparisonView, view_comparison
from traceforge.ui.views.json_view import folded_html, json_html
from traceforge.ui.views.text_view import fold_text


class SettingView(NamedTuple):
    """A setting of a request, and its value as HTML."""

    name: str
    value: Markup


class RawSide(NamedTuple):
    """A request or a response as it was on the wire, redacted."""

    title: str
    first_line: str
    headers: tuple[tuple[str, str], ...]
    body: Markup


@dataclass(frozen=True)
class ChangeDetail:
    """A pending change with everything that its page shows."""

    item: ChangeItem
    comparison: ComparisonView | None  # None: new, or only the number of calls differs
    settings: tuple[SettingView, ...] | None  # of a new call
    conversation: ConversationView
    count_lines: tuple[str, ...]
    notes: tuple[str, ...]
    before_hash: str | None
    trace: str
    timestamp: str
    raw: tuple[RawSide, ...]
    approved_raw: tuple[RawSide, ...]
    previous_id: str = ""
    next_id: str = ""
    position: int = 0  # in the queue of `total` changes, from 1
    total: int = 0
    related: tuple[ChangeItem, ...] = ()  # other changes with the same cause


class ChangeDiff(NamedTuple):
    """What a pending change changes, for a page that shows all of them."""

    comparison: ComparisonView | None  # None: new, or only the number of calls differs
    conversation: ConversationView | None  # of a new call
    count_lines: tuple[str, ...]


def view_diffs(state: PendingState, keys: RequestKeyer, diffs_max: int) -> dict[str, ChangeDiff]:
    """The differences of the first `diffs_max` changes of the queue, by id."""
    queue = list_queue(compare_all(state, keys))[:diffs_max]
    return {compared.change.id: _view_diff(compared, state.approved) for compared, _ in queue}


def _view_diff(compared: ComparedChange, approved: Mapping[str, ApprovedCall]) -> ChangeDiff:
    change, comparison = compared
    before = approved.get(change.id)
    is_count = change.kind is ChangeKind.CALLS and before is not None
    return ChangeDiff(
        view_comparison(comparison) if comparison is not None else None,
        _view_conversation(change) if before is None else None,
        tuple(count_change_lines(before, change)) if before is not None and is_count else (),
    )


def view_change(state: PendingState, change: PendingChange, keys: RequestKeyer) -> ChangeDetail:
    """One change of a project, and its position in the queue."""
    queue = list_queue(compare_all(state, keys))
    index = next(index for index, (compared, _) in enumerate(queue) if compared.change.id == change.id)
    compared, group = queue[index]
    before = state.approved.get(change.id)
    is_count = change.kind is ChangeKind.CALLS and before is not None
    return ChangeDetail(
        item=view_item(compared),
        comparison=view_comparison(compared.comparison) if compared.comparison is not None else None,
        settings=_view_settings(change.call) if before is None else None,
        conversation=_view_conversation(change),
        count_lines=tuple(count_change_lines(before, change)) if before is not None and is_count else (),
        notes=tuple(_list_notes(change, before, keys)),
        before_hash=change.before,
        trace=change.trace,
        timestamp=str(change.record["timestamp"]) if change.record is not None else "",
        raw=_view_raw(change.raw_response),
        approved_raw=_view_raw(before.raw_response) if before is not None and before.raw_response else (),
        previous_id=queue[index - 1][0].change.id if index else "",
        next_id=queue[index + 1][0].change.id if index + 1 < len(queue) else "",
        position=index + 1,
        total=len(queue),
        related=tuple(view_item(other) for other in group.changes if other.change.id != change.id),
    )


def _list_notes(change: PendingChange, before: ApprovedCall | None, keys: RequestKeyer) -> Iterator[str]:
    if before is not None and change.kind is not ChangeKind.CALLS:
        yield from request_note_lines(change, before, *compare_with_approved(change, before, keys))
    yield from change_note_lines(change, before)
    yield from unchecked_note_lines(change)


def _view_settings(call: ComparedCall) -> tuple[SettingView, ...]:
    """The settings of a call that was never approved: there is nothing to compare them with."""
    return tuple(
        SettingView(name, json_html(value)) for name, value in call.request.items() if name not in PROMPT_FIELDS
    )


def _view_conversation(change: PendingChange) -> ConversationView:
    """The whole call; one that a record cannot hold as its provider has it."""
    record = change.record
    if record is None:
        raw = change.raw_response
        answer = decode_comparable_call(raw).answer
        response = answer.other if answer is not None and answer.other else None
        return view_conversation({"provider_request": raw.request_body, "provider_response": response})
    response = cast("JSONObject", record["response"])
    message: JSONObject = {
        "role": "assistant",
        **{k: response[k] for k in ("content", "tool_calls") if k in response},
    }
    choices: list[JSON] = [{"index": 0, "message": message, "finish_reason": response.get("finish_reason")}]
    return view_conversation({"request": record["request"], "response": {"choices": choices}})


def _view_raw(raw: RawResponse) -> tuple[RawSide, RawSide]:
    target = f"{raw.path}?{raw.query}" if raw.query else raw.path
    upstream = f" · {raw.upstream}" if raw.upstream else ""
    body = b"".join(chunk.data for chunk in raw.chunks).decode("utf-8", "replace")
    return (
        RawSide(
            "Request", f"{raw.method} {target}{upstream}", tuple(raw.request_headers), json_html(raw.request_body)
        ),
        RawSide("Response", str(raw.status), tuple(raw.response_headers), _text_html(body)),
    )


def _text_html(text: str) -> Markup:
    return Markup(folded_html(fold_text(text)))  # noqa: S704 (escaped there)
