"""A pending change compared with its approved call: what a reviewer is shown.

In: a change, its approved call, and the keys of the configuration. Out: their comparison, without what is ignored.
Never: decides whether something changed; `pending_judgement` does.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.compare.comparison import Comparison, compare
from traceforge.replay.fingerprints import find_differing_path
from traceforge.replay.request_key import RequestKeyer
from traceforge.snapshots.record.pending_changes import PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall, key_stored_request, take_compared_parts


class ChangeComparison(NamedTuple):
    """What differs, and the path of a redacted part that differs; "" where none does, or that is unknown."""

    comparison: Comparison
    redacted_path: str


def compare_with_approved(change: PendingChange, before: ApprovedCall, keys: RequestKeyer) -> ChangeComparison:
    """Compare what a change would replay with what is approved."""
    scope = next((turn.scope for turn in change.turns), "")
    approved, proposed = (take_compared_parts(call, keys, scope) for call in (before, change))
    return ChangeComparison(compare(approved, proposed), _find_differing_redaction(before, change, keys, scope))


def _find_differing_redaction(before: ApprovedCall, change: PendingChange, keys: RequestKeyer, scope: str) -> str:
    """The path of a redacted part that differs; "" where none does, or a call was recorded without the match key."""
    if before.raw_response is None:
        return ""
    sides = (before.raw_response, change.raw_response)
    approved, pending = (keys.read_fingerprints(key_stored_request(keys, raw, scope), raw.redacted) for raw in sides)
    return find_differing_path(approved, pending)
