"""Pending changes for the review queue: the list by cause, and one change whole.

In: the pending state of a project, already redacted. Out: plain data for `templates/changes/`. Never: decides whether
something may be approved; says of a gate, a refusal or a count anything else than the command line does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from markupsafe import Markup

from traceforge.canon import JSON, JSONObject
from traceforge.compare.classification import ClassifiedChange
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.json_diff import ABSENT, ValueChange
from traceforge.compare.request_fields import PROMPT_FIELDS
from traceforge.replay.request_key import RequestKeyer
from traceforge.report.gate_text import (
    TITLES,
    change_note_lines,
    count_change_lines,
    request_note_lines,
    unchecked_note_lines,
)
from traceforge.report.text_format import gate_counts
from traceforge.snapshots.approve.pending_state import PendingState
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.formats.raw_response import RawResponse, decode_comparable_call
from traceforge.snapshots.record.change_groups import CauseGroup, ComparedChange, group_by_cause
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.record.pending_comparison import compare_with_approved
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.ui.views.conversation_view import ConversationView, view_conversation
from traceforge.ui.views.diff_view import ChangeGroup, ComparisonView, view_comparison, view_value_changes
from traceforge.ui.views.json_view import folded_html, json_html
from traceforge.ui.views.text_view import fold_text

SAMPLE_CHARS = 240  # Of the prompt of a new call, in the list.
TESTS_SHOWN = 3
PREVIEW_GROUPS = 2  # The first parts that differ; the page of the change has all.

_SYMBOLS = {ChangeKind.NEW: "+", ChangeKind.CALLS: "#", ChangeKind.REFUSED: "✕"}
_SENTENCES = {
    ChangeKind.NEW: "A call that was never approved.",
    ChangeKind.CALLS: "The number of calls changed.",
    ChangeKind.REFUSED: "Cannot be approved as it is.",
}
_SAME_CALL = "The prompt and the answer are the same; the request is sent another way."


class GateLabel(NamedTuple):
    """What is checked of a call, and why."""

    text: str
    reason: str
    is_prompt_only: bool


class RefusalView(NamedTuple):
    """Why a change cannot be approved, and what to do."""

    field: str
    message: str
    hint: str


@dataclass(frozen=True)
class ChangeItem:
    """One pending change in the list."""

    id: str
    kind: str
    title: str  # `changed (request)`, as `traceforge status` says
    symbol: str
    sentence: str
    provider: str
    model: str
    location: str
    file: str
    line: int
    tests: tuple[str, ...]
    gate: GateLabel
    changes: tuple[ClassifiedChange, ...]
    refusals: tuple[RefusalView, ...]
    sample: str  # the first words of the prompt of a new call
    words_added: int = 0
    words_removed: int = 0

    @property
    def can_approve(self) -> bool:
        return self.kind != ChangeKind.REFUSED.value

    @property
    def more_tests(self) -> int:
        return max(0, len(self.tests) - TESTS_SHOWN)


@dataclass(frozen=True)
class ChangeCause:
    """A `CauseGroup` as the list shows it: one edit, the calls that repeat it, and later calls of a conversation."""

    cause: ChangeItem
    repeats: tuple[ChangeItem, ...]
    later_calls: tuple[ChangeItem, ...]
    preview: tuple[ChangeGroup, ...] = ()  # what differs, in few lines

    @property
    def items(self) -> tuple[ChangeItem, ...]:
        return (self.cause, *self.repeats, *self.later_calls)

    @property
    def summary(self) -> str:
        """`the same edit in 2 more calls, and 1 later call repeats it`; "" for one call."""
        parts = []
        if self.repeats:
            parts.append(f"the same edit in {len(self.repeats)} more call{'s' if len(self.repeats) > 1 else ''}")
        if self.later_calls:
            later = len(self.later_calls)
            parts.append(f"{later} later calls repeat it" if later > 1 else "1 later call repeats it")
        return ", and ".join(parts)


@dataclass(frozen=True)
class ChangeListView:
    """The page that lists the pending changes."""

    causes: tuple[ChangeCause, ...]
    counts: tuple[tuple[str, int], ...]  # by title
    approved: str  # `9 snapshots: 4 prompt and answer, 5 prompt only`
    finding_count: int
    settings: tuple[str, ...]

    @property
    def items(self) -> tuple[ChangeItem, ...]:
        return tuple(item for cause in self.causes for item in cause.items)

    @property
    def can_approve(self) -> bool:
        return any(item.can_approve for item in self.items)


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
    settings: ChangeGroup | None  # of a new call
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
    place: int = 0  # in the queue of `total` changes, from 1
    total: int = 0
    related: tuple[ChangeItem, ...] = ()  # other changes with the same cause


class ChangeDiff(NamedTuple):
    """What a pending change changes, for a page that shows all of them."""

    comparison: ComparisonView | None  # None: new, or only the number of calls differs
    conversation: ConversationView | None  # of a new call
    count_lines: tuple[str, ...]


def view_diffs(state: PendingState, keys: RequestKeyer, diffs_max: int) -> dict[str, ChangeDiff]:
    """The differences of the first `diffs_max` changes of the queue, by id."""
    queue = [compared for group in group_by_cause(_compare_all(state, keys)) for compared in group.changes]
    return {compared.change.id: _view_diff(compared, state.approved) for compared in queue[:diffs_max]}


def _view_diff(compared: ComparedChange, approved: Mapping[str, ApprovedCall]) -> ChangeDiff:
    change, comparison = compared
    before = approved.get(change.id)
    is_count = change.kind is ChangeKind.CALLS and before is not None
    return ChangeDiff(
        view_comparison(comparison) if comparison is not None else None,
        _view_conversation(change) if before is None else None,
        tuple(count_change_lines(before, change)) if before is not None and is_count else (),
    )


def view_changes(state: PendingState, keys: RequestKeyer) -> ChangeListView:
    """The review queue of a project."""
    groups = group_by_cause(_compare_all(state, keys))
    titles = Counter(TITLES[change.kind] for change in state.changes)
    gated = sum(call.gate == REQUEST_GATE for call in state.approved.values())
    return ChangeListView(
        tuple(map(_view_cause, groups)),
        tuple((title, titles[title]) for title in TITLES.values() if titles[title]),
        gate_counts(len(state.approved), gated),
        state.finding_count,
        tuple(setting.describe() for setting in state.settings),
    )


def view_change(state: PendingState, change: PendingChange, keys: RequestKeyer) -> ChangeDetail:
    """One change of a project, and its place in the queue."""
    groups = group_by_cause(_compare_all(state, keys))
    queue = [compared.change.id for group in groups for compared in group.changes]
    group = next(group for group in groups if any(compared.change.id == change.id for compared in group.changes))
    before = state.approved.get(change.id)
    place = queue.index(change.id)
    compared = next(compared for compared in group.changes if compared.change.id == change.id)
    is_count = change.kind is ChangeKind.CALLS and before is not None
    return ChangeDetail(
        item=_view_item(compared),
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
        previous_id=queue[place - 1] if place else "",
        next_id=queue[place + 1] if place + 1 < len(queue) else "",
        place=place + 1,
        total=len(queue),
        related=tuple(_view_item(other) for other in group.changes if other.change.id != change.id),
    )


def _compare_all(state: PendingState, keys: RequestKeyer) -> list[ComparedChange]:
    return [_compare(change, state.approved, keys) for change in state.changes]


def _compare(change: PendingChange, approved: Mapping[str, ApprovedCall], keys: RequestKeyer) -> ComparedChange:
    before = approved.get(change.id)
    if before is None or change.kind is ChangeKind.CALLS:
        return ComparedChange(change, None)
    return ComparedChange(change, compare_with_approved(change, before, keys).comparison)


def _list_notes(change: PendingChange, before: ApprovedCall | None, keys: RequestKeyer) -> Iterator[str]:
    if before is not None and change.kind is not ChangeKind.CALLS:
        yield from request_note_lines(change, before, *compare_with_approved(change, before, keys))
    yield from change_note_lines(change, before)
    yield from unchecked_note_lines(change)


def _view_cause(group: CauseGroup) -> ChangeCause:
    comparison = group.cause.comparison
    groups = view_comparison(comparison).groups if comparison is not None and comparison.has_changed else ()
    return ChangeCause(
        _view_item(group.cause),
        tuple(map(_view_item, group.repeats)),
        tuple(map(_view_item, group.later_calls)),
        groups[:PREVIEW_GROUPS],
    )


def _view_item(compared: ComparedChange) -> ChangeItem:
    change, comparison = compared
    groups = view_comparison(comparison).groups if comparison is not None else ()
    texts = [field.text for group in groups for field in group.fields if field.text is not None]
    changes = comparison.changes if comparison is not None else ()
    line = change.source.get("line")
    return ChangeItem(
        id=change.id,
        kind=change.kind.value,
        title=TITLES[change.kind],
        symbol=_SYMBOLS.get(change.kind, "~"),
        sentence=_find_sentence(change, changes),
        provider=change.provider,
        model=str(change.call.request.get("model") or ""),
        location=change.location,
        file=str(change.source.get("file") or ""),
        line=int(line) if isinstance(line, int | float) else 0,
        tests=tuple(dict.fromkeys(turn.scope for turn in change.turns if turn.scope)),
        gate=_view_gate(change),
        changes=changes,
        refusals=tuple(RefusalView(reason.field, reason.message, reason.hint) for reason in change.reasons),
        sample=_find_sample(change.call) if comparison is None else "",
        words_added=sum(text.words_added for text in texts),
        words_removed=sum(text.words_removed for text in texts),
    )


def _view_gate(change: PendingChange) -> GateLabel:
    is_prompt_only = change.gate == REQUEST_GATE
    return GateLabel("prompt only" if is_prompt_only else "prompt and answer", change.gate_reason, is_prompt_only)


def _find_sentence(change: PendingChange, changes: Sequence[ClassifiedChange]) -> str:
    if change.kind in _SENTENCES:
        return _SENTENCES[change.kind]
    return changes[0].sentence if changes else _SAME_CALL


def _find_sample(call: ComparedCall) -> str:
    """The first words of the prompt's last text."""
    text = " ".join(call.last_text.split())
    return text if len(text) <= SAMPLE_CHARS else f"{text[:SAMPLE_CHARS]}…"


def _view_settings(call: ComparedCall) -> ChangeGroup:
    """The settings of a call that was never approved: all are new."""
    rows = [
        ValueChange(f"$.request.{name}", ABSENT, value)
        for name, value in call.request.items()
        if name not in PROMPT_FIELDS
    ]
    return replace(view_value_changes("Settings", rows), kind="added")


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
