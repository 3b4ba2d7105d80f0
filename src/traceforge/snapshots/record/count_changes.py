"""From the numbers of calls of a run to proposed changes of the snapshots.

In: approved calls that the run makes unchanged, and how often. Out: changes that state the numbers of this run, for
review. Never: changes a request or an answer, or drops a snapshot that no scope calls any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceforge.canon import JSON, JSONObject
from traceforge.snapshots.formats.determinism_policy import BEHAVIOUR_GATE
from traceforge.snapshots.formats.raw_response import write_raw_response
from traceforge.snapshots.formats.snapshot_format import RECORD_FIELDS
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall, ScopeTurn
from traceforge.snapshots.tree.call_counts import CountedRun, ScopeState, compare_counts
from traceforge.snapshots.tree.run_scopes import is_shared_scope


def propose_counts(
    calls: Sequence[ApprovedCall], request_keys: Mapping[str, str], run: CountedRun
) -> Iterator[PendingChange]:
    """A change for each snapshot that answers another number of calls, or whose number was unknown.

    Calls that merely moved are not a change, unless they moved from a test that is gone.
    """
    report = compare_counts(calls, request_keys, run)
    gone_ids = {move.call.id for move in report.moves if move.is_gone}
    moved_ids = {call.id for move in report.moves if move.call.id in gone_ids for call in move.calls}
    changed_scopes: dict[str, set[str]] = {}
    for difference in [*report.differences, *(move for move in report.moves if move.call.id in moved_ids)]:
        for call in difference.calls:
            changed_scopes.setdefault(call.id, set()).add(difference.scope)
    for call in calls:
        unknown_scopes = {scope for scope, times in call.call_counts.items() if not times and _is_counted(scope, run)}
        scopes = changed_scopes.get(call.id, set()) | unknown_scopes
        turns = list(_list_turns(call, scopes, run))
        if scopes and turns and turns != call.turns and call.raw_response is not None:
            yield _make_change(call, turns)


def _is_counted(scope: str, run: CountedRun) -> bool:
    return run.find_state(scope) is ScopeState.COUNTED


def _list_turns(call: ApprovedCall, scopes: set[str], run: CountedRun) -> Iterator[ScopeTurn]:
    """The scopes of a snapshot, with the numbers of this run in `scopes`."""
    for scope in {**dict.fromkeys(turn.scope for turn in call.turns), **dict.fromkeys(sorted(scopes))}:
        turns = [turn for turn in call.turns if turn.scope == scope]
        if scope not in scopes:
            yield from turns
            continue
        call_count = run.call_counts.get((scope, call.id), 0) if _is_counted(scope, run) else 0
        if is_shared_scope(scope) and call_count:
            call_count = _count_calls_of_one_run(call_count, run.scope_starts.get(scope, 1))
        if call.gate == BEHAVIOUR_GATE and call_count:
            yield ScopeTurn(scope, 0, call_count)
        elif call.gate != BEHAVIOUR_GATE:
            numbers = sorted(turn.turn for turn in turns)
            first_new = numbers[-1] + 1 if numbers else 0
            numbers += range(first_new, first_new + call_count)
            yield from (ScopeTurn(scope, number, 1) for number in numbers[:call_count])


def _count_calls_of_one_run(call_count: int, runs: int) -> int:
    """How many calls a shared scope makes each time, if every worker that ran it made as many."""
    return call_count // runs if call_count % runs == 0 else call_count


def _make_change(call: ApprovedCall, turns: Sequence[ScopeTurn]) -> PendingChange:
    assert call.raw_response is not None
    scopes: list[JSON] = [turn.to_json(is_numbered=call.gate != BEHAVIOUR_GATE) for turn in turns]
    source: JSONObject = {**call.source, "scopes": scopes}
    raw, record = call.raw_response, call.record
    if record is None:
        raw = raw._replace(source=source)
    else:
        record = {**{name: record[name] for name in RECORD_FIELDS}, "source": source}
    return PendingChange(
        call.id,
        ChangeKind.CALLS,
        call.provider,
        call.gate,
        call.hash,
        "",
        record,
        raw,
        write_raw_response(raw).decode(),
    )
