"""The approvals of a snapshot tree for a page: who, when, why, the hashes before and after, and the signature.

In: approvals, and the findings of their check. Out: plain data for `templates/changes/approvals.html`, newest first.
Never: calls a signature good that has a finding, or that was not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from msgspec import UNSET

from traceforge.findings import Finding
from traceforge.snapshots.formats.approval_format import ApprovedChange, StoredApproval
from traceforge.snapshots.formats.approved_policy import SettingChange

HASH_DIGITS = 12  # As in the name of the file.
APPROVALS_PER_PAGE = 50
HISTORY_MAX = 20  # Of one snapshot, beside a change of it.


class SignatureState(NamedTuple):
    """The verdict about a signature: `good`, `warn`, `bad`, or "" for none."""

    kind: str
    text: str


class ApprovedChangeView(NamedTuple):
    """One snapshot that an approval names; a hash is "" where there is none."""

    id: str
    file: str
    kind: str  # `new`, `changed`, `removed`
    before: str
    after: str
    raw_response: str
    unknown: str


@dataclass(frozen=True)
class ApprovalItem:
    """An approval as a row of the list."""

    name: str  # the digits of its hash that name its file
    hash: str
    file: str
    approved_at: str
    approver: str
    email: str
    reason: str
    tag: str
    changes: tuple[ApprovedChangeView, ...]
    settings: tuple[str, ...]
    follows: tuple[str, ...]
    signature: SignatureState
    key: str
    findings: tuple[Finding, ...]


class HistoryItem(NamedTuple):
    """An approval of one snapshot; `page` is that of the list of approvals."""

    name: str
    page: int
    kind: str  # `new`, `changed`, `removed`
    reason: str
    approver: str
    approved_at: str
    is_signed: bool


def view_history(approvals: Sequence[StoredApproval], snapshot_id: str) -> tuple[HistoryItem, ...]:
    """The approvals that name a snapshot, newest first."""
    items = (
        HistoryItem(
            shorten_hash(stored.approval.hash),
            place // APPROVALS_PER_PAGE + 1,
            _find_kind(change),
            stored.approval.reason,
            stored.approval.approved_by.name,
            stored.approval.approved_at,
            stored.approval.signature is not UNSET,
        )
        for place, stored in enumerate(reversed(approvals))
        for change in stored.approval.changes
        if change.id == snapshot_id
    )
    return tuple(islice(items, HISTORY_MAX))


def view_approvals(
    approvals: Sequence[StoredApproval], findings: Iterable[Finding], *, has_signers: bool
) -> tuple[ApprovalItem, ...]:
    """The approvals, newest first. `has_signers`: whether a file says whose keys are whose."""
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.file, []).append(finding)
    return tuple(
        _view_approval(stored, by_file.get(stored.file, []), has_signers=has_signers)
        for stored in reversed(approvals)
    )


def _view_approval(stored: StoredApproval, findings: Sequence[Finding], *, has_signers: bool) -> ApprovalItem:
    approval = stored.approval
    policy = approval.policy if approval.policy is not UNSET else {}
    return ApprovalItem(
        name=shorten_hash(approval.hash),
        hash=approval.hash,
        file=stored.file,
        approved_at=approval.approved_at,
        approver=approval.approved_by.name,
        email=approval.approved_by.email,
        reason=approval.reason,
        tag=approval.tag if approval.tag is not UNSET else "",
        changes=tuple(map(_view_change, approval.changes)),
        settings=tuple(
            SettingChange(name, setting.before, setting.after).describe() for name, setting in policy.items()
        ),
        follows=tuple(approval.follows) if approval.follows is not UNSET else (),
        signature=_view_signature(stored, findings, has_signers=has_signers),
        key=approval.key if approval.key is not UNSET else "",
        findings=tuple(findings),
    )


def _view_signature(stored: StoredApproval, findings: Sequence[Finding], *, has_signers: bool) -> SignatureState:
    problem = next((finding for finding in findings if finding.path == "$.signature"), None)
    if problem is not None:
        return SignatureState("bad", problem.message)
    if stored.approval.signature is UNSET:
        return SignatureState("", "not signed")
    if not has_signers:
        return SignatureState("warn", "signed; no file says whose key it is")
    return SignatureState("good", "signed by an allowed signer")


def _view_change(change: ApprovedChange) -> ApprovedChangeView:
    raw_response = change.raw_response if isinstance(change.raw_response, str) else ""
    unknown = " and ".join(change.unknown) if change.unknown is not UNSET else ""
    return ApprovedChangeView(
        change.id, change.file, _find_kind(change), change.before or "", change.after or "", raw_response, unknown
    )


def _find_kind(change: ApprovedChange) -> str:
    return "new" if change.before is None else "removed" if change.after is None else "changed"


def shorten_hash(digest: str) -> str:
    """The digits of a hash that name a file."""
    return digest.partition(":")[2][:HASH_DIGITS]
