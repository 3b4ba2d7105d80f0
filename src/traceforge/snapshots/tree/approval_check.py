"""Is everything that stands in a tree approved?

In: what stands in a tree, by id, and its approvals. Out: every finding about them. Never: decides who may approve:
that is for whoever reviews the commit, and for the signatures.

A snapshot that an approval names must be what some approval left. Which of them is not asked: two branches may have
approved two answers, and the merge kept one. One with a wire answer came from an approval, so it must have one; a
record without was written by hand, and may have none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import cast

from traceforge.canon import JSONObject, parse_json
from traceforge.conversion import convert
from traceforge.errors import CannotRead, CannotSign, NotJSON
from traceforge.files import read_file
from traceforge.findings import IO, Finding, internal_error_finding, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import FOLDER, Approval, Kept, check_approval, signed_bytes
from traceforge.snapshots.formats.snapshot_format import RESTORE
from traceforge.snapshots.formats.tree_layout import Standing
from traceforge.tuples import NamedTuple

STANDING_RULE = "AP3"
SIGNATURE_RULE = "AP4"
CHAIN_RULE = "AP5"
GONE_RULE = "AP6"

_APPROVE = "Restore it from Git, or record and approve it: traceforge record, then traceforge approve."


class ApprovalsReport(NamedTuple):
    """How many approvals there are, and what is wrong with them and with what they should cover."""

    approvals: int
    findings: list[Finding]


def check_approvals(root: str, standing: Mapping[str, Standing], unknown: Collection[str]) -> ApprovalsReport:
    """Check the approvals of a tree, and what stands there against them.

    `unknown` are ids that may stand in files which could not be read; they have findings of their own.
    """
    kept: list[Kept] = []
    findings: list[Finding] = []
    names = tree_layout.list_files(root, FOLDER, findings) if tree_layout.is_folder(f"{root}/{FOLDER}") else []
    for file in [f"{FOLDER}/{name}" for name in names]:
        try:
            findings += _read(root, file, kept)
        except (CannotRead, NotJSON) as exc:
            findings.append(exc.finding(file))
        except Exception as exc:  # noqa: BLE001 (said as a finding: unchecked, never valid)
            findings.append(internal_error_finding(file, exc))
    whole = not findings  # Where an approval could not be read, nothing can be said about what none says.
    left: dict[str, set[str | None]] = {}
    for one in kept:
        for change in one.approval.changes:
            left.setdefault(change.id, set()).add(change.after)
    findings += _check_standing(standing, left)
    if whole:
        findings += _check_chain(kept)
        findings += _check_gone(kept, left, {*standing, *unknown})
    return ApprovalsReport(len(kept), findings)


def _read(root: str, file: str, kept: list[Kept]) -> list[Finding]:
    value = parse_json(read_file(f"{root}/{file}", follow_links=False))
    found = check_approval(value, file)
    if found:
        return found
    approval = convert(value, Approval)
    kept.append(Kept(file, approval))
    return _check_signature(root, file, approval, cast("JSONObject", value))


def _check_signature(root: str, file: str, approval: Approval, document: JSONObject) -> list[Finding]:
    if not isinstance(approval.signature, str) or not isinstance(approval.key, str):
        return []
    from traceforge.snapshots.tree.approval_signing import check_signature

    who = approval.approved_by.email or approval.approved_by.name
    try:
        problem = check_signature(
            os.path.dirname(os.path.abspath(root)),
            signed_bytes(document),
            approval.signature,
            key=approval.key,
            principal=who,
            at=approval.approved_at,
        )
    except CannotSign as exc:
        return [Finding(file, "$.signature", IO, exc.message, exc.hint)]
    return [Finding(file, "$.signature", SIGNATURE_RULE, f"the signature {problem}", RESTORE)] if problem else []


def _check_standing(standing: Mapping[str, Standing], left: Mapping[str, set[str | None]]) -> Iterator[Finding]:
    for name, (file, digest, must_be_approved) in standing.items():
        if name in left and digest not in left[name]:
            message = f"{printable_name(name)} is {digest}, and no approval left it so"
            yield Finding(file, "", STANDING_RULE, message, _APPROVE)
        elif must_be_approved and name not in left:
            yield Finding(file, "", STANDING_RULE, f"no approval names {printable_name(name)}", _APPROVE)


def _check_chain(kept: list[Kept]) -> Iterator[Finding]:
    """Each approval starts from nothing, or from what another one left; else one of them is missing."""
    leavers: dict[tuple[str, str | None], set[str]] = {}
    for one in kept:
        for change in one.approval.changes:
            leavers.setdefault((change.id, change.after), set()).add(one.file)
    for one in kept:
        for place, change in enumerate(one.approval.changes):
            if change.before is not None and not leavers.get((change.id, change.before), set()) - {one.file}:
                path = f"$.changes[{place}].before"
                message = f"no other approval left {printable_name(change.id)} as this one found it: one is missing"
                yield Finding(one.file, path, CHAIN_RULE, message, "Restore the missing approval from Git.")


def _check_gone(kept: list[Kept], left: Mapping[str, set[str | None]], there: Collection[str]) -> Iterator[Finding]:
    for name, states in left.items():
        if name in there or None in states:
            continue
        last = [one.file for one in kept if any(change.id == name for change in one.approval.changes)][-1]
        message = f"{printable_name(name)} was approved, and is gone without an approval of that"
        yield Finding(last, "", GONE_RULE, message, "Restore it from Git; to remove it, use traceforge snapshot rm.")
