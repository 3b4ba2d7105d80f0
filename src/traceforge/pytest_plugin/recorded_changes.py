"""What a recording run of pytest leaves to approve: pending changes, and the lines about them.

Imported for `--traceforge=record` alone: it takes 1.3 times as long as the rest of the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from traceforge.report.gate_text import change_lines, policy_lines
from traceforge.report.text_format import count
from traceforge.snapshots.gate.gate_judgement import RunObservations
from traceforge.snapshots.record.record_run import RecordedScopes, file_changes, read_candidates
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots


class RecordedChanges(NamedTuple):
    """What was written as pending, as it is printed, and how many calls could not be recorded."""

    lines: list[str]
    unread: int


def file_recorded_changes(
    snapshots: ProjectSnapshots, observations: RunObservations, tests: Mapping[str, str]
) -> RecordedChanges:
    """Write the pending changes of a run; `tests` are the outcomes of its tests, by scope."""
    candidates, unread = read_candidates(
        snapshots,
        observations.trace_ids,
        observations.key_names,
        observations.base_urls,
        observations.trace_workers,
    )
    recorded = RecordedScopes(
        observations.use_counts,
        observations.last_use_counts,
        observations.list_outcomes(tests),
        observations.gone_cases,
        observations.scope_starts,
        observations.workers,
    )
    proposal = file_changes(snapshots, candidates, recorded)
    replayed, live = observations.replayed, len(observations.trace_ids)
    lines = [f"{count(replayed, 'call')} answered from snapshots, {live} live", *change_lines(proposal.changes)]
    if proposal.changes:
        lines.append('next: traceforge diff, then traceforge approve --all --reason "…"')
    return RecordedChanges([*lines, *policy_lines(snapshots)], unread)
