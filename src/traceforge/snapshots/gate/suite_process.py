"""One process of a pytest suite: replays the calls of its tests, and judges each test's requests.

In: the calls of this process, which the hooks report. Out: the findings of a test, and at the end what this process
observed, for `gate_judgement` to judge with that of the others. Never: knows pytest, or judges the whole suite.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from traceforge.capture.hook.pytest_scopes import current_worker, is_fixture_scope
from traceforge.capture.inprocess import open_recorder
from traceforge.capture.network_guard import NetworkGuard
from traceforge.capture.null_recorder import NullRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.replaying_capture import ReplayingCapture
from traceforge.capture.run.environment import (
    ReplacedEnvironment,
    read_base_urls,
    set_key_variables,
)
from traceforge.capture.run.local_programs import list_unknown_programs, make_allow_hint
from traceforge.capture.run.network_access import model_ports
from traceforge.capture.run.suite_children import ChildrenReport, SuiteChildren
from traceforge.capture.run.suite_events import SuiteEvents
from traceforge.config import LoadedConfig
from traceforge.snapshots.gate.gate_findings import GateFinding
from traceforge.snapshots.gate.gate_judgement import RunObservations, judge_requests, observe_replay
from traceforge.snapshots.tree.project_snapshots import find_recorded_variables, list_gone_cases, open_snapshots

if TYPE_CHECKING:
    from traceforge.replay.unmatched import UnmatchedRequest

RECORD, TEST, OFF = "record", "test", "off"
UNSEEN_CHILD_HINT = "Start it without -I, -E and -S."


class SuiteProcess:
    """One process of a suite; `mode` is RECORD or TEST. Tests are recorded without `scope_prefix`: in a monorepo, the
    suite of one project may be run from the project's own folder, or from one above it.
    """

    def __init__(self, loaded: LoadedConfig, mode: str, scope_prefix: str = "") -> None:
        self.mode = mode
        self.snapshots = open_snapshots(loaded, is_recording=mode == RECORD)
        self.name_scope = self.snapshots.player.name_scope
        self.snapshots.player.scope_prefix = scope_prefix
        self._off_scopes: set[str] = set()
        environment: Mapping[str, str] = {**os.environ}
        if mode == TEST:
            recorded = find_recorded_variables(self.snapshots.approved_calls)
            environment = recorded.restore(os.environ, loaded.config.upstreams)
        blocked_ports = model_ports(loaded, environment)
        self._guard = NetworkGuard(blocked_ports, self._off_scopes.__contains__)
        recorder = open_recorder(loaded) if mode == RECORD else NullRecorder()
        replay = ReplayResponder(self.snapshots.player, allow_upstream=mode == RECORD)
        session = f"suite-{uuid4()}"
        self._capture = ReplayingCapture(
            loaded, replay, recorder, session_id=session, excluded_scopes=self._off_scopes
        )
        self._children = SuiteChildren(
            loaded,
            self._capture.engine,
            replay,
            f"*|{','.join(map(str, sorted(blocked_ports)))}" if mode == TEST else "",
            is_off=self._off_scopes.__contains__,
            leave=self._leave_in_fork,
        )
        self._variables = ReplacedEnvironment(os.environ, environment)
        self._key_names = {*set_key_variables(os.environ)}
        self._base_urls = read_base_urls(os.environ)
        self._seen_misses = 0
        self._replayed_before: dict[str, int] = {}  # by test: calls that were answered in its earlier runs
        self._unreported: list[UnmatchedRequest] = []
        self._suite = SuiteEvents()

    def start(self) -> None:
        """Answer calls from now on; in TEST mode without real keys and without a network."""
        if self.mode == TEST:
            self._guard.start()  # Before the capture: its hooks ask whether there is a guard.
        self._capture.start(process_wide=True)
        self._children.start()
        self._variables.install()

    def suspend(self) -> None:
        """Leave the process alone, until `start` is called again: tests of another project run."""
        self._children.suspend()
        self._capture.leave()
        self._guard.stop()
        self._variables.remove()

    def stop(self, *, keeps_answering: bool = False) -> RunObservations:
        """Leave the process as it was. What no test's report has shown is in the observations.

        With `keeps_answering`, model calls are still answered or refused, until `release` is called.
        """
        children = self._children.report() if keeps_answering else self._children.stop()
        if not keeps_answering:
            self._capture.stop()
        self._guard.stop()
        self._key_names.update(set_key_variables(os.environ))  # The suite may have loaded variables from a file.
        self._base_urls.update(read_base_urls(os.environ))
        self._variables.remove()
        self._collect_misses()
        refused_scopes = {scope for scope, _, _ in self._guard.refused}
        observations = observe_replay(self.snapshots)
        observations.unreported_misses = [request.message for request in self._unreported]
        observations.unreported_refusals = [
            (connection.address, connection.why, times)
            for scope in sorted(refused_scopes)
            for connection, times in self._guard.take_refusals(scope).items()
        ]
        observations.unreported_refusals += [
            (address, why, times) for (address, why), times in children.refused.items()
        ]
        observations.unseen = self._describe_unseen(children)
        observations.trace_ids = list(self._capture.ids)
        observations.key_names = sorted(self._key_names)
        observations.base_urls = self._base_urls
        observations.ungated_calls = self._capture.excluded_calls
        observations.library_answers = [
            (library, self.name_scope(scope), times)
            for (library, scope), times in self._capture.library_answers.items()
        ]
        observations.scope_starts = dict(self._suite.scope_starts)
        observations.broken_scopes = sorted(self._suite.broken_scopes)
        observations.gone_cases = list_gone_cases(
            self.snapshots, self._suite.collected, is_selection=self._suite.is_selection
        )
        if worker := current_worker():
            observations.trace_workers = dict.fromkeys(observations.trace_ids, worker)
        return observations

    def add_scope_event(self, scope: str, event: str) -> None:
        """A scope that tests share was opened, or failed."""
        self._suite.add_event(self.name_scope(scope), event)

    def add_collection(self, tests: Sequence[str], *, is_selection: bool) -> None:
        """The tests of this process were collected; `is_selection`: not all of them run."""
        self._suite.add_collection(list(map(self.name_scope, tests)), is_selection)

    def answer_late_calls(self) -> None:
        """Answer or refuse model calls again, after the process was stopped, until `release` is called."""
        self._capture.start(process_wide=True)

    def take_late_misses(self) -> list[str]:
        """The messages of unapproved requests since the process was stopped, or since this was called last."""
        seen_before = len(self._unreported)
        self._collect_misses()
        return [request.message for request in self._unreported[seen_before:]]

    def release(self) -> None:
        """Stop the capture and the children: model calls are neither answered nor refused from now on."""
        self._children.stop()
        self._capture.stop()

    def describe_survivors(self) -> str:
        """A sentence about child processes that still run; "" where there are none."""
        survivors = len(self._children.list_survivors())
        return f"{survivors} Python processes that tests started outlived them" if survivors else ""

    def begin_test(self, scope: str, *, is_off: bool) -> None:
        """Start a test, perhaps again: it gets the same responses again. With `is_off`, it gets the real API keys."""
        self.snapshots.player.restart_scope(self.name_scope(scope), current_worker())
        self._replayed_before[scope] = self._count_uses(scope) if scope in self._replayed_before else 0
        if is_off:
            self._off_scopes.add(scope)
            self._variables.remove()
        else:
            self._off_scopes.discard(scope)
            self._variables.install()

    def judge_test(self, scope: str) -> list[GateFinding]:
        """The findings of a test since this was called last. Those of other tests stay for their own report."""
        self._collect_misses()
        refused = self._guard.take_refusals(scope)
        if not self._unreported and not refused:
            return []
        name = self.name_scope(scope)
        mine = [request for request in self._unreported if _belongs_to(request, name)]
        self._unreported = [request for request in self._unreported if not _belongs_to(request, name)]
        return judge_requests(self.snapshots, mine, refused, scope)

    def count_replayed(self, scope: str) -> int:
        """How many calls of a test were answered from snapshots since it was started, or started again."""
        return self._count_uses(scope) - self._replayed_before.get(scope, 0)

    def _count_uses(self, scope: str) -> int:
        use_counts, name = self.snapshots.player.use_counts, self.name_scope(scope)
        return sum(times for (used_scope, _), times in use_counts.items() if used_scope == name)

    def _leave_in_fork(self) -> None:
        self._capture.leave()
        self._guard.stop()

    def _describe_unseen(self, children: ChildrenReport) -> list[tuple[str, str]]:
        """What could not be watched in child processes, and what to do about it."""
        unseen = [(description, UNSEEN_CHILD_HINT) for description in children.unseen]
        allowed = self.snapshots.loaded.config.test.allow_programs
        if unknown := list_unknown_programs(children.programs, allowed):
            message = f"could not see into programs that tests started: {', '.join(unknown)}"
            unseen.append((message, make_allow_hint(unknown)))
        return unseen

    def _collect_misses(self) -> None:
        new = self.snapshots.player.unmatched[self._seen_misses :]
        self._seen_misses += len(new)
        self._unreported += new


def _belongs_to(request: UnmatchedRequest, test: str) -> bool:
    """Whether a test reports a request: its own, or that of a fixture which was set up for it first."""
    scope = request.caller.scope
    return scope == test or is_fixture_scope(scope)
