"""One pending change as the review queue shows it: what kind it is, where it is, what is checked, how much changed.

In: a pending change and its comparison, already redacted. Out: plain data for `templates/changes/`. Never: decides
whether something may be approved; says of a gate or a refusal anything else than the command line does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from traceforge.compare.classification import ClassifiedChange
from traceforge.compare.compared_call import ComparedCall
from traceforge.replay.request_key import RequestKeyer
from traceforge.report.gate_text import TITLES
from traceforge.snapshots.approve.pending_state import PendingState
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.record.change_groups import ComparedChange
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.record.pending_comparison import compare_with_approved
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.ui.views.diff_view import view_comparison

SAMPLE_CHARS = 240  # Of the prompt of a new call, in the list.
TESTS_SHOWN = 3

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


def compare_all(state: PendingState, keys: RequestKeyer) -> list[ComparedChange]:
    return [_compare(change, state.approved, keys) for change in state.changes]


def _compare(change: PendingChange, approved: Mapping[str, ApprovedCall], keys: RequestKeyer) -> ComparedChange:
    before = approved.get(change.id)
    if before is None or change.kind is ChangeKind.CALLS:
        return ComparedChange(change, None)
    return ComparedChange(change, compare_with_approved(change, before, keys).comparison)


def view_item(compared: ComparedChange) -> ChangeItem:
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
        model=" · ".join(filter(None, (change.raw_response.operation, str(change.call.request.get("model") or "")))),
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
