"""Whether every snapshot of a tree is approved.

In: the snapshots of a tree, by id, and its approvals. Out: findings. Never: decides who may approve: reviewers of the
commit do, and signatures.

A snapshot that any approval names must be in the state that its latest approval left. After a merge there may be two
of them: two branches have approved two answers, and the merge kept one. A snapshot with a raw response was recorded,
so it needs an approval; a record without one was written by hand, and needs none in a tree whose policy was never
approved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from traceforge.canon import parse_json
from traceforge.conversion import convert
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import read_file
from traceforge.findings import Finding, internal_error_finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import (
    Approval,
    StoredApproval,
    check_approval,
    check_repeated_names,
)
from traceforge.snapshots.formats.approved_policy import REQUIRE_SIGNED, ApprovedSettings
from traceforge.snapshots.formats.snapshot_format import RESTORE_HINT
from traceforge.snapshots.formats.tree_layout import StoredSnapshot
from traceforge.snapshots.tree.approval_chain import ApprovalChain

if TYPE_CHECKING:
    from traceforge.snapshots.tree.signature_check import SignaturesReport

APPROVED_STATE_RULE = "AP3"
CHAIN_RULE = "AP5"
REMOVED_RULE = "AP6"
PREDECESSOR_RULE = "AP8"
LATEST_STATE_RULE = "AP9"
RAW_RESPONSE_LOST_RULE = "AP11"

_APPROVE_HINT = 'Restore it from Git, or approve it as it is: traceforge approve --tree --reason "…"'
_RESTORE_APPROVAL_HINT = (
    "Restore it: git checkout COMMIT -- .ai-snapshots/approvals; then, after git revert or cherry-pick, approve the "
    'tree as it is: traceforge approve --tree --reason "…"'
)
_LATEST_HINT = 'Restore it from Git; to go back to an earlier answer: traceforge approve --tree --reason "…"'
_RAW_RESPONSE_HINT = "Restore both files from Git. A record that you write by hand needs an id of its own."


class ApprovalsReport(Struct, frozen=True):
    """How many approvals there are, what they left, and findings about them and about unapproved snapshots."""

    approvals: int
    findings: list[Finding]
    settings: ApprovedSettings | None  # None: no approval names a policy
    unattributed: int = 0  # signatures by keys of which no file says whose they are


def check_approvals(
    root: str, stored: Mapping[str, StoredSnapshot], unknown_ids: Collection[str], *, require_signed: bool = False
) -> ApprovalsReport:
    """Check the approvals of a tree, and its snapshots against them.

    `unknown_ids` may be in files that could not be read; those have findings of their own. With `require_signed`,
    every approval must be signed, even if the project does not require it.
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
        except CannotRead as exc:
            findings.append(exc.finding(file))
        except NotJSON as exc:
            findings.append(tree_layout.not_json_finding(root, file, exc))
        except Exception as exc:  # noqa: BLE001 (becomes a finding: unchecked, never valid)
            findings.append(internal_error_finding(file, exc))
    is_complete = not findings  # With an unreadable approval, a missing one cannot be told apart.
    approved_states: dict[str, set[str | None]] = {}
    for stored_approval in approvals:
        for change in stored_approval.approval.changes:
            approved_states.setdefault(change.id, set()).add(change.after)
    chain = ApprovalChain(approvals)
    latest_states = chain.latest_states()
    settings = chain.approved_settings()
    findings += _check_stored(stored, approved_states, all_must_be_approved=settings is not None)
    findings += _check_raw_responses(stored, chain)
    if is_complete:
        findings += _check_chain(chain)
        findings += _check_predecessors(chain)
        findings += _check_latest(stored, approved_states, latest_states)
        findings += _check_removed(approvals, latest_states, {*stored, *unknown_ids})
    signatures = _check_signatures(root, chain, require_signed)
    findings += signatures.findings if signatures is not None else []
    return ApprovalsReport(
        len(approvals),
        findings,
        settings,
        signatures.unattributed if signatures is not None else 0,
    )


def _read_approval(root: str, file: str, approvals: list[StoredApproval]) -> list[Finding]:
    data = read_file(f"{root}/{file}", follow_links=False)
    value = parse_json(data)
    findings = check_repeated_names(data, file) + check_approval(value, file)
    if findings:
        return findings
    approvals.append(StoredApproval(file, convert(value, Approval)))
    return []


def _check_signatures(root: str, chain: ApprovalChain, require_signed: bool) -> SignaturesReport | None:
    """The report about signatures; None where there are none, and none are required."""
    is_needed = require_signed or any(
        stored.approval.signature is not UNSET or REQUIRE_SIGNED in (stored.approval.policy or ())
        for stored in chain.approvals
    )
    if not is_needed:
        return None
    report: SignaturesReport = load_signature_check().check_signatures(root, chain, require_all=require_signed)
    return report


# Deferred: few projects sign, and what runs `ssh-keygen` takes 8 ms to import.
def load_signature_check() -> ModuleType:
    """The module that checks signatures."""
    from traceforge.snapshots.tree import signature_check

    return signature_check


def _check_stored(
    stored: Mapping[str, StoredSnapshot],
    approved_states: Mapping[str, set[str | None]],
    *,
    all_must_be_approved: bool,
) -> Iterator[Finding]:
    for name, (file, digest, must_be_approved) in stored.items():
        if name in approved_states and digest not in approved_states[name]:
            message = f"{printable_name(name)} is {digest}, and no approval left it in this state"
            yield Finding(file, "", APPROVED_STATE_RULE, message, _APPROVE_HINT)
        elif (must_be_approved or all_must_be_approved) and name not in approved_states:
            yield Finding(file, "", APPROVED_STATE_RULE, f"no approval names {printable_name(name)}", _APPROVE_HINT)


def _check_chain(chain: ApprovalChain) -> Iterator[Finding]:
    """Each change starts from nothing, or from a state that another approval left; else an approval is missing."""
    approvals = chain.approvals
    files_by_state: dict[tuple[str, str | None], set[str]] = {}
    for stored_approval in approvals:
        for change in stored_approval.approval.changes:
            files_by_state.setdefault((change.id, change.after), set()).add(stored_approval.file)
    for stored_approval in approvals:
        for index, change in enumerate(stored_approval.approval.changes):
            if (
                change.before is not None
                and not files_by_state.get((change.id, change.before), set()) - {stored_approval.file}
                and not chain.has_approved_gap(stored_approval)
            ):
                path = f"$.changes[{index}].before"
                message = f"no other approval left {printable_name(change.id)} in the state that this one starts from"
                yield Finding(
                    stored_approval.file, path, CHAIN_RULE, message, "Restore the missing approval from Git."
                )


def _check_predecessors(chain: ApprovalChain) -> Iterator[Finding]:
    """Every approval that another one follows is there; else it was removed, perhaps with what it approved."""
    for stored_approval, place in chain.find_missing():
        message = "the approval that this one follows is not in the tree"
        path = f"$.follows[{place}]"
        yield Finding(stored_approval.file, path, PREDECESSOR_RULE, message, _RESTORE_APPROVAL_HINT)
    for stored_approval in chain.find_unlinked():
        message = "it names no predecessors, other approvals do, and none follows it"
        yield Finding(stored_approval.file, "", PREDECESSOR_RULE, message, RESTORE_HINT)


def _check_latest(
    stored: Mapping[str, StoredSnapshot],
    approved_states: Mapping[str, set[str | None]],
    latest_states: Mapping[str, list[str | None]],
) -> Iterator[Finding]:
    """No snapshot is in a state that was approved once, and replaced by a later approval."""
    for name, (file, digest, _) in stored.items():
        if digest in approved_states.get(name, ()) and digest not in latest_states[name]:
            message = f"{printable_name(name)} is in a state that a later approval replaced"
            yield Finding(file, "", LATEST_STATE_RULE, message, _LATEST_HINT)


def _check_raw_responses(stored: Mapping[str, StoredSnapshot], chain: ApprovalChain) -> Iterator[Finding]:
    """A record of a recorded call keeps its raw response: without it, nothing proves what the provider said."""
    recorded_ids = chain.recorded_ids()
    for name, (file, _, has_raw_response) in stored.items():
        if name in recorded_ids and not has_raw_response:
            yield raw_response_lost(file, name)


def raw_response_lost(file: str, name: str) -> Finding:
    """The finding for a record without the raw response that an approval of it names."""
    message = f"{printable_name(name)} was approved with its raw response, and has none"
    return Finding(file, "", RAW_RESPONSE_LOST_RULE, message, _RAW_RESPONSE_HINT)


def _check_removed(
    approvals: list[StoredApproval], latest_states: Mapping[str, list[str | None]], present_ids: Collection[str]
) -> Iterator[Finding]:
    for name, states in latest_states.items():
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
