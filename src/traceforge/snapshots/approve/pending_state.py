"""What waits for approval in a project, and what is approved: what `traceforge status` and the web view show.

In: the configuration of a project. Out: its pending changes as this configuration judges them, its approved calls,
and the settings without an approval. Never: writes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from traceforge.config import SNAPSHOTS_DIR, LoadedConfig
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.snapshots.formats.approved_policy import ApprovedSettings, SettingChange, find_policy_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.pending_changes import PendingChange, load_pending
from traceforge.snapshots.record.pending_judgement import judge_pending
from traceforge.snapshots.tree.approved_calls import ApprovedCall, load_approved_calls
from traceforge.snapshots.tree.base_checks import find_local_changes
from traceforge.snapshots.tree.tree_verification import TreeReport, verify_tree


class PendingState(NamedTuple):
    """What waits for approval in a project, and what is approved."""

    loaded: LoadedConfig
    changes: list[PendingChange]
    approved: dict[str, ApprovedCall]  # by id
    finding_count: int  # of the snapshot tree
    settings: list[SettingChange]  # that differ from the approved policy


def load_pending_state(
    loaded: LoadedConfig,
    *,
    with_new_policy: bool = False,
    base: str = "",
    pending: Sequence[PendingChange] | None = None,
) -> PendingState:
    """Load the pending changes, the approved calls and the settings of a project.

    `with_new_policy`: where no policy was ever approved, every setting differs from it. Checks that demand less than
    they did, in the commit `base` or as Git knows them here, are among the settings. `pending`: the changes, if
    they were read already.

    Raises:
        InvalidFile, NotJSON, CannotRead: a pending change cannot be read.
        InvalidConfig: a declaration of volatile parts, or a pattern to redact, is invalid.
    """
    root = os.path.join(loaded.project, SNAPSHOTS_DIR)
    policy = ModelPolicy.from_config(loaded.config)
    tree = verify_tree(root, policy) if os.path.isdir(root) else TreeReport(0, 0, ())
    approved = [] if tree.findings else load_approved_calls(loaded.project, policy)
    settings = _find_settings(loaded, tree.settings, with_new_policy=with_new_policy)
    calls = {call.id: call for call in approved}
    stored = load_pending(loaded.project) if pending is None else pending
    changes = judge_pending(loaded, stored, calls, are_settings_approved=not settings)
    settings = [*settings, *_find_checks(loaded, base)]
    return PendingState(loaded, changes, calls, len(tree.findings), settings)


def _find_settings(
    loaded: LoadedConfig, approved: ApprovedSettings | None, *, with_new_policy: bool
) -> list[SettingChange]:
    if approved is None and not with_new_policy:
        return []
    return find_policy_changes(loaded.config, approved or {})


def _find_checks(loaded: LoadedConfig, base: str) -> list[SettingChange]:
    try:
        return find_local_changes(loaded.project, base)
    except (CannotRead, NotJSON, InvalidFile):
        return []  # A broken approval is a finding of the tree.
