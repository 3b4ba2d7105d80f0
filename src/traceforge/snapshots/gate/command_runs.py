"""Runs of a command against what was approved: `record` and `test`.

In: a project and a command. Out: what the command asked, answered from snapshots or live, and what follows from it.
Never: answers from a tree that does not verify, or reaches a provider in `test`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from traceforge.canon import JSONObject
from traceforge.capture.recorder import IdCollectingRecorder, ThreadRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.environment import set_key_variables, with_dummy_keys
from traceforge.capture.trace_writer import RecorderSettings
from traceforge.config import LoadedConfig
from traceforge.errors import NotFound
from traceforge.findings import IO, Finding
from traceforge.replay.player import Player
from traceforge.snapshots.gate.gate_findings import (
    GateFinding,
    find_refused_connections,
    find_unapproved_requests,
    find_unused,
)
from traceforge.snapshots.gate.null_recorder import NullRecorder
from traceforge.snapshots.record.candidates import Candidate, find_candidates
from traceforge.snapshots.record.pending_changes import PendingChange, load_pending, save_pending
from traceforge.snapshots.record.proposal import Proposal, propose_changes
from traceforge.snapshots.tree.project_snapshots import (
    ProjectSnapshots,
    list_key_names,
    make_run_scopes,
    open_snapshots,
)
from traceforge.snapshots.tree.run_scopes import is_test_scope

if TYPE_CHECKING:
    from traceforge.capture.run.command_runner import (
        CommandRun,  # It brings servers with it, and a suite in pytest needs none.
    )

LOST_PYTHON = "a Python started with"
_SEAL_HINT = "Run it on Linux 6.7 or later, or set test.seal to auto."
NOT_SEEN_HARMLESS = "gRPC, which is loaded"  # Many libraries load it and never use it.


@dataclass
class RecordRun:
    """What `record` did."""

    run: CommandRun
    gate: ProjectSnapshots
    changes: list[PendingChange] = field(default_factory=list)  # of this run
    live: int = 0  # calls that went to a provider and were understood
    unchanged: int = 0
    unread: int = 0  # calls that were seen, and whose traces cannot be read


def run_record(
    loaded: LoadedConfig, words: Sequence[str], *, fresh: bool = False, say: Callable[[str], object] = lambda _: None
) -> RecordRun | ProjectSnapshots:
    """Run a command, answer what is approved, record the rest, and file what is new or changed as pending.

    A test that continues live what was answered from a snapshot asked for something that the provider does not have:
    the command is then run again, with such tests live as a whole; `say` is told so.

    Returns the gate alone where the tree does not verify: nothing was run.
    """
    gate = open_snapshots(loaded, fresh=fresh, words=words)
    if gate.findings:
        return gate
    seen = _run_live(gate, words)
    broken = _continued(seen.candidates, gate.player)
    if broken:
        named = all(map(is_test_scope, broken))
        tests = f"{len(broken)} test{'s' if len(broken) > 1 else ''}" if named else "the command"
        say(f"{tests} went on live from a replayed answer that the provider does not know: running again, all live")
        gate = open_snapshots(loaded, words=words)
        gate.player.fresh_scopes = broken
        seen = _run_live(gate, words)
    proposal = file_changes(gate, seen.candidates, gate.player.use_counts, seen.run.tests)
    return RecordRun(seen.run, gate, proposal.changes, len(seen.candidates), proposal.unchanged, seen.unread)


def file_changes(
    gate: ProjectSnapshots,
    candidates: Sequence[Candidate],
    used: Mapping[tuple[str, str], int],
    tests: Collection[str],
) -> Proposal:
    """File what a run asked and nobody approved; what was pending in the same scopes goes."""
    loaded = gate.loaded
    ran = {scope for scope, _ in used} | {one.scope for one in candidates} | {*tests}
    proposal = propose_changes(candidates, gate.approved_calls, gate.keys, used, make_run_scopes(loaded, ran))
    older = [change.id for change in load_pending(loaded.project) if {turn.scope for turn in change.turns} & ran]
    save_pending(loaded.project, proposal.changes, [*older, *proposal.settled_ids])
    return proposal


class _Seen(NamedTuple):
    """What a run asked live."""

    run: CommandRun
    candidates: list[Candidate]
    unread: int


def _run_live(gate: ProjectSnapshots, words: Sequence[str]) -> _Seen:
    from traceforge.capture.run.command_runner import run_command

    loaded = gate.loaded
    sink = IdCollectingRecorder(ThreadRecorder(RecorderSettings.from_project(loaded)))
    run = run_command(
        words, loaded, sink, with_proxy=True, replay=ReplayResponder(gate.player, relays_unmatched=True)
    )
    candidates, unread = read_candidates(gate, sink.ids, set_key_variables(os.environ))
    return _Seen(run, candidates, unread)


def _continued(candidates: Iterable[Candidate], player: Player) -> frozenset[str]:
    """Scopes in which a live call refers to what the provider keeps, after one that was answered from a snapshot."""
    played = {scope for scope, _ in player.use_counts}
    return frozenset(one.scope for one in candidates if one.has_state_reference and one.scope in played)


def read_candidates(gate: ProjectSnapshots, ids: Sequence[str], keys: Iterable[str]) -> tuple[list[Candidate], int]:
    """What a run asked live, and how many of its calls cannot be read. `keys` are the names of the key variables that
    were set meanwhile.
    """
    traces, unread = read_traces(gate.loaded, ids)
    found = find_candidates(traces, gate.keys, gate.loaded.config.models, gate.player.default_scope)
    names = tuple(sorted(keys))
    return [replace(one, raw_response=one.raw_response._replace(key_names=names)) for one in found], unread


def read_traces(loaded: LoadedConfig, ids: Sequence[str]) -> tuple[list[tuple[JSONObject, bytes]], int]:
    """The traces of a run, in the order in which they began; and how many are not there."""
    from traceforge.traces.index_update import (
        read_any_version,  # They bring a database, which a replay does not need.
    )
    from traceforge.traces.trace_store import TraceStore

    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    found: list[tuple[JSONObject, bytes]] = []
    missing = 0
    try:
        store.update_index()
        for name in ids:
            try:
                kept = store.read_stored(store.load_row(name))
            except NotFound:
                missing += 1
                continue
            found.append((read_any_version(kept.trace)[0].body, kept.chunks))
    finally:
        store.close()
    return sorted(found, key=_began), missing


def _began(kept: tuple[JSONObject, bytes]) -> tuple[str, int]:
    step = kept[0].get("step_index")
    return str(kept[0]["timestamp"]), step if isinstance(step, int) else 0


@dataclass
class TestRun:
    """What `test` found."""

    __test__ = False  # for pytest, which takes the name for one of its own

    gate: ProjectSnapshots
    run: CommandRun | None
    findings: list[GateFinding]
    unchecked: list[Finding] = field(default_factory=list)

    @property
    def replayed(self) -> int:
        """Calls that were answered."""
        return self.gate.player.played_count

    @property
    def request_gated(self) -> Counter[str]:
        """Calls of which only the request is gated, by what answered them."""
        request = {one.id for one in self.gate.approved_calls if one.gate == "request"}
        return Counter({name: times for (_, name), times in self.gate.player.use_counts.items() if name in request})


def run_test(loaded: LoadedConfig, words: Sequence[str], *, allow_unused: bool = False) -> TestRun:
    """Run a command in strict replay: nothing reaches a provider, and what was not approved is found."""
    from traceforge.capture.run.command_runner import run_command

    gate = open_snapshots(loaded, words=words)
    if gate.findings:
        return TestRun(gate, None, [GateFinding(finding) for finding in gate.findings])
    names = list_key_names(gate.approved_calls)
    environ = with_dummy_keys(os.environ, names) if names else os.environ
    run = run_command(
        words, loaded, NullRecorder(), environ, with_proxy=True, replay=ReplayResponder(gate.player), offline=True
    )
    player = gate.player
    shown = find_unapproved_requests(player.unmatched, gate.approved_calls, player.use_counts, loaded.config.models)
    if run.offline_report is not None:
        shown += find_refused_connections(run.offline_report.refused, loaded.config.test.ignore_hosts)
    if not allow_unused:
        missed = {miss.caller.scope for miss in player.unmatched}
        scopes = make_run_scopes(loaded, {*run.tests, player.default_scope})
        shown += find_unused(gate.approved_calls, player.use_counts, missed, run.tests, run.exit_code, scopes)
    return TestRun(gate, run, shown, list(_unchecked(loaded, run, player)))


def _unchecked(loaded: LoadedConfig, run: CommandRun, player: Player) -> list[Finding]:
    """What nobody can vouch for."""
    lost = run.offline_report is not None and run.offline_report.uninstrumented  # they are named one by one
    found = [
        Finding("(the command)", "", IO, f"could not see into {what}", "Let it use HTTP, or do not run it in a test.")
        for what in run.not_seen
        if what != NOT_SEEN_HARMLESS and not (lost and what.startswith(LOST_PYTHON))
    ]
    found += [Finding("(the command)", "", IO, what) for what in run.problems]
    found += _unguarded(loaded, run)
    if not player.played_count and not player.unmatched:
        hint = "Is this the command that was recorded? traceforge status says what there is."
        found.append(Finding("(the command)", "", IO, "no call was replayed at all", hint))
    if player.uncompared_calls and loaded.config.match.redacted == "require":
        message = f"redacted parts of {player.uncompared_calls} calls could not be compared"
        hint = "Set TRACEFORGE_MATCH_KEY to the key under which they were recorded."
        found.append(Finding("(the command)", "", IO, message, hint))
    return found


def _unguarded(loaded: LoadedConfig, run: CommandRun) -> Iterator[Finding]:
    """Pythons that were not entered, and a seal that was demanded and could not be had."""
    if run.offline_report is None:
        return
    strength = run.offline_report.strength
    beyond = "; it was sealed, and its calls were not seen" if strength.is_sealed else "; it was unguarded"
    for words, times in run.offline_report.uninstrumented.items():
        told = f"a Python was never entered: {words}{f' ({times} times)' if times > 1 else ''}{beyond}"
        yield Finding(
            "(the command)", "", IO, told, "Start it without -I, -E and -S, and with the environment it has."
        )
    if loaded.config.test.seal == "require" and not strength.is_sealed:
        yield Finding("(the command)", "", IO, f"the run was not sealed: {strength.why}", _SEAL_HINT)
