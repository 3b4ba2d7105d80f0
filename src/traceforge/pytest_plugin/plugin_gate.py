"""The hooks of pytest, translated for the gate: `snapshots.gate` decides, this prints.

In: pytest's hooks. Out: failed tests, lines of the summary, the exit status. Never: judges anything itself.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest

from traceforge.build_environment import is_ci
from traceforge.canon import json_bytes, parse_json
from traceforge.capture.hook.callsite import CallSites
from traceforge.capture.hook.pytest_scopes import leave_pytest
from traceforge.capture.hook.short_traceback import NOTE, shorten_traceback
from traceforge.capture.run.suite_events import merge_outcomes
from traceforge.config import SNAPSHOTS_DIR, load_config
from traceforge.errors import ForeignPackage, TraceForgeError
from traceforge.pytest_plugin import (
    LATE_CALLS_FILE,
    LATE_CALLS_KEY,
    MARK,
    WORKER_REPORT_KEY,
    is_on_command_line,
    is_worker,
    list_asked_paths,
)
from traceforge.report.observation_text import observation_lines
from traceforge.report.text_format import count, finding_lines, hint_line
from traceforge.snapshots.gate.gate_findings import NEW_RULE
from traceforge.snapshots.gate.gate_judgement import RunObservations, judge_run, merge_observations
from traceforge.snapshots.gate.nested_projects import compare_project
from traceforge.snapshots.gate.suite_process import OFF, RECORD, SuiteProcess
from traceforge.snapshots.gate.unselected_tests import (
    AskedFiles,
    find_failed_tests,
    find_unselected_tests,
    list_asked_files,
)
from traceforge.terminal import escape_text, one_line, print_text
from traceforge.wildcards import names_test
from traceforge_gate import find_foreign_package

if TYPE_CHECKING:
    from traceforge.findings import Finding
    from traceforge.snapshots.gate.gate_findings import GateFinding

OFF_NOTE = f'note: in CI, @pytest.mark.{MARK}("{OFF}") counts only for tests that test.may_skip lists'


class PluginGate:
    """The gate of one project in one pytest process."""

    def __init__(self, config: pytest.Config, mode: str, project: str) -> None:
        self.project = project
        self._config = config
        self._mode = mode
        self._process: SuiteProcess | None = None
        self._observations: list[RunObservations] = []  # one a process
        self._tests: dict[str, str] = {}  # node id to "passed", "failed" or "skipped"
        self._skipped_modules: list[str] = []
        self._judged: dict[str, list[str]] = {}  # node id to the messages of its findings
        self._session: pytest.Session | None = None  # once it has ended
        self._lines: list[str] = []
        self._base_line = ""
        self._asked_files: AskedFiles | None = None  # of tests with approved calls, in CI
        self._is_red = False
        self._is_open = False
        self._is_answering = self._was_resumed = self._stands_down = False

    def open(self) -> None:
        """Load and verify the snapshots; a problem ends pytest as wrong usage."""
        if self._mode == RECORD and is_ci():
            raise pytest.UsageError(
                "--traceforge=record writes files, and CI is set. Run it on your machine and commit the result."
            )
        prefix = self._find_scope_prefix() if self._mode != RECORD else ""
        try:
            _refuse_foreign_package()
            self._process = SuiteProcess(load_config(self.project), self._mode, prefix)
            snapshots = self._process.snapshots
            findings = snapshots.tree_report.findings if self._mode == RECORD else snapshots.findings
            findings = findings or self._compare_with_base()
        except TraceForgeError as exc:
            raise pytest.UsageError(escape_text(f"traceforge: {exc.code} {exc.message}\n{exc.hint}")) from None
        if findings:
            tree = f"{self._find_scope_prefix()}{SNAPSHOTS_DIR}"
            message = f"the snapshots do not verify, in {tree}:\n{finding_lines(list(findings))}"
            raise pytest.UsageError(escape_text(message))

    def _find_scope_prefix(self) -> str:
        """What node ids of this project begin with, where it is below the root of the suite; "" where it is not."""
        folder, root = Path(self.project), self._config.rootpath.resolve()
        return f"{folder.relative_to(root).as_posix()}/" if folder != root and folder.is_relative_to(root) else ""

    def resume(self) -> None:
        """Answer calls from the snapshots of this project."""
        self.process.start()
        self._is_open = self._is_answering = self._was_resumed = True

    def suspend(self) -> None:
        """A test of another project runs."""
        self._is_answering = False
        self.process.suspend()

    def _compare_with_base(self) -> Sequence[Finding]:
        """In CI, what differs from the base of the build. One process of a suite asks."""
        if is_worker(self._config) or self._mode == RECORD:
            return ()
        compared = compare_project(self.process.snapshots, None, list_asked_paths(self._config))
        self._base_line = compared.line
        if not compared.findings:
            words = ["pytest", *map(str, self._config.invocation_params.args)]
            folder = str(self._config.invocation_params.dir)
            self._asked_files = list_asked_files(self.process.snapshots, words, folder)
        return compared.findings

    def close(self, *, keeps_answering: bool = False) -> None:
        """Leave the process as it was; a second time changes nothing."""
        if self._is_open:
            self._is_open = False
            leave_pytest()
            observations = self.process.stop(keeps_answering=keeps_answering)
            observations.skipped_modules = self._skipped_modules
            for test, messages in self._judged.items():  # Another plugin may have changed the report of the test.
                if self._tests.get(test) != "failed":
                    observations.unreported_misses += messages
            self._observations.append(observations)

    def judge_late_calls(self, *, is_exit: bool = False) -> bool:
        """Judge calls that were made after the tests; whether one of them was not approved, or may still come."""
        if self._process is None:
            return False  # The gate could not be opened, which is an error of its own.
        self.close()
        misses = self.process.take_late_misses() if self._session is not None else []
        messages = [f"(after the tests): {NEW_RULE} {miss}" for miss in misses]
        if is_exit and self._mode != RECORD and (survivors := self.process.describe_survivors()):
            messages.append(f"unchecked: {survivors}")
        for message in messages:
            print_text(f"traceforge: {message}", err=True)
        if messages and is_worker(self._config):
            self._write_late_calls(messages)
        if messages and self._session is not None and self._session.exitstatus == pytest.ExitCode.OK:
            self._session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return bool(messages)

    def _write_late_calls(self, messages: Sequence[str]) -> None:
        """A worker has sent its report already: the process that started it reads a file when all have exited."""
        file: str = self._config.workerinput.get(LATE_CALLS_KEY, "")  # type: ignore[attr-defined]  # of xdist
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        with suppress(OSError):  # A worker on another machine: what it prints is all.
            descriptor = os.open(file, flags, 0o600)
            with open(descriptor, "wb") as stream:
                stream.write(b"".join(json_bytes([self.project, message]) + b"\n" for message in messages))

    def _read_late_calls(self) -> list[str]:
        """What the workers asked in this project while they exited."""
        file = self._config.stash.get(LATE_CALLS_FILE, None)
        if file is None or not file.exists():
            return []
        rows = cast("list[list[str]]", [parse_json(line) for line in file.read_bytes().splitlines()])
        self._config.add_cleanup(lambda: file.unlink(missing_ok=True))
        return [message for project, message in rows if project == self.project]

    def release(self) -> None:
        """Stop answering calls, if this gate ever did."""
        if self._was_resumed:
            self.process.release()

    def stand_down(self) -> None:
        """Other processes run the tests, and make again the calls that this one has made so far."""
        self._stands_down = self._is_answering
        self.close()
        self._observations.clear()

    @property
    def process(self) -> SuiteProcess:
        """Set once the gate is open."""
        assert self._process is not None
        return self._process

    def pytest_report_header(self) -> list[str]:
        """The lines at the top."""
        approved = len(self.process.snapshots.approved_calls)
        base_lines = [f"traceforge: {one_line(self._base_line)}"] if self._base_line else []
        return [f"traceforge: {self._mode}, {approved} approved call{'' if approved == 1 else 's'}", *base_lines]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A test begins, perhaps again."""
        if not self._is_answering:
            return
        mark = item.get_closest_marker(MARK)
        value = str(mark.args[0]) if mark is not None and mark.args else ""
        if value not in ("", OFF):
            message = f'{item.nodeid}: @pytest.mark.{MARK} takes "off", and not {value!r}.'
            raise pytest.UsageError(escape_text(message))
        self.process.begin_test(item.nodeid, is_off=value == OFF and self._may_be_off(item.nodeid))

    def _may_be_off(self, test: str) -> bool:
        """Whether its marker switches the gate off: in CI for tests that an approved setting lists, because a pull
        request can bring the marker, and the test would have the real API keys and the network.
        """
        may_skip = self.process.snapshots.loaded.config.test.may_skip
        return not is_ci() or names_test(may_skip, self.process.name_scope(test))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """A test with findings has failed, even if it caught the error."""
        outcome = yield
        if not self._is_answering:
            return
        report: pytest.TestReport = outcome.get_result()
        findings = self.process.judge_test(item.nodeid)
        if not findings:
            return
        messages = [gate_finding.finding.message for gate_finding in findings]
        self._judged.setdefault(item.nodeid, []).extend(messages)
        text = _findings_text(findings)
        if item.get_closest_marker(MARK) is not None and is_ci():
            text = f"{text}\n{OFF_NOTE}"
        if report.failed:
            short = self._shorten_traceback(call)
            if short is not None:
                report.longrepr, text = short, f"{text}\n{NOTE}"
            add_section = getattr(
                report.longrepr, "addsection", None
            )  # Sections of the report are not in --junitxml.
            if add_section is not None:
                add_section("traceforge", text)
            else:
                report.sections.append(("traceforge", text))
        else:
            report.outcome = "failed"
            report.longrepr = text
        if hasattr(report, "wasxfail"):
            del report.wasxfail  # A test that is expected to fail does not fail the run, whatever its outcome.

    def _shorten_traceback(self, call: pytest.CallInfo[None]) -> Any | None:  # noqa: ANN401 (private in pytest)
        if call.excinfo is None:
            return None
        callsite = self.process.snapshots.loaded.config.callsite
        return shorten_traceback(call.excinfo, self._config, CallSites(self.project, callsite.skip).is_application)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How a test ended: in the process that hears of all of them."""
        outcome = self._tests.get(report.nodeid)
        is_expected = hasattr(report, "wasxfail")  # Then pytest does not count the failure.
        if report.failed and not is_expected:
            self._tests[report.nodeid] = "failed"
        elif report.skipped or report.failed:
            self._tests[report.nodeid] = outcome if outcome == "failed" else "skipped"
        elif report.when == "call" and outcome is None:
            self._tests[report.nodeid] = "passed"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that is skipped as a whole reports no test. Under xdist, only a worker sees it."""
        if report.skipped:
            self._skipped_modules.append(report.nodeid)

    def take_worker_report(self, report: Mapping[str, Any] | None) -> None:
        """A worker has ended, and sent what it observed in this project."""
        if report is None:
            self._fail("a pytest-xdist worker ended without its report: its calls could not be checked")
            return
        self._observations.append(RunObservations.from_builtins(report["observations"]))
        self._tests = {**report["tests"], **self._tests}

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """All tests have ended, and all other plugins have heard of it: judge the suite as a whole.

        The last wrapper is the first to go on: the summary is printed by another one. Where workers run the tests,
        plugins call models in this process, too, when they hear of the end.
        """
        starts_again = self._stands_down and self._mode != RECORD
        if starts_again:
            self.process.answer_late_calls()
        yield
        if starts_again:
            self._observations.append(RunObservations(unreported_misses=self.process.take_late_misses()))
        self.close(keeps_answering=self._mode != RECORD and self._is_answering)
        self._session = session
        if is_worker(self._config):
            reports = self._config.workeroutput.setdefault(WORKER_REPORT_KEY, {})  # type: ignore[attr-defined]  # of xdist
            reports[self.project] = {"observations": self._observations[0].to_builtins(), "tests": self._tests}
            return
        self._observations.append(RunObservations(unreported_misses=self._read_late_calls()))
        observations = merge_observations(self._observations)
        if self._mode == RECORD:
            self._record(observations)
        else:
            self._judge(observations)
        if self._is_red and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._is_red and not self._config.pluginmanager.has_plugin("terminalreporter"):
            print_text("\n".join(self._lines), err=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401 (a private class of pytest)
        """Print what concerns the suite as a whole."""
        if self._lines and not is_worker(self._config):
            terminalreporter.write_sep("=", one_line(self._title), red=self._is_red, green=not self._is_red)
            for line in self._lines:
                terminalreporter.write_line(escape_text(line))

    @property
    def _title(self) -> str:
        """With the folder of the project, where it is below the root of the suite."""
        return f"traceforge {self._find_scope_prefix()}".rstrip(" /")

    def _fail(self, *lines: str) -> None:
        self._is_red = True
        self._lines += lines

    def _name_tests(self, tests: Mapping[str, str]) -> dict[str, str]:
        """How tests ended, by the names with which they were recorded."""
        return merge_outcomes((self.process.name_scope(test), outcome) for test, outcome in tests.items())

    def _judge(self, observations: RunObservations) -> None:
        is_only_collected = bool(self._config.getoption("collectonly", False))
        allow_unused = is_only_collected or (
            bool(self._config.getoption("--traceforge-allow-unused"))
            and (not is_ci() or is_on_command_line(self._config, "--traceforge-allow-unused"))
        )
        skipped_modules = [] if is_only_collected else observations.skipped_modules
        tests = {**dict.fromkeys(skipped_modules, "skipped"), **self._tests}
        tests = self._name_tests(tests)
        judgement = judge_run(
            self.process.snapshots, observations, tests, command_passed=False, allow_unused=allow_unused
        )
        if judgement.findings:
            self._fail(_findings_text(judgement.findings))
        replayed = observations.replayed
        self._lines += [f"{count(replayed, 'call')} replayed", *observation_lines(observations)]
        self._lines += [f"note: {note}" for note in self.process.snapshots.tree_report.notes]
        has_passed = self._session is not None and self._session.exitstatus == pytest.ExitCode.OK
        unselected = find_unselected_tests(
            self.process.snapshots, tests, self._asked_files, observations, has_passed=has_passed
        )
        failed = find_failed_tests(self.process.snapshots, tests, observations.broken_scopes) if has_passed else ()
        for finding in [*judgement.unchecked, *unselected, *failed]:
            self._fail(f"unchecked: {finding.message}", hint_line(finding.hint))
        if observations.missed_scopes:
            has_snapshots = bool(self.process.snapshots.approved_calls)
            self._lines += _import_gate_text().pending_note_lines(self.project)
            self._lines += _missed_lines(has_snapshots=has_snapshots, needs_fresh=observations.deviations > 0)

    def _record(self, observations: RunObservations) -> None:
        from traceforge.pytest_plugin.recorded_changes import file_recorded_changes

        changes = file_recorded_changes(self.process.snapshots, observations, self._name_tests(self._tests))
        self._lines += changes.lines
        if changes.unread:
            self._fail(f"{count(changes.unread, 'call')} could not be recorded, and cannot be approved")


def _missed_lines(*, has_snapshots: bool, needs_fresh: bool) -> Iterator[str]:
    """What to do about calls that were refused; in CI, a project without snapshots may not expect a gate."""
    place = ", on your machine" if is_ci() else ""
    record = "traceforge record --fresh -- pytest" if needs_fresh else "pytest --traceforge=record"
    yield f'to approve the changes{place}: {record}, then traceforge approve --all --reason "…"'
    if is_ci() and not has_snapshots:
        yield "if the tests of this build should call the provider: pytest --traceforge=off"


def _refuse_foreign_package() -> None:
    problem = find_foreign_package()
    if problem is not None:
        raise ForeignPackage(problem[0], hint=problem[1])


def _findings_text(findings: list[GateFinding]) -> str:
    return escape_text("\n".join(_import_gate_text().gate_finding_lines(findings)))


def _import_gate_text() -> ModuleType:
    """Deferred: it imports what compares calls, and a green run has nothing to compare."""
    from traceforge.report import gate_text

    return gate_text
