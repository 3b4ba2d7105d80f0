"""Whether every snapshot of a tree is approved.

In: the snapshots of a tree, by id, and its approvals. Out: findings. Never: decides who may approve: reviewers of the
commit do, and signatures.

A snapshot that any approval names must be in a state that some approval left. It does not matter which: two branches
may have approved two answers, and the merge kept one. A snapshot with a raw response was recorded, so it needs an
approval; a record without one was written by hand, and needs none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, cast

from traceforge.canon import JSONObject, parse_json
from traceforge.conversion import convert
from traceforge.errors import CannotRead, CannotSign, NotJSON
from traceforge.files import read_file
from traceforge.findings import IO, Finding, internal_error_finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import (
    Approval,
    StoredApproval,
    check_approval,
    signed_bytes,
)
from traceforge.snapshots.formats.snapshot_format import RESTORE_HINT
from traceforge.snapshots.formats.tree_layout import StoredSnapshot

APPROVED_STATE_RULE = "AP3"
SIGNATURE_RULE = "AP4"
CHAIN_RULE = "AP5"
REMOVED_RULE = "AP6"

_APPROVE_HINT = (
    'Restore it from Git, or approve it: traceforge record -- COMMAND, then traceforge approve --all --reason "…"'
)


class ApprovalsReport(NamedTuple):
    """How many approvals there are, and findings about them and about unapproved snapshots."""

    approvals: int
    findings: list[Finding]


def check_approvals(root: str, stored: Mapping[str, StoredSnapshot], unknown_ids: Collection[str]) -> ApprovalsReport:
    """Check the approvals of a tree, and its snapshots against them.

    `unknown_ids` may be in files that could not be read; those have findings of their own.
    """
    approvals: list[StoredApproval] = []
    findings: list[Finding] = []
    names = (
        tree_layout.list_json_files(root, tree_layout.APPROVALS_DIR, findings)
        if tree_layout.is_folder(f"{root}/{tree_layout.APPROVALS_DIR}")
        else []
    )
    for file in [f"{tree_layout.APPROVALS_DIR}/{name}" for name in names]:
        try:
            findings += _read_approval(root, file, approvals)
        except (CannotRead, NotJSON) as exc:
            findings.append(exc.finding(file))
        except Exception as exc:  # noqa: BLE001 (becomes a finding: unchecked, never valid)
            findings.append(internal_error_finding(file, exc))
    is_complete = not findings  # With an unreadable approval, a missing one cannot be told apart.
    approved_states: dict[str, set[str | None]] = {}
    for stored_approval in approvals:
        for change in stored_approval.approval.changes:
            approved_states.setdefault(change.id, set()).add(change.after)
    findings += _check_stored(stored, approved_states)
    if is_complete:
        findings += _check_chain(approvals)
        findings += _check_removed(approvals, approved_states, {*stored, *unknown_ids})
    return ApprovalsReport(len(approvals), findings)


def _read_approval(root: str, file: str, approvals: list[StoredApproval]) -> list[Finding]:
    value = parse_json(read_file(f"{root}/{file}", follow_links=False))
    findings = check_approval(value, file)
    if findings:
        return findings
    approval = convert(value, Approval)
    approvals.append(StoredApproval(file, approval))
    return _check_signature(root, file, approval, cast("JSONObject", value))


def _check_signature(root: str, file: str, approval: Approval, document: JSONObject) -> list[Finding]:
    if not isinstance(approval.signature, str) or not isinstance(approval.key, str):
        return []
    from traceforge.snapshots.tree.approval_signing import check_signature

    principal = approval.approved_by.email or approval.approved_by.name
    try:
        problem = check_signature(
            os.path.dirname(os.path.abspath(root)),
            signed_bytes(document),
            approval.signature,
            key=approval.key,
            principal=principal,
            at=approval.approved_at,
        )
    except CannotSign as exc:
        return [Finding(file, "$.signature", IO, exc.message, exc.hint)]
    return [Finding(file, "$.signature", SIGNATURE_RULE, f"the signature {problem}", RESTORE_HINT)] if problem else []


def _check_stored(
    stored: Mapping[str, StoredSnapshot], approved_states: Mapping[str, set[str | None]]
) -> Iterator[Finding]:
    for name, (file, digest, must_be_approved) in stored.items():
        if name in approved_states and digest not in approved_states[name]:
            message = f"{printable_name(name)} is {digest}, and no approval left it in this state"
            yield Finding(file, "", APPROVED_STATE_RULE, message, _APPROVE_HINT)
        elif must_be_approved and name not in approved_states:
            yield Finding(file, "", APPROVED_STATE_RULE, f"no approval names {printable_name(name)}", _APPROVE_HINT)


def _check_chain(approvals: list[StoredApproval]) -> Iterator[Finding]:
    """Each change starts from nothing, or from a state that another approval left; else an approval is missing."""
    files_by_state: dict[tuple[str, str | None], set[str]] = {}
    for stored_approval in approvals:
        for change in stored_approval.approval.changes:
            files_by_state.setdefault((change.id, change.after), set()).add(stored_approval.file)
    for stored_approval in approvals:
        for index, change in enumerate(stored_approval.approval.changes):
            if change.before is not None and not files_by_state.get((change.id, change.before), set()) - {
                stored_approval.file
            }:
                path = f"$.changes[{index}].before"
                message = f"no other approval left {printable_name(change.id)} in the state that this one starts from"
                yield Finding(
                    stored_approval.file, path, CHAIN_RULE, message, "Restore the missing approval from Git."
                )


def _check_removed(
    approvals: list[StoredApproval], approved_states: Mapping[str, set[str | None]], present_ids: Collection[str]
) -> Iterator[Finding]:
    for name, states in approved_states.items():
        if name in present_ids or None in states:
            continue
        last_file = [
            stored_approval.file
            for stored_approval in approvals
            if any(change.id == name for change in stored_approval.approval.changes)
        ][-1]
        message = f"{printable_name(name)} was approved, and was removed without an approval"
        hint = f'Restore it from Git; to remove it, run: traceforge snapshot rm {printable_name(name)} --reason "…"'
        yield Finding(last_file, "", REMOVED_RULE, message, hint)
