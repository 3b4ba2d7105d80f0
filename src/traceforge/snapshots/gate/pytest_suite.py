"""A test suite against what was approved, seen from inside: what the pytest plugin does, without pytest.

In: the calls of one process of the suite, told by the hooks, and at the end what each process found. Out: findings of
a test, findings of the whole suite, or pending changes. Never: judges from one process of several what only all of
them know, such as a snapshot that nobody asked for.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec import Struct, field, to_builtins

from traceforge.capture.dummy_keys import DummyKeys
from traceforge.capture.inprocess import open_recorder
from traceforge.capture.network_guard import NetworkGuard
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.replaying_capture import ReplayingCapture
from traceforge.capture.run.environment import set_key_variables
from traceforge.capture.run.network_access import RefusedConnection, model_ports
from traceforge.config import LoadedConfig
from traceforge.conversion import convert
from traceforge.snapshots.gate.gate_findings import (
    GateFinding,
    find_refused_connections,
    find_unapproved_requests,
    find_unused,
)
from traceforge.snapshots.gate.null_recorder import NullRecorder
from traceforge.snapshots.tree.project_snapshots import (
    ProjectSnapshots,
    list_key_names,
    make_run_scopes,
    open_snapshots,
)

if TYPE_CHECKING:
    from traceforge.snapshots.record.proposal import Proposal

RECORD, TEST, OFF = "record", "test", "off"
MODES = (RECORD, TEST, OFF)


class SuiteReport(Struct):
    """What one process of a suite has to tell; it can be sent to another as plain values."""

    used: list[tuple[str, str, int]] = field(default_factory=list)  # scope, snapshot, how often
    missed: list[str] = field(default_factory=list)  # scopes
    elsewhere: list[str] = field(default_factory=list)  # misses outside of tests
    refused: list[tuple[str, str, int]] = field(default_factory=list)  # places outside of tests, why, how often
    traces: list[str] = field(default_factory=list)  # ids of what was recorded
    keys: list[str] = field(default_factory=list)  # names of the key variables that were set
    left_alone: int = 0  # calls of tests that are marked as off
    request_gated: int = 0
    uncompared: int = 0
    synthesised: int = 0
    volatile: dict[str, int] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """For another process."""
        return to_builtins(self)  # type: ignore[no-any-return]

    @classmethod
    def from_plain(cls, value: object) -> SuiteReport:
        """What `to_plain` gave."""
        return convert(value, SuiteReport)

    @property
    def played(self) -> int:
        """Calls that were answered."""
        return sum(times for _, _, times in self.used)


class Suite:
    """One process of a suite. `loaded` is the project, `mode` one of MODES except `off`."""

    def __init__(self, loaded: LoadedConfig, mode: str) -> None:
        self.loaded = loaded
        self.mode = mode
        self.gate: ProjectSnapshots = open_snapshots(loaded)
        self._off: set[str] = set()  # scopes
        self._guard = NetworkGuard(model_ports(loaded, os.environ), self._off.__contains__)
        sink = open_recorder(loaded) if mode == RECORD else NullRecorder()
        replay = ReplayResponder(self.gate.player, relays_unmatched=mode == RECORD)
        self._watching = ReplayingCapture(
            loaded, replay, sink, session_id=f"suite-{uuid4()}", excluded_scopes=self._off
        )
        self._dummies = DummyKeys(os.environ, list_key_names(self.gate.approved_calls) if mode == TEST else ())
        self._keys = {*set_key_variables(os.environ)}
        self._judged = 0

    def start(self) -> None:
        """From now on calls are answered; where there is no other answer, there are no real keys and no network."""
        if self.mode == TEST:
            self._guard.start()  # first: hooks ask whether there is one
        self._watching.start(process_wide=True)
        self._dummies.install()

    def stop(self) -> SuiteReport:
        """No longer; what was found."""
        self._watching.stop()
        self._guard.stop()
        self._keys.update(set_key_variables(os.environ))  # The suite may have read a file in which they stand.
        self._dummies.remove()
        player = self.gate.player
        gated = {one.id for one in self.gate.approved_calls if one.gate == "request"}
        return SuiteReport(
            [(scope, name, times) for (scope, name), times in player.use_counts.items()],
            sorted({miss.caller.scope for miss in player.unmatched}),
            [miss.message for miss in player.unmatched if not miss.caller.scope],
            [(one.address, one.why, times) for one, times in self._guard.take_refusals("").items()],
            list(self._watching.ids),
            sorted(self._keys),
            self._watching.excluded_calls,
            sum(times for (_, name), times in player.use_counts.items() if name in gated),
            player.uncompared_calls,
            player.synthesised_count,
            dict(player.volatile_counts),
        )

    def begin(self, scope: str, mode: str = "") -> None:
        """A test begins, perhaps again: its requests are counted anew. `mode` is what its marker says: one that is
        off has the keys that there are.
        """
        self.gate.player.restart_scope(scope)
        if mode == OFF:
            self._off.add(scope)
            self._dummies.remove()
        else:
            self._off.discard(scope)
            self._dummies.install()

    def findings(self, scope: str) -> list[GateFinding]:
        """What a test asked and nobody approved, and where it could not connect, since the last time."""
        player = self.gate.player
        fresh, self._judged = player.unmatched[self._judged :], len(player.unmatched)
        refused = self._guard.take_refusals(scope)
        if not fresh and not refused:
            return []
        mine = [miss for miss in fresh if miss.caller.scope == scope]
        config = self.loaded.config
        shown = find_unapproved_requests(mine, self.gate.approved_calls, player.use_counts, config.models)
        return shown + find_refused_connections(refused, config.test.ignore_hosts, scope)

    def calls(self, scope: str) -> int:
        """How many calls of a test were answered."""
        return sum(times for (place, _), times in self.gate.player.use_counts.items() if place == scope)


def merge_reports(found: Iterable[SuiteReport]) -> SuiteReport:
    """What all processes of a suite found."""
    together = SuiteReport()
    used: Counter[tuple[str, str]] = Counter()
    volatile: Counter[str] = Counter()
    for one in found:
        for scope, name, times in one.used:
            used[scope, name] += times
        volatile.update(one.volatile)
        together.missed += one.missed
        together.elsewhere += one.elsewhere
        together.refused += one.refused
        together.traces += one.traces
        together.keys += one.keys
        together.left_alone += one.left_alone
        together.request_gated += one.request_gated
        together.uncompared += one.uncompared
        together.synthesised += one.synthesised
    together.keys = sorted({*together.keys})
    together.used = [(scope, name, times) for (scope, name), times in used.items()]
    together.volatile = dict(volatile)
    return together


def judge_outside(gate: ProjectSnapshots, found: SuiteReport) -> list[GateFinding]:
    """Where the suite wanted to connect outside of its tests."""
    refused: Counter[RefusedConnection] = Counter()
    for place, why, times in found.refused:
        refused[RefusedConnection(place, why)] += times
    return find_refused_connections(refused, gate.loaded.config.test.ignore_hosts, "(outside of the tests)")


def judge_suite(gate: ProjectSnapshots, found: SuiteReport, tests: Mapping[str, str]) -> list[GateFinding]:
    """Snapshots that no test asked for, of tests that ran and passed."""
    used = {(scope, name): times for scope, name, times in found.used}
    scopes = make_run_scopes(gate.loaded, {*tests})
    outside = 1  # What was asked outside of tests belongs to a command, and this is none.
    return list(find_unused(gate.approved_calls, used, set(found.missed), tests, outside, scopes))


def record_suite(gate: ProjectSnapshots, found: SuiteReport, tests: Mapping[str, str]) -> tuple[Proposal, int]:
    """File what the suite asked live and nobody approved; and how many calls of it could not be read."""
    from traceforge.snapshots.gate.command_runs import file_changes, read_candidates

    candidates, unread = read_candidates(gate, found.traces, found.keys)
    used = {(scope, name): times for scope, name, times in found.used}
    return file_changes(gate, candidates, used, {*tests}), unread
