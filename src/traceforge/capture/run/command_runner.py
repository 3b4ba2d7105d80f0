"""Run a command and record the model calls of every process it starts.

In: the command, the project, a recorder; in a replay, what answers its calls. Out: the command's own exit code, and
what was recorded. Never: changes what the command does: where recording fails, the command runs on, and the summary
says so. In a replay, a call without a recording fails instead.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from traceforge.capture.engine import Engine
from traceforge.capture.hook.child_processes import isolating_flags, looks_like_python
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.cassette_observer import CassetteObserver
from traceforge.capture.run.environment import StartProxy, command_environment
from traceforge.capture.run.listener import ProcessListener
from traceforge.capture.run.offline import OfflineReport, OfflineRun
from traceforge.capture.run.privileges import hidden_memory
from traceforge.capture.run.process_reports import ProcessReports
from traceforge.capture.run.run_proxy import RunProxy
from traceforge.capture.run.spawn import Mask, blocked_signals, run_process
from traceforge.capture.run.suite_events import SuiteEvents
from traceforge.capture.run.surviving_processes import CommandDescendants
from traceforge.config import LoadedConfig
from traceforge.errors import CannotListen

if TYPE_CHECKING:
    from traceforge.capture.recorder import Recorder

DRAIN_S = 5.0  # How long the end of a run waits for reports of its processes, and how long it makes files.


@dataclass(frozen=True)
class CommandRun:
    """The result of one run."""

    exit_code: int
    session_id: str
    processes: int  # Python processes that were instrumented
    hosts: Mapping[str, int]  # calls that began
    recorded: int
    lost: int
    unfinished: int
    problems: Mapping[str, int]
    not_seen: Mapping[str, int]
    replayed: int = (
        0  # calls of Python processes that were answered from recordings, or refused because they were not recorded
    )
    suite: SuiteEvents = field(default_factory=SuiteEvents)  # of the pytest processes
    offline_report: OfflineReport | None = None  # where the run had no network
    open_suites: int = 0  # runs of pytest that began and did not end
    survivors: tuple[str, ...] = ()  # programs that outlived the command

    @property
    def tests(self) -> Mapping[str, str]:
        """By node id: "passed", "failed" or "skipped"."""
        return self.suite.tests

    @property
    def calls(self) -> int:
        """How many model calls began, finished or not."""
        return sum(self.hosts.values())


def run_command(
    words: Sequence[str],
    loaded: LoadedConfig,
    recorder: Recorder,
    environ: Mapping[str, str] | None = None,
    start_proxy: StartProxy | None = None,
    *,
    with_proxy: bool = False,
    replay: ReplayResponder | None = None,
    offline: bool = False,
    cassettes: CassetteObserver | None = None,
) -> CommandRun:
    """Run a command to its end. `with_proxy` also records programs that cannot be instrumented; with `replay`, calls
    are answered from recordings; `offline` keeps the command from the network. With `cassettes`, no call is recorded:
    what the command's own recorder plays is reported to it.

    Raises:
        CannotStart: the command does not exist, or may not be run.
        CannotListen: no address is free for the proxy that a replay needs.
    """
    session_id = f"run-{uuid4()}"
    token = secrets.token_hex(16)
    engine = Engine(recorder, session_id=session_id, source=f"{_script_name(words)}:0:")
    reports = ProcessReports(engine, token, replay, cassettes)
    run_proxy = RunProxy(engine, loaded, replay)
    start = start_proxy or (run_proxy.start if with_proxy else None)
    processes = _CommandProcesses(
        words, loaded, reports, token, plays=replay is not None, observes=cassettes is not None
    )
    with blocked_signals() as mask, hidden_memory() if offline else nullcontext():
        listener = ProcessListener(reports)
        try:
            processes.run(os.environ if environ is None else environ, mask, listener, start, offline=offline)
        finally:
            processes.descendants.close()
            listener.close(DRAIN_S)
            run_proxy.close()
            counts = recorder.close(DRAIN_S)
            offline_report = processes.offline_run.close() if processes.offline_run is not None else None
    if looks_like_python(words[0]) and (flags := isolating_flags(list(words))):
        reports.unseen[f"a Python started with -{flags}"] += 1
    hosts = reports.hosts + run_proxy.calls
    return replace(
        _summarize(processes.exit_code, session_id, engine, reports, counts),
        hosts=dict(hosts.most_common()),
        offline_report=offline_report,
        survivors=tuple(processes.survivors),
    )


class _CommandProcesses:
    """The processes of one command, from its start to its end."""

    def __init__(
        self,
        words: Sequence[str],
        loaded: LoadedConfig,
        reports: ProcessReports,
        token: str,
        *,
        plays: bool,
        observes: bool,
    ) -> None:
        self._words = words
        self._loaded = loaded
        self._reports = reports
        self._token = token
        self._plays = plays
        self._observes = observes
        self.descendants = CommandDescendants()
        self.offline_run: OfflineRun | None = None
        self.exit_code = 0
        self.survivors: Sequence[str] = ()

    def run(
        self,
        environ: Mapping[str, str],
        mask: Mask,
        listener: ProcessListener,
        start_proxy: StartProxy | None,
        *,
        offline: bool,
    ) -> None:
        """Run the command to its end, with the environment that instruments its processes."""
        address = listener.address
        proxy = start_proxy(environ) if start_proxy else ""
        if start_proxy and not proxy and self._plays:
            raise CannotListen("127.0.0.1", 0, "no address is free for the replay")
        self.offline_run = offline_run = OfflineRun(self._loaded, environ, self._reports) if offline else None
        environment = command_environment(
            environ,
            self._loaded,
            address,
            self._token,
            proxy,
            plays=self._plays,
            observes=self._observes,
            offline=offline_run.environment(proxy, address) if offline_run is not None else None,
        )
        self.exit_code = run_process(
            self._words,
            environment,
            mask,
            offline_run.open_ports(proxy, address) if offline_run is not None else None,
            offline_run.choose_supervisor() if offline_run is not None else None,
            self.descendants,
        )
        self.survivors = self.descendants.list_survivors()


def _summarize(
    code: int, session_id: str, engine: Engine, reports: ProcessReports, counts: RecordingCounts
) -> CommandRun:
    return CommandRun(
        code,
        session_id,
        len(reports.processes),
        reports.hosts,
        counts.recorded,
        counts.lost + counts.waiting + counts.failures + reports.lost,
        reports.unfinished,
        {**_count_problems(engine, reports), **counts.failed},
        dict(reports.unseen.most_common()),
        reports.replayed,
        reports.suite,
        open_suites=reports.open_suites,
    )


def _count_problems(engine: Engine, reports: ProcessReports) -> dict[str, int]:
    problems = {**engine.header_problems, **reports.faults}
    if reports.malformed:
        problems["a message of a process could not be understood"] = reports.malformed
    if engine.too_large + reports.too_large:
        problems["a body was too large to be kept"] = engine.too_large + reports.too_large
    return problems


def _script_name(words: Sequence[str]) -> str:
    """What a person would call the command: the first of its words that is a file, else its program."""
    return next((word for word in words[1:] if not word.startswith("-") and os.path.isfile(word)), words[0])
