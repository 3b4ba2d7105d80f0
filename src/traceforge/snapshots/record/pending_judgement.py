"""Pending changes under the present configuration, which may have changed since they were recorded.

In: pending changes, the policy of the project, and the approved calls. Out: the same changes with the record, the
gate and the refusals that this policy gives. Never: calls a model, writes, or forgets a refusal that no setting
decides, such as an answer that was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from msgspec.structs import replace

from traceforge.canon import JSONObject
from traceforge.compare.comparison import compare
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import draft_raw_response
from traceforge.snapshots.formats.record_draft import RecordDraft, find_policy_reasons, is_policy_reason
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall


def judge_again(
    changes: Iterable[PendingChange], policy: ModelPolicy, approved: Mapping[str, ApprovedCall]
) -> list[PendingChange]:
    """The changes as this policy judges them; `approved` are the approved calls by id."""
    return [_judge(change, policy, approved.get(change.id)) for change in changes]


def _judge(change: PendingChange, policy: ModelPolicy, before: ApprovedCall | None) -> PendingChange:
    if change.record is None or change.kind is ChangeKind.CALLS:
        return change
    draft = draft_raw_response(change.raw_response, policy)
    if not draft.request:
        return change
    reasons = [reason for reason in change.reasons if not is_policy_reason(reason)]
    if not reasons:
        reasons = list(find_policy_reasons(draft, change.provider, policy))
    judged = replace(
        change,
        gate=str(draft.request["gate"]),
        record=_update_record(change.record, draft),
        reasons=tuple(reasons),
    )
    return replace(judged, kind=_find_kind(judged, before))


def _update_record(record: JSONObject, draft: RecordDraft) -> JSONObject:
    response = {**cast("JSONObject", record["response"]), **draft.response}
    return {**record, "request": draft.request, "response": response}


def _find_kind(change: PendingChange, before: ApprovedCall | None) -> ChangeKind:
    if change.reasons:
        return ChangeKind.REFUSED
    if change.kind is not ChangeKind.REFUSED:
        return change.kind
    if change.before is None:
        return ChangeKind.NEW
    if before is None:  # It is approved, and its tree cannot be read.
        return ChangeKind.BOTH
    comparison = compare(before.call, change.call)
    if not comparison.answer_changes:
        return ChangeKind.REQUEST
    return ChangeKind.BOTH if comparison.request_changes else ChangeKind.ANSWER
