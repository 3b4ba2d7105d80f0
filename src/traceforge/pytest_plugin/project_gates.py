"""The gates of all projects of which a pytest process runs tests: in a monorepo each package may have snapshots.

In: folders with `.ai-snapshots`, or in CI with a configuration, and the files that are collected and run. Out: one
`PluginGate` for each folder, of which one answers calls at a time: that of the nearest folder upwards from the file.
Never: judges anything itself.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from traceforge.build_environment import frozen_environment, is_ci
from traceforge.capture.hook.pytest_scopes import OPENED, START
from traceforge.config import SNAPSHOTS_DIR, find_project
from traceforge.errors import BaseUnavailable, TraceForgeError
from traceforge.findings import Finding
from traceforge.pytest_plugin import (
    GATES_KEY,
    LOADED_ENVIRONMENT,
    find_gated_folder,
    is_worker,
    list_asked_paths,
)
from traceforge.pytest_plugin.plugin_gate import PluginGate
from traceforge.pytest_plugin.scope_hooks import ScopeHooks
from traceforge.pytest_plugin.usage_signs import find_usage_sign
from traceforge.report.text_format import finding_lines, hint_line
from traceforge.snapshots.gate.nested_projects import find_left_out_projects, list_nested_projects
from traceforge.snapshots.tree.base_checks import LOOSER_RULE
from traceforge.snapshots.tree.base_commit import check_against_base
from traceforge.terminal import escape_text

# A file of the project can block a plugin by its name (`-p no:NAME` in addopts): those below are registered without.
LEFT_OUT_KEY: pytest.StashKey[LeftOutProjects] = pytest.StashKey()
NO_SNAPSHOTS_HINT = "{} shows that this project uses TraceForge. If it has no snapshots: pytest --traceforge=off."


def open_gates(config: pytest.Config, mode: str, folders: Sequence[Path]) -> None:
    """Open the gates of the projects in these folders, or else of a new one."""
    if is_ci(LOADED_ENVIRONMENT) and not is_worker(config) and LEFT_OUT_KEY not in config.stash:
        config.stash[LEFT_OUT_KEY] = left_out_projects = LeftOutProjects(config)
        config.pluginmanager.register(left_out_projects)
    if not mode and not any(os.path.lexists(folder / SNAPSHOTS_DIR) for folder in folders):
        with frozen_environment(LOADED_ENVIRONMENT):
            refuse_removed_tree(config)
        if not folders:
            return
    environment = ExitStack()
    environment.enter_context(frozen_environment(LOADED_ENVIRONMENT))
    config.add_cleanup(environment.close)
    config.stash[GATES_KEY] = gates = ProjectGates(config, mode or "test")
    config.pluginmanager.register(gates)
    config.pluginmanager.register(ScopeHooks(gates))
    config.add_cleanup(gates.release)
    # Which worker of pytest-xdist this is, the configuration says later.
    if is_main_program() or "PYTEST_XDIST_WORKER" in LOADED_ENVIRONMENT:
        atexit.register(gates.judge_exit)
    gates.add(*(folders or [Path(find_project(str(config.rootpath)))]))


def refuse_removed_tree(config: pytest.Config) -> None:
    """In CI, for a project without snapshots: fail if the base of the build has some; or if it cannot be read, and
    the checkout shows that the project uses TraceForge: then what was approved may have been removed.

    Where the build has no base, nothing stops the run: most projects without snapshots never had any.
    """
    paths = list_asked_paths(config)
    try:
        project = find_project(str(config.rootpath))
        findings = check_against_base(project, {}, starts=paths).findings
    except BaseUnavailable as exc:
        sign = find_usage_sign([str(config.rootpath), *paths])
        if sign:
            message = f"traceforge: {exc.code} {exc.message}\n{exc.hint}\n{NO_SNAPSHOTS_HINT.format(sign)}"
            raise pytest.UsageError(escape_text(message)) from None
        return
    except TraceForgeError:
        return
    if findings:
        raise pytest.UsageError(escape_text(f"{_describe_lost(findings)}:\n{finding_lines(findings)}"))


def _describe_lost(findings: Iterable[Finding]) -> str:
    is_about_checks = all(finding.rule == LOOSER_RULE for finding in findings)
    return "checks demand less than they did" if is_about_checks else "the snapshots were removed"


def is_main_program() -> bool:
    """Whether this process was started to run pytest, and ends with it."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", "") or os.path.basename(
        getattr(main, "__file__", "") or ""
    )
    return name.partition(".")[0] in ("pytest", "py")


class LeftOutProjects:
    """In CI: projects with snapshots of which a file of the project left everything out, so that no gate is open."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lines: list[str] = []

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """All gates have judged; under pytest-xdist, all workers have reported theirs."""
        yield
        if session.exitstatus != pytest.ExitCode.OK or is_worker(self._config):
            return
        gates = self._config.stash.get(GATES_KEY, None)
        words = ["pytest", *map(str, self._config.invocation_params.args)]
        with frozen_environment(LOADED_ENVIRONMENT):
            project = find_project(str(self._config.rootpath))
            judged = gates.folders if gates is not None else ()
            folder = str(self._config.invocation_params.dir)
            projects = list_nested_projects(project, words, folder)
            findings = list(find_left_out_projects(projects, judged, words, folder))
        for finding in findings:
            self._lines += [f"unchecked: {finding.message}", hint_line(finding.hint)]
        if findings:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401 (a private class of pytest)
        """Print what was left out."""
        if self._lines:
            terminalreporter.write_sep("=", "traceforge", red=True)
            for line in self._lines:
                terminalreporter.write_line(escape_text(line))


class ProjectGates:
    """The gates by folder; `current` is the one that answers calls now."""

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._config = config
        self._mode = mode
        self._gates: dict[Path, PluginGate] = {}
        self._owners: dict[Path, Path | None] = {}  # by folder of files: where its snapshots are
        self._pid = os.getpid()
        self._stands_down = False
        self._default: PluginGate | None = None  # for files in no project, such as those that a plugin makes up
        self.current: PluginGate | None = None

    def add(self, *folders: Path) -> None:
        """Open the gates of projects, if they are not. The first one answers calls until a file of another is met."""
        for folder in folders:
            if folder in self._gates:
                continue
            gate = PluginGate(self._config, self._mode, str(folder))
            self._gates[folder] = gate
            if self._config.rootpath.resolve().is_relative_to(folder):
                self._default = gate
            self._config.pluginmanager.register(gate)
            gate.open()
            gate.process.add_scope_event(START, OPENED)
            if self.current is None and not self._stands_down:
                self._switch(gate)

    @property
    def folders(self) -> set[str]:
        """The folders whose gates are open."""
        return {str(folder) for folder in self._gates}

    def release(self) -> None:
        """Pytest ends. In a process that ends with it, calls are answered until then."""
        for gate in self._gates.values():
            gate.judge_late_calls()
            if not is_main_program() and not is_worker(self._config):
                gate.release()

    def judge_exit(self) -> None:
        """The process ends, and what others registered with `atexit` since we did has run. A fork has no verdict.

        A worker of pytest-xdist writes a file for the process that started it, because xdist ignores its exit code.
        """
        is_verdict = is_main_program()
        if os.getpid() != self._pid or not (is_verdict or is_worker(self._config)):
            return
        late_calls = [gate.judge_late_calls(is_exit=True) for gate in self._gates.values()]
        if any(late_calls) and is_verdict:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(pytest.ExitCode.TESTS_FAILED)  # Nothing else changes the exit code any more.

    def stand_down(self) -> None:
        """Other processes run the tests."""
        self._stands_down = True
        self.current = None
        for gate in self._gates.values():
            gate.stand_down()

    def add_scope_event(self, scope: str, event: str) -> None:
        """A scope that tests share was opened, or failed."""
        if self.current is not None:
            self.current.process.add_scope_event(scope, event)

    def add_collection(self, tests: Sequence[str], *, is_selection: bool) -> None:
        """All tests were collected, those of every project; `is_selection`: not all of them run."""
        for gate in self._gates.values():
            gate.process.add_collection(tests, is_selection=is_selection)

    def take_worker_reports(self, reports: Mapping[str, Any]) -> None:
        """A worker of pytest-xdist has ended; all of them collect the same files."""
        for folder, gate in self._gates.items():
            gate.take_worker_report(reports.get(str(folder)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """A file is about to be imported."""
        if isinstance(collector, pytest.File):
            self._enter(collector.path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """A test is about to run."""
        self._enter(item.path)

    def _enter(self, path: Path) -> None:
        folder = path if path.is_dir() else path.parent
        if folder not in self._owners:
            self._owners[folder] = gated_folder = find_gated_folder(folder, self._config)
            if gated_folder is not None:
                self.add(gated_folder)
        owner = self._owners[folder]
        gate = self._default if owner is None else self._gates[owner]
        if gate is not self.current and not self._stands_down:
            self._switch(gate)

    def _switch(self, gate: PluginGate | None) -> None:
        if self.current is not None:
            self.current.suspend()
        self.current = gate
        if gate is not None:
            gate.resume()
