"""Approve a snapshot tree as it is: `traceforge approve --tree`.

In: a project whose tree was changed by Git, such as by a revert or a cherry-pick, or by hand. Out: one approval of
every snapshot that differs from its approved state, and of predecessors that are not in the tree. Never: changes a
snapshot, or approves what is invalid in itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from traceforge.canon import digest_bytes
from traceforge.clock import now
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig
from traceforge.errors import InvalidFile
from traceforge.files import read_file
from traceforge.snapshots.approve.tree_commit import CommitResult, Decision, draft_approval
from traceforge.snapshots.formats.approval_format import ApprovedChange, load_approvals, read_approval
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.tree_layout import StoredSnapshot, raw_response_file
from traceforge.snapshots.tree import approval_check
from traceforge.snapshots.tree.approval_chain import ApprovalChain
from traceforge.snapshots.tree.tree_transaction import FileChange, lock_tree
from traceforge.snapshots.tree.tree_verification import verify_tree

# What an approval of the tree settles. Everything else is wrong in the files themselves.
SETTLED_RULES = frozenset(
    {
        approval_check.APPROVED_STATE_RULE,
        approval_check.CHAIN_RULE,
        approval_check.REMOVED_RULE,
        approval_check.PREDECESSOR_RULE,
        approval_check.LATEST_STATE_RULE,
    }
)


def approve_tree(
    loaded: LoadedConfig,
    *,
    reason: str,
    tag: str = "",
    sign: bool = False,
    approve_policy: bool = False,
    base: str = "",
) -> CommitResult | None:
    """Approve the tree of a project as it is, and with `approve_policy` its settings too; None if it is as approved.

    Raises:
        InvalidFile: the tree breaks a rule that no approval settles; the error holds every such finding.
        CannotSign, PathInUse, CannotWrite, BrokenJournal: as `commit_changes`.
    """
    root = os.path.join(loaded.project, SNAPSHOTS_DIR)
    with lock_tree(loaded.project) as write:
        report = verify_tree(root, ModelPolicy.from_config(loaded.config))
        refused = tuple(finding for finding in report.findings if finding.rule not in SETTLED_RULES)
        if refused:
            raise InvalidFile(refused)
        if not report.findings:
            return None
        chain = ApprovalChain(load_approvals(root))
        changes = sorted(_list_changes(root, report.stored, chain), key=lambda change: change.id)
        absent = [missing.predecessor for missing in chain.find_missing()]
        decision = Decision(reason, tag, sign, now(), loaded.config, approve_policy, base)
        file, data = draft_approval(loaded.project, chain, changes, decision, absent=absent)
        write([FileChange(file, data)])
    return CommitResult(read_approval(data), (file,))


def _list_changes(root: str, stored: Mapping[str, StoredSnapshot], chain: ApprovalChain) -> Iterator[ApprovedChange]:
    """Every snapshot that is not in the state that its latest approval left."""
    latest_states = chain.latest_states()
    for name, (file, digest, has_raw_response) in stored.items():
        states = latest_states.get(name, [None])
        if digest not in states:
            raw_file = f"{root}/{raw_response_file(name)}"
            raw_digest = digest_bytes(read_file(raw_file, follow_links=False)) if has_raw_response else None
            yield ApprovedChange(name, file, states[-1], digest, raw_digest)
    for name, states in latest_states.items():
        if name not in stored and None not in states:
            yield ApprovedChange(name, chain.find_last_file(name), states[-1], None, None)
