"""`traceforge test -- COMMAND`: run a command in strict replay, and judge its calls.

In: a project and a command. Out: findings, and everything that could not be checked. Never: reaches a provider, or
answers from a tree that does not verify.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.command_runner import CommandRun, run_command
from traceforge.capture.run.local_programs import list_unknown_programs, make_allow_hint
from traceforge.capture.run.offline import OfflineReport
from traceforge.config import LoadedConfig, current_folder
from traceforge.findings import IO, Finding
from traceforge.snapshots.gate.gate_findings import GateFinding
from traceforge.snapshots.gate.gate_judgement import RunObservations, judge_requests, judge_run, observe_replay
from traceforge.snapshots.gate.import_guard import refuse_imports
from traceforge.snapshots.gate.null_recorder import NullRecorder
from traceforge.snapshots.gate.unselected_tests import find_unselected_tests
from traceforge.snapshots.record.record_run import redacted_scope
from traceforge.snapshots.tree.base_commit import check_against_base
from traceforge.snapshots.tree.project_snapshots import (
    ProjectSnapshots,
    find_recorded_variables,
    list_gone_cases,
    open_snapshots,
)

COMMAND = "(the command)"
LOST_PYTHON = "a Python started with"
NOT_SEEN_HARMLESS = "gRPC, which is loaded"  # Many libraries load it and never use it.

_NOT_SEEN_HINT = "Let it use HTTP, or do not run it in a test."
_NO_CALL_HINT = "Is this the command that was recorded? traceforge status says what there is."
_NOTHING_APPROVED_HINT = "No call is approved yet. Record and approve first: traceforge record -- COMMAND"
_PYTHON_HINT = "Start it without -I, -E and -S, and with the environment it has."
_SUITE_HINT = "Look for os._exit or a kill in a test or a conftest.py."
_SURVIVOR_HINT = "End it before the command ends, or list its program in test.allow_programs."
_SUPERVISOR_HINT = "Run it again; if it happens again, report it."
_REPORT_HINT = "Report it: the module belongs into the list of those that are loaded before."
_SEAL_HINT = "Run it on Linux 6.7 or later, or set test.seal_network to auto."


@dataclass
class TestRun:
    """The outcome of `test`. `run` is None where the snapshot tree does not verify: then nothing was run."""

    __test__ = False  # pytest takes a class of this name for a test.

    snapshots: ProjectSnapshots
    run: CommandRun | None
    findings: list[GateFinding]
    unchecked: list[Finding] = field(default_factory=list)
    observations: RunObservations = field(default_factory=RunObservations)
    base_line: str = ""  # which commit the snapshots were compared with


def run_test(
    loaded: LoadedConfig, command: Sequence[str], *, allow_unused: bool = False, base: str | None = None
) -> TestRun:
    """Run a command with every model call answered from snapshots, and judge what it asked.

    The snapshots are first compared with the commit `base`, and in CI with that of the build. Once the command has
    started, this process imports nothing any more (see `import_guard.py`), until it ends.

    Raises:
        NotFound, BaseUnavailable: that commit is not in this clone.
    """
    snapshots = open_snapshots(loaded, scope=redacted_scope(loaded, command))
    if snapshots.findings:
        return TestRun(snapshots, None, [GateFinding(finding, 0) for finding in snapshots.findings])
    stored = snapshots.tree_report.stored
    compared = check_against_base(loaded.project, stored, base, start=current_folder(), loaded=loaded)
    if compared.findings:
        findings = [GateFinding(finding, 0) for finding in compared.findings]
        return TestRun(snapshots, None, findings, base_line=compared.line)
    environ = find_recorded_variables(snapshots.approved_calls).restore(os.environ, loaded.config.upstreams)
    replay = ReplayResponder(snapshots.player)
    imports = refuse_imports()
    run = run_command(command, loaded, NullRecorder(), environ, with_proxy=True, replay=replay, offline=True)
    refused = run.offline_report.refused if run.offline_report is not None else {}
    findings = judge_requests(snapshots, snapshots.player.unmatched, refused, COMMAND)
    observations = observe_replay(snapshots)
    observations.scope_starts = dict(run.suite.scope_starts)
    observations.broken_scopes = sorted(run.suite.broken_scopes)
    observations.workers = max(1, len(run.suite.workers))
    observations.gone_cases = list_gone_cases(snapshots, run.suite.collected, is_selection=run.suite.is_selection)
    judgement = judge_run(
        snapshots, observations, run.tests, command_passed=run.exit_code == 0, allow_unused=allow_unused
    )
    unchecked = [*_find_unseen(run), *_find_unguarded(loaded, run), *judgement.unchecked]
    unchecked += find_unselected_tests(snapshots, run.tests, command)
    for name in sorted(imports.refused):
        message = f"TraceForge wanted to load {name} after the command had started, and did not"
        unchecked.append(Finding(COMMAND, "", IO, message, _REPORT_HINT))
    if not observations.replayed and not snapshots.player.unmatched:
        hint = _NO_CALL_HINT if snapshots.approved_calls else _NOTHING_APPROVED_HINT
        unchecked.append(Finding(COMMAND, "", IO, "no call was replayed at all", hint))
    return TestRun(snapshots, run, findings + judgement.findings, unchecked, observations, compared.line)


def _find_unseen(run: CommandRun) -> Iterator[Finding]:
    """Programs whose calls could not be seen, and failures of our own."""
    named_singly = run.offline_report is not None and run.offline_report.uninstrumented
    for program in run.not_seen:
        if program != NOT_SEEN_HARMLESS and not (named_singly and program.startswith(LOST_PYTHON)):
            yield Finding(COMMAND, "", IO, f"could not see into {program}", _NOT_SEEN_HINT)
    if run.open_suites > 0 and run.exit_code == 0:
        yield Finding(
            COMMAND, "", IO, "pytest ended in the middle of its run: the tests after that were not run", _SUITE_HINT
        )
    for problem in run.problems:
        yield Finding(COMMAND, "", IO, problem)


def _find_unguarded(loaded: LoadedConfig, run: CommandRun) -> Iterator[Finding]:
    """Processes that could have left unseen, and a missing seal that `test.seal_network` requires."""
    allowed = loaded.config.test.allow_programs
    for program in run.survivors:
        if program.partition(" ")[0] not in allowed:
            message = f"a process outlived the command: {program}; TraceForge did not see what it did afterwards"
            yield Finding(COMMAND, "", IO, message, _SURVIVOR_HINT)
    offline = run.offline_report
    if offline is None:
        return
    strength = offline.strength
    network = "it was sealed, and its calls were not seen" if strength.is_sealed else "it was unguarded"
    for program, times in offline.uninstrumented.items():
        repeated = f" ({times} times)" if times > 1 else ""
        message = f"a Python process could not be instrumented: {program}{repeated}; {network}"
        yield Finding(COMMAND, "", IO, message, _PYTHON_HINT)
    for program in sorted({*offline.hidden_programs} - {*allowed}):
        message = f"a process hides what it runs: {program}"
        yield Finding(COMMAND, "", IO, message, make_allow_hint([program]))
    if offline.supervisor_failure:
        message = f"connections were not supervised to the end: {offline.supervisor_failure}"
        yield Finding(COMMAND, "", IO, message, _SUPERVISOR_HINT)
    yield from _find_unknown_programs(offline, allowed)
    if loaded.config.test.seal_network == "require" and not strength.is_sealed:
        yield Finding(COMMAND, "", IO, f"the run was not sealed: {strength.why}", _SEAL_HINT)


def _find_unknown_programs(offline: OfflineReport, allowed: Sequence[str]) -> Iterator[Finding]:
    """Programs without a hook that may have called a model: through an allowed port, or, where refused connections
    are not named, in any way.
    """
    strength = offline.strength
    for name, port in sorted(offline.unwatched_ports):
        if name not in allowed:
            message = f"{name} used port {port}, which test.allow_ports opens, and what it sent was not seen"
            yield Finding(COMMAND, "", IO, message, make_allow_hint([name]))
    unknown = [] if strength.names_refusals else list_unknown_programs(offline.other_programs, allowed)
    connecting = sorted({*offline.connecting_programs} - {*allowed})  # also those that our list has
    unknown = sorted({*unknown, *connecting})
    if unknown:
        reason = strength.why_not_named if strength.is_sealed else strength.why
        names = ", ".join(unknown)
        message = f"programs ran that may have tried to connect: {names}; refusals are not named here ({reason})"
        yield Finding(COMMAND, "", IO, message, make_allow_hint(unknown))
