"""Whether the approvals of a tree are signed by those who may sign them.

In: the approvals of a tree, and who may sign: of the tree itself, or of the commit that a build is compared with.
Out: findings, and how many signatures have an unknown signer. Never: takes a signature for proof of a person where no
file says whose key it is.

A project requires signatures from the approval on that approved `approvals.require_signed`. Approvals that it follows
are older, and are exempt. Every other approval needs a signature, also one that was added in parallel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from traceforge.canon import JSONObject, parse_json
from traceforge.config import find_repository
from traceforge.errors import CannotSign
from traceforge.files import read_file, write_atomic
from traceforge.findings import IO, Finding
from traceforge.snapshots.formats.approval_format import StoredApproval, signed_bytes
from traceforge.snapshots.formats.snapshot_format import RESTORE_HINT
from traceforge.snapshots.formats.tree_layout import SIGNERS_NAME
from traceforge.snapshots.tree.approval_chain import ApprovalChain
from traceforge.snapshots.tree.approval_signing import check_signature, find_signers_file, find_signers_of_git

SIGNATURE_RULE = "AP4"
REQUIRED_RULE = "AP10"

_SIGN_HINT = "Restore .ai-snapshots from Git, then approve again with --sign."
_SIGNERS_HINT = f"Commit .ai-snapshots/{SIGNERS_NAME}, or set gpg.ssh.allowedSignersFile in Git."
_BASE_HINT = f"Let a signer approve it whom .ai-snapshots/{SIGNERS_NAME} of that commit names."


class SignaturesReport(NamedTuple):
    """Findings about signatures, and how many signatures are by keys of which no file says whose they are."""

    findings: list[Finding]
    unattributed: int = 0


def check_signatures(root: str, chain: ApprovalChain, *, require_all: bool = False) -> SignaturesReport:
    """Check every signature of a tree, and that those that are required are there."""
    required = {stored.file for stored in (chain.approvals if require_all else chain.find_required_signatures())}
    allowed = find_signers_file(root)
    findings: list[Finding] = []
    unattributed = 0
    for stored in chain.approvals:
        is_required = stored.file in required
        if not isinstance(stored.approval.signature, str):
            if is_required:
                message = "the approval is not signed, and signatures are required"
                findings.append(Finding(stored.file, "$.signature", REQUIRED_RULE, message, _SIGN_HINT))
            continue
        problem = _find_problem(root, stored, allowed)
        findings += [problem] if problem is not None else []
        if not allowed and problem is None:
            unattributed += 1
            if is_required:
                message = "a signature is required, and no file says whose key this is"
                findings.append(Finding(stored.file, "$.signature", REQUIRED_RULE, message, _SIGNERS_HINT))
    return SignaturesReport(findings, unattributed)


def check_new_signatures(
    root: str, new_approvals: Sequence[StoredApproval], base_signers: bytes | None, base: str
) -> Iterator[Finding]:
    """Findings for signed approvals that a commit does not have, if that commit does not allow their signer.

    `base_signers` is the file of allowed signers of the commit: a pull request that adds its own key does not count.
    """
    with TemporaryDirectory() as folder:
        allowed = _find_signers_beside(root, base_signers, folder)
        for stored in new_approvals:
            if not isinstance(stored.approval.signature, str):
                continue  # A finding of the tree itself.
            if not allowed or _find_problem(root, stored, allowed) is not None:
                message = f"the signature is not one of a signer whom {base} allows"
                yield Finding(stored.file, "$.signature", REQUIRED_RULE, message, _BASE_HINT)


def _find_signers_beside(root: str, base_signers: bytes | None, folder: str) -> str:
    """The file of a commit; where it has none, that of Git, unless the checkout brings it."""
    if base_signers is not None:
        file = os.path.join(folder, SIGNERS_NAME)
        write_atomic(file, base_signers, mode=0o600)
        return file
    allowed = find_signers_of_git(root)
    checkout = os.path.join(find_repository(os.path.dirname(os.path.realpath(root))), "")
    return "" if os.path.realpath(allowed).startswith(checkout) else allowed


def _find_problem(root: str, stored: StoredApproval, allowed: str) -> Finding | None:
    approval = stored.approval
    document = cast("JSONObject", parse_json(read_file(f"{root}/{stored.file}", follow_links=False)))
    try:
        problem = check_signature(
            allowed,
            signed_bytes(document),
            str(approval.signature),
            key=str(approval.key),
            principal=approval.approved_by.email or approval.approved_by.name,
            at=approval.approved_at,
        )
    except CannotSign as exc:
        return Finding(stored.file, "$.signature", IO, exc.message, exc.hint)
    if not problem:
        return None
    return Finding(stored.file, "$.signature", SIGNATURE_RULE, f"the signature {problem}", RESTORE_HINT)
