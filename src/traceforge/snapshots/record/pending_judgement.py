"""Pending changes under the present configuration, which may have changed since they were recorded.

In: pending changes, the configuration of the project, and the approved calls. Out: the same changes with the record,
the gate and the refusals that this configuration gives, without those that it no longer compares. Never: calls a
model, writes, or forgets a refusal that no setting decides, such as an answer that was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from traceforge.canon import JSONObject
from traceforge.compare.comparison import compare
from traceforge.config import LoadedConfig
from traceforge.replay.request_key import RequestKeyer, make_request_keyer
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE, ModelPolicy
from traceforge.snapshots.formats.raw_response import draft_raw_response
from traceforge.snapshots.formats.record_draft import RecordDraft, find_policy_reasons, is_policy_reason
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall, key_stored_request


def judge_pending(
    loaded: LoadedConfig,
    changes: Sequence[PendingChange],
    approved: Mapping[str, ApprovedCall],
    *,
    are_settings_approved: bool,
) -> list[PendingChange]:
    """The changes as the configuration of the project judges them now; `approved` are its approved calls by id.

    A changed request that differs from the approved one only in what the configuration says to ignore does not count
    as a change, except while the configuration itself waits for approval: its reviewer must see what it would hide.

    Raises:
        InvalidConfig: a declaration of volatile parts, or a pattern to redact, is invalid.
    """
    judged = judge_again(changes, ModelPolicy.from_config(loaded.config), approved)
    if not judged or not are_settings_approved:
        return judged
    keys = make_request_keyer(loaded)
    compared = [_compare_again(change, approved.get(change.id), keys) for change in judged]
    return [change for change in compared if change is not None]


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


def _compare_again(change: PendingChange, before: ApprovedCall | None, keys: RequestKeyer) -> PendingChange | None:
    """The change with what is left of it where both requests are the same now; None where nothing is."""
    if change.kind not in (ChangeKind.REQUEST, ChangeKind.BOTH) or before is None or before.is_adopted:
        return change
    scopes = {turn.scope for turn in change.turns} or {""}
    if change.call_counts != before.call_counts or not all(
        _is_same_request(change, before, keys, scope) for scope in scopes
    ):
        return change
    if change.kind is ChangeKind.REQUEST or REQUEST_GATE == change.gate == before.gate:
        return None
    return replace(change, kind=ChangeKind.ANSWER)


def _is_same_request(change: PendingChange, before: ApprovedCall, keys: RequestKeyer, scope: str) -> bool:
    """Whether the approved request is that of the change, as far as the configuration has them compared."""
    if before.raw_response is None:
        return False
    approved, sent = (key_stored_request(keys, raw, scope) for raw in (before.raw_response, change.raw_response))
    return approved.key == sent.key and keys.read_fingerprints(
        approved, before.raw_response.redacted
    ) == keys.read_fingerprints(sent, change.raw_response.redacted)
