"""`traceforge test -- COMMAND`: run a command in strict replay, and judge its calls.

In: a project and a command. Out: findings, and everything that could not be checked. Never: reaches a provider, or
answers from a tree that does not verify.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from traceforge.capture.hook.watcher import LOADED
from traceforge.capture.null_recorder import NullRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.command_runner import CommandRun, run_command
from traceforge.capture.run.local_programs import list_unknown_programs, make_allow_hint
from traceforge.capture.run.offline import OfflineReport
from traceforge.capture.run.suite_events import SuiteEvents
from traceforge.config import LoadedConfig, current_folder
from traceforge.findings import IO, Finding
from traceforge.snapshots.gate.gate_findings import GateFinding
from traceforge.snapshots.gate.gate_judgement import (
    RunObservations,
    judge_requests,
    judge_run,
    merge_observations,
    observe_replay,
)
from traceforge.snapshots.gate.import_guard import refuse_imports
from traceforge.snapshots.gate.nested_projects import (
    NestedProjects,
    compare_project,
    find_left_out_projects,
)
from traceforge.snapshots.gate.unselected_tests import (
    AskedFiles,
    find_failed_tests,
    find_silent_pytest,
    find_unselected_tests,
    find_whole_paths,
    list_asked_files,
)
from traceforge.snapshots.record.pending_changes import first_approval_hint
from traceforge.snapshots.tree.command_scope import redacted_scope
from traceforge.snapshots.tree.project_snapshots import (
    ProjectSnapshots,
    find_recorded_variables,
    list_gone_cases,
    open_snapshots,
)
from traceforge.terminal import ProgressReporter, no_progress

COMMAND = "(the command)"
LOST_PYTHON = "a Python started with"

_NOT_SEEN_HINT = "Let it use HTTP, or do not run it in a test."
_NO_CALL_HINT = "Is this the command that was recorded? See what is approved: traceforge snapshot list"
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
    loaded: LoadedConfig,
    command: Sequence[str],
    *,
    allow_unused: bool = False,
    base: str | None = None,
    progress: ProgressReporter = no_progress,
) -> TestRun:
    """Run a command with every model call answered from snapshots, and judge what it asked.

    The snapshots are first compared with the commit `base`, and in CI with that of the build. Once the command has
    started, this process imports nothing any more (see `import_guard.py`), until it ends.

    Raises:
        NotFound, BaseUnavailable: that commit is not in this clone.
    """
    snapshots = open_snapshots(loaded, scope=redacted_scope(loaded, command), progress=progress)
    if snapshots.findings:
        return _refuse_to_run(snapshots, snapshots.findings)
    folder = current_folder()
    compared = compare_project(snapshots, base, find_whole_paths(command, folder) or [folder])
    if compared.findings:
        return _refuse_to_run(snapshots, compared.findings, compared.line)
    nested = NestedProjects(loaded.project, command, folder)
    # Before the command runs, which could change what is read.
    nested.compare_with_base(base, require_signed=loaded.config.approvals.require_signed)
    asked_files = list_asked_files(snapshots, command, folder)
    approved_calls = [*snapshots.approved_calls, *nested.list_approved_calls()]
    environ = find_recorded_variables(approved_calls).restore(os.environ, loaded.config.upstreams)
    replay = ReplayResponder(
        snapshots.player, choose_player=lambda scope: nested.choose_player(scope, snapshots.player)
    )
    imports = refuse_imports()
    run = run_command(command, loaded, NullRecorder(), environ, with_proxy=True, replay=replay, offline=True)
    verdict = _judge_project(
        snapshots, run, nested.select_events(run.suite, snapshots), asked_files, allow_unused=allow_unused
    )
    verdicts = [verdict, *_judge_nested(nested, run, allow_unused=allow_unused)]
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    refused = run.offline_report.refused if run.offline_report is not None else {}
    findings += judge_requests(snapshots, (), refused, COMMAND)
    unchecked = [*_find_unseen(run), *_find_unguarded(loaded, run)]
    unchecked += [finding for verdict in verdicts for finding in verdict.unchecked]
    unchecked += find_silent_pytest(approved_calls, run.suite.tests, command) if run.exit_code == 0 else ()
    unchecked += find_left_out_projects(nested.projects, nested.list_judged(run.suite), command, folder)
    unchecked += _find_refused_imports(imports.refused)
    observations = merge_observations(verdict.observations for verdict in verdicts)
    if not observations.replayed and not observations.missed_scopes and not snapshots.player.unmatched:
        hint = _NO_CALL_HINT if approved_calls else first_approval_hint(loaded.project)
        unchecked.append(Finding(COMMAND, "", IO, "no call was replayed at all", hint))
    return TestRun(snapshots, run, findings, unchecked, observations, compared.line)


def _refuse_to_run(snapshots: ProjectSnapshots, findings: Iterable[Finding], base_line: str = "") -> TestRun:
    """The result of a command that was not started, because of these findings."""
    return TestRun(snapshots, None, [GateFinding(finding, 0) for finding in findings], base_line=base_line)


class _ProjectVerdict(NamedTuple):
    """What a run did with the snapshots of one project."""

    findings: list[GateFinding]
    unchecked: Sequence[Finding] = ()
    observations: RunObservations = RunObservations()


def _judge_project(
    snapshots: ProjectSnapshots,
    run: CommandRun,
    suite: SuiteEvents,
    asked_files: AskedFiles | None,
    *,
    allow_unused: bool,
) -> _ProjectVerdict:
    """Judge the calls of a project; `suite` has the events of its scopes. `asked_files`: see
    `list_asked_files`.
    """
    findings = judge_requests(snapshots, snapshots.player.unmatched, {}, COMMAND)
    observations = observe_replay(snapshots)
    observations.scope_starts = dict(suite.scope_starts)
    observations.broken_scopes = sorted(suite.broken_scopes)
    observations.workers = max(1, len(suite.workers))
    observations.library_answers = [
        (library, scope, times) for (library, scope), times in suite.library_answers.items()
    ]
    observations.gone_cases = list_gone_cases(snapshots, suite.collected, is_selection=suite.is_selection)
    command_passed = run.exit_code == 0 and bool(snapshots.player.default_scope)
    judgement = judge_run(
        snapshots, observations, suite.tests, command_passed=command_passed, allow_unused=allow_unused
    )
    has_passed = run.exit_code == 0
    unchecked = [
        *judgement.unchecked,
        *find_unselected_tests(snapshots, suite.tests, asked_files, observations, has_passed=has_passed),
        *(find_failed_tests(snapshots, suite.tests, suite.broken_scopes) if has_passed else ()),
    ]
    return _ProjectVerdict([*findings, *judgement.findings], unchecked, observations)


def _judge_nested(nested: NestedProjects, run: CommandRun, *, allow_unused: bool) -> Iterator[_ProjectVerdict]:
    """Judge the projects below whose tests were collected, each by its own snapshots.

    Raises:
        TraceForgeError: the configuration or the key of one cannot be used.
    """
    judged = nested.list_judged(run.suite)
    for project in nested.projects:
        if project.folder not in judged:
            continue
        snapshots, problems = project.snapshots, project.problems
        if problems:
            yield _ProjectVerdict([project.name_finding(GateFinding(finding, 0)) for finding in problems])
            continue
        suite = nested.select_events(run.suite, snapshots, project)
        verdict = _judge_project(snapshots, run, suite, project.asked_files, allow_unused=allow_unused)
        yield verdict._replace(
            findings=list(map(project.name_finding, verdict.findings)),
            unchecked=[project.name_location(finding) for finding in verdict.unchecked],
        )


def _find_refused_imports(modules: Iterable[str]) -> Iterator[Finding]:
    for name in sorted(modules):
        message = f"TraceForge wanted to load {name} after the command had started, and did not"
        yield Finding(COMMAND, "", IO, message, _REPORT_HINT)


def _find_unseen(run: CommandRun) -> Iterator[Finding]:
    """Programs whose calls could not be seen, and failures of our own."""
    named_singly = run.offline_report is not None and run.offline_report.uninstrumented
    for program in run.not_seen:
        if not program.endswith(LOADED) and not (named_singly and program.startswith(LOST_PYTHON)):
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
