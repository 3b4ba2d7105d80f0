"""`traceforge record`: run a command, replay what is approved, and file the rest as pending changes.

In: a project and a command. Out: the run, and its new or changed calls as pending changes. Never: answers from a tree
that does not verify.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from traceforge.canon import JSONObject
from traceforge.capture.null_recorder import NullRecorder
from traceforge.capture.recorder import IdCollectingRecorder, ThreadRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.command_runner import CommandRun, run_command
from traceforge.capture.run.environment import read_base_urls, set_key_variables
from traceforge.capture.trace_writer import RecorderSettings
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig
from traceforge.errors import NotFound
from traceforge.redact.redactor import Redactor
from traceforge.replay.unmatched import UnmatchedRequest
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.answer_adoption import AnswerAdopter
from traceforge.snapshots.record.answer_variance import CallVariance, measure_variance, refuse_varying_calls
from traceforge.snapshots.record.candidates import Candidate, find_candidates
from traceforge.snapshots.record.old_snapshots import OldSnapshot, give_old_ids, list_old_snapshots
from traceforge.snapshots.record.pattern_proposal import PatternProposal, list_proposals
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange, load_pending, save_pending
from traceforge.snapshots.record.proposal import Proposal, propose_changes
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.call_counts import FAILED, PASSED, CountedRun, merge_worker_counts
from traceforge.snapshots.tree.command_scope import redacted_scope
from traceforge.snapshots.tree.project_snapshots import (
    ProjectSnapshots,
    find_recorded_variables,
    list_gone_cases,
    make_run_scopes,
    open_snapshots,
)
from traceforge.snapshots.tree.run_scopes import is_test_scope
from traceforge.terminal import ProgressReporter, no_progress
from traceforge.traces.index_update import read_any_version
from traceforge.traces.trace_store import TraceStore

_IMPORT_HINT = (
    'Import cassettes and approve them first: traceforge import vcr DIR, then traceforge approve --all --reason "…"'
)


@dataclass
class RecordRun:
    """The outcome of `record`. `run` is None where the snapshot tree does not verify: then nothing was run."""

    snapshots: ProjectSnapshots
    run: CommandRun | None = None
    changes: list[PendingChange] = field(default_factory=list)  # of this run
    live: int = 0  # calls that a provider answered
    unchanged: int = 0
    unread: int = 0  # calls whose traces cannot be read
    proposals: list[PatternProposal] = field(default_factory=list)  # for parts of prompts that vary by their nature
    has_new_key: bool = False  # whether a match key was made
    old_snapshots: Sequence[OldSnapshot] = ()  # of an older version, before this run
    variances: list[CallVariance] = field(default_factory=list)  # of live calls, if the command was run several times
    run_count: int = 1  # how often the command was run
    failed_repeats: int = 0  # further runs of the command that failed
    is_offline: bool = False  # whether answers were adopted, and nothing went to a provider
    adopted: int = 0  # calls that got the recorded answer of an imported call
    unmatched: Sequence[UnmatchedRequest] = ()  # calls that got no answer in such a run

    @property
    def remaining_old(self) -> list[OldSnapshot]:
        """Snapshots of an older version that are not replaced, because no call of this run asked for them."""
        pending = {old.id for old in self.pending_old}
        approved = {call.id for call in self.snapshots.approved_calls}
        return [old for old in self.old_snapshots if old.id not in pending and old.id not in approved]

    @property
    def pending_old(self) -> list[OldSnapshot]:
        """Snapshots of an older version that an approval of this run's changes replaces."""
        changed = {change.id for change in self.changes if change.kind is not ChangeKind.REFUSED}
        return [old for old in self.old_snapshots if old.id in changed]

    @property
    def already_replaced(self) -> int:
        """How many snapshots of an older version were recorded again before this run, and are not pending."""
        return len(self.old_snapshots) - len(self.pending_old) - len(self.remaining_old)

    @property
    def has_no_call(self) -> bool:
        """Whether the command made no model call that was seen."""
        return not (self.live or self.adopted or self.unmatched or self.snapshots.player.played_count)

    @property
    def deviations(self) -> list[UnmatchedRequest]:
        """Calls that are approved, and for whose answer the application waited or read on as it did not before."""
        return [request for request in self.snapshots.player.unmatched if request.needs_fresh]

    @property
    def lost(self) -> int:
        """Calls that a process began and did not report to their end."""
        return self.run.lost + self.run.unfinished if self.run is not None else 0


def run_record(
    loaded: LoadedConfig,
    command: Sequence[str],
    *,
    fresh: bool = False,
    replace_old: bool = False,
    runs: int = 1,
    notify: Callable[[str], object],
    progress: ProgressReporter = no_progress,
) -> RecordRun:
    """Run a command: replay approved calls, record the others, and file new or changed ones as pending.

    With several `runs`, the command is repeated, and the answers of its live calls are compared. The calls of the
    first run are filed.

    A live call may refer to something the provider stores (`previous_response_id`) that was only replayed, which the
    provider does not know. Then `notify` is called, and the command is run again with those tests fully live.

    `replace_old`: calls of snapshots of an older version are recorded again, and get their ids.
    """
    scope = redacted_scope(loaded, command)
    open_tree = partial(open_snapshots, loaded, scope=scope, is_recording=True, replace_old=replace_old)
    snapshots = open_tree(fresh=fresh, progress=progress)
    has_new_key = snapshots.has_new_key
    if snapshots.tree_report.findings:
        return RecordRun(snapshots)
    old_snapshots = list_old_snapshots(os.path.join(loaded.project, SNAPSHOTS_DIR), snapshots.old_files)
    live_run = _run_live(snapshots, command)
    broken_scopes = _find_broken_references(live_run.candidates, snapshots)
    if broken_scopes:
        notify(_describe_rerun(broken_scopes))
        snapshots = open_tree()
        live_run = _run_live(snapshots, command, broken_scopes)
    repeats = [_run_live(open_tree(fresh=fresh), command, broken_scopes) for _ in range(runs - 1)]
    record_run = _file_live_run(snapshots, live_run, repeats, old_snapshots)
    record_run.has_new_key = has_new_key
    return record_run


def _describe_rerun(broken_scopes: Collection[str]) -> str:
    all_tests = all(map(is_test_scope, broken_scopes))
    tests = f"{len(broken_scopes)} test{'s' if len(broken_scopes) > 1 else ''}" if all_tests else "the command"
    return f"{tests} referred to a replayed answer that the provider does not know: running again, all live"


def _file_live_run(
    snapshots: ProjectSnapshots, first: _LiveRun, repeats: Sequence[_LiveRun], old_snapshots: Sequence[OldSnapshot]
) -> RecordRun:
    """File the calls of the first run; those whose answers varied in `repeats` are filed as refused."""
    recorded_scopes = _describe_run(snapshots, first.run)
    variances = measure_variance([run.candidates for run in (first, *repeats)]) if repeats else []
    candidates = list(refuse_varying_calls(first.candidates, variances))
    proposal = file_changes(snapshots, candidates, recorded_scopes, old_snapshots)
    models, scopes = snapshots.loaded.config.models, recorded_scopes.outcomes.keys()
    return RecordRun(
        snapshots,
        first.run,
        proposal.changes,
        live=len(first.candidates),
        unchanged=proposal.unchanged,
        unread=first.unread,
        proposals=list_proposals(proposal.changes, snapshots.approved_calls, models, scopes),
        old_snapshots=old_snapshots,
        variances=variances,
        run_count=1 + len(repeats),
        failed_repeats=sum(run.run.exit_code != 0 for run in repeats),
    )


def adopt_answers(
    loaded: LoadedConfig, command: Sequence[str], *, progress: ProgressReporter = no_progress
) -> RecordRun:
    """Run a command without a network. A call that no snapshot answers gets the recorded answer of an imported call
    of its test, and is filed as pending: the request as it was sent, the answer labelled as adopted.

    Raises:
        NotFound: no approved snapshot was imported.
    """
    snapshots = open_snapshots(loaded, scope=redacted_scope(loaded, command), is_recording=True, progress=progress)
    if snapshots.tree_report.findings:
        return RecordRun(snapshots)
    adopter = snapshots.player.adopter = AnswerAdopter(snapshots)
    if not adopter.has_sources:
        raise NotFound("no approved snapshot was imported, so there is no answer to adopt", hint=_IMPORT_HINT)
    replay = ReplayResponder(snapshots.player)
    environ = find_recorded_variables(snapshots.approved_calls).restore(os.environ, loaded.config.upstreams)
    run = run_command(command, loaded, NullRecorder(), environ, with_proxy=True, replay=replay, offline=True)
    key_names, base_urls = set_key_variables(environ), read_base_urls(environ)
    candidates = _add_variables(snapshots, adopter.list_candidates(), key_names, base_urls)
    recorded_scopes = _describe_run(snapshots, run)
    proposal = file_changes(snapshots, candidates, recorded_scopes)
    return RecordRun(
        snapshots,
        run,
        proposal.changes,
        unchanged=proposal.unchanged,
        has_new_key=snapshots.has_new_key,
        is_offline=True,
        adopted=len(candidates),
        unmatched=snapshots.player.unmatched,
    )


def _describe_run(snapshots: ProjectSnapshots, run: CommandRun) -> RecordedScopes:
    player = snapshots.player
    suite = run.suite.rename_scopes(player.name_scope)
    shared = {**dict.fromkeys(suite.scope_starts, PASSED), **dict.fromkeys(suite.broken_scopes, FAILED)}
    workers = player.worker_uses.values()
    use_counts = merge_worker_counts(worker.counts for worker in workers)
    return RecordedScopes(
        use_counts,
        use_counts - merge_worker_counts(worker.earlier_counts for worker in workers),
        {**suite.tests, **shared, player.default_scope: FAILED if run.exit_code else PASSED},
        list_gone_cases(snapshots, suite.collected, is_selection=suite.is_selection),
        suite.scope_starts,
        max(1, len(suite.workers)),
    )


class _LiveRun(NamedTuple):
    run: CommandRun
    candidates: list[Candidate]
    unread: int


def _run_live(
    snapshots: ProjectSnapshots, command: Sequence[str], fresh_scopes: frozenset[str] = frozenset()
) -> _LiveRun:
    """Run the command with its unapproved calls live, and all calls of `fresh_scopes`."""
    loaded = snapshots.loaded
    snapshots.player.fresh_scopes = fresh_scopes
    recorder = IdCollectingRecorder(ThreadRecorder(RecorderSettings.from_project(loaded)))
    replay = ReplayResponder(snapshots.player, allow_upstream=True)
    run = run_command(command, loaded, recorder, with_proxy=True, replay=replay)
    key_names, base_urls = set_key_variables(os.environ), read_base_urls(os.environ)
    candidates, unread = read_candidates(snapshots, recorder.ids, key_names, base_urls, run.suite.call_workers)
    return _LiveRun(run, candidates, unread)


def _find_broken_references(candidates: Iterable[Candidate], snapshots: ProjectSnapshots) -> frozenset[str]:
    """The scopes in which a live call refers to stored state, after a call that was answered from a snapshot."""
    calls = {call.id: call for call in snapshots.approved_calls}
    replayed: dict[str, list[ApprovedCall]] = {}
    for scope, name in snapshots.player.use_counts:
        replayed.setdefault(scope, []).extend([calls[name]] if name in calls else [])
    return frozenset(
        candidate.scope
        for candidate in candidates
        if candidate.scope in replayed
        and (candidate.has_state_reference or _names_replayed_id(candidate, replayed[candidate.scope]))
    )


def _names_replayed_id(candidate: Candidate, replayed: Iterable[ApprovedCall]) -> bool:
    """Whether an answer that was only replayed has told the application an id that a live request names."""
    ids = [text.encode("utf-8", "replace") for text in candidate.state_ids]
    raw_responses = [call.raw_response for call in replayed if call.raw_response is not None] if ids else []
    for raw in raw_responses:
        headers = "\n".join(value for _, value in raw.response_headers).encode("utf-8", "replace")
        answer = b"".join(chunk.data for chunk in raw.chunks)
        if any(text in answer or text in headers for text in ids):
            return True
    return False


class RecordedScopes(NamedTuple):
    """What a run that records tells about its scopes."""

    use_counts: Mapping[tuple[str, str], int]  # by scope and snapshot id
    last_use_counts: Mapping[tuple[str, str], int]  # without earlier attempts of tests that were run again
    outcomes: Mapping[str, str]  # how each scope ended
    gone_cases: Collection[str] = ()
    scope_starts: Mapping[str, int] = {}
    workers: int = 1


def file_changes(
    snapshots: ProjectSnapshots,
    candidates: Sequence[Candidate],
    recorded: RecordedScopes,
    old_snapshots: Sequence[OldSnapshot] = (),
) -> Proposal:
    """Save the new or changed calls of a run as pending changes, in place of earlier ones of the same scopes.

    A new call gets the id of the one of `old_snapshots` that asked the same.
    """
    loaded = snapshots.loaded
    use_counts = recorded.use_counts
    ran = {scope for scope, _ in use_counts} | {candidate.scope for candidate in candidates} | {*recorded.outcomes}
    run_scopes = make_run_scopes(loaded, ran, recorded.gone_cases)
    counted_run = CountedRun(
        recorded.last_use_counts,
        recorded.outcomes,
        run_scopes,
        loaded.config,
        (),
        recorded.scope_starts,
        recorded.workers,
    )
    proposal = propose_changes(
        candidates, snapshots.approved_calls, snapshots.keys, use_counts, run_scopes, counted_run,
        keeps_answers=snapshots.player.has_recordings,
    )  # fmt: skip
    if old_snapshots:
        taken_ids = {call.id for call in snapshots.approved_calls}
        proposal = proposal._replace(changes=give_old_ids(proposal.changes, old_snapshots, taken_ids))
    replaced = [change.id for change in load_pending(loaded.project) if {turn.scope for turn in change.turns} & ran]
    save_pending(loaded.project, proposal.changes, [*replaced, *proposal.settled_ids])
    return proposal


def read_candidates(
    snapshots: ProjectSnapshots,
    trace_ids: Sequence[str],
    key_names: Iterable[str],
    base_urls: Mapping[str, str],
    workers: Mapping[str, str] | None = None,
) -> tuple[list[Candidate], int]:
    """The live calls of a run, and how many of its traces cannot be read.

    `key_names` are the API key variables that were set during the run, and `base_urls` the base-URL variables;
    `workers`, see `find_candidates`.
    """
    traces, unread = read_traces(snapshots.loaded, trace_ids)
    policy, scope = ModelPolicy.from_config(snapshots.loaded.config), snapshots.player.default_scope
    needs_match_key = snapshots.loaded.config.match.redacted != "count"
    candidates = find_candidates(traces, snapshots.keys, policy, scope, workers, needs_match_key=needs_match_key)
    return _add_variables(snapshots, candidates, key_names, base_urls), unread


def _add_variables(
    snapshots: ProjectSnapshots,
    candidates: Iterable[Candidate],
    key_names: Iterable[str],
    base_urls: Mapping[str, str],
) -> list[Candidate]:
    """The calls, with the variables that were set during the run."""
    names = tuple(sorted(key_names))
    redactor = Redactor.from_config(snapshots.loaded.config)
    urls: JSONObject = {name: redactor.redact_url(url).value for name, url in sorted(base_urls.items())}
    return [
        replace(candidate, raw_response=candidate.raw_response._replace(key_names=names, base_urls=urls))
        for candidate in candidates
    ]


def read_traces(loaded: LoadedConfig, trace_ids: Sequence[str]) -> tuple[list[tuple[JSONObject, bytes]], int]:
    """Traces with their chunks, in the order in which the calls began; and how many are missing."""
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    traces: list[tuple[JSONObject, bytes]] = []
    missing = 0
    try:
        store.update_index()
        for trace_id in trace_ids:
            try:
                stored = store.read_stored(store.load_row(trace_id))
            except NotFound:
                missing += 1
                continue
            traces.append((read_any_version(stored.trace)[0].body, stored.chunks))
    finally:
        store.close()
    return sorted(traces, key=_start_order), missing


def _start_order(trace: tuple[JSONObject, bytes]) -> tuple[str, int]:
    step = trace[0].get("step_index")
    return str(trace[0]["timestamp"]), step if isinstance(step, int) else 0
