"""The gate inside pytest.

In: a run of pytest in a project that has approved calls. Out: every model call of a test answered from snapshots; a
test that asks what nobody approved fails, with the diff, and so does one that connects elsewhere than to loopback; at
the end, snapshots that no test asks for. Never: costs
anything, or is noticed, in a project without snapshots; and stands aside where `traceforge run`, `record` or `test`
is at work already.

    pytest                            replay, where there are snapshots
    pytest --traceforge=record        with the provider; what is new or changed becomes a pending change
    pytest --traceforge=off           not at all
    @pytest.mark.traceforge("off")    not in this test: its calls go to the provider, and are counted
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from traceforge.snapshots.gate.gate_findings import GateFinding
    from traceforge.snapshots.gate.pytest_suite import Suite, SuiteReport

RUN_VARIABLE = "TRACEFORGE_RUN"  # Set where a command of ours has entered this process.
MARK = "traceforge"
WORKER_REPORT_KEY = "traceforge"  # in what a worker of xdist sends home
MODES = ("record", "test", "off")
_STATE = pytest.StashKey["PluginGate"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line and of the configuration file."""
    group = parser.getgroup("traceforge", "model calls from approved snapshots")
    group.addoption(
        "--traceforge", choices=MODES, default=None, metavar="record|test|off",
        help="test (the default where there are snapshots): answer model calls from them, and fail what nobody "
        "approved. record: ask the provider what is new. off: do nothing.",
    )  # fmt: skip
    group.addoption(
        "--traceforge-allow-unused", action="store_true", help="A snapshot that no test asks for is no failure."
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before the first file of the suite is imported: a `conftest.py` may make a client, or a call."""
    start_gate(early_config, early_config.known_args_namespace.traceforge or "")


def pytest_configure(config: pytest.Config) -> None:
    """Begin, where a `conftest.py` is what named this plugin."""
    config.addinivalue_line("markers", f'{MARK}("off"): do not answer the model calls of this test from snapshots.')
    start_gate(config, config.getoption("--traceforge") or "")
    keeper = config.stash.get(_STATE, None)
    if keeper is not None and not runs_tests(config):
        keeper.stand_down()


def start_gate(config: pytest.Config, mode: str) -> None:
    """Decide what to do, and do it."""
    if _STATE in config.stash or RUN_VARIABLE in os.environ or mode == "off":
        return
    if not mode and not any(map(has_manifest, (config.rootpath, *config.rootpath.parents))):
        return  # without having imported anything of ours
    plainly = SkipAssertRewrite()
    sys.meta_path.insert(0, plainly)
    config.add_cleanup(lambda: sys.meta_path.remove(plainly))
    with pause_garbage_collection():
        _open(config, mode)


def _open(config: pytest.Config, mode: str) -> None:
    from traceforge.config import find_project

    project = find_project(str(config.rootpath))
    if not mode:
        mode = "test" if has_manifest(Path(project)) else "off"
    if mode != "off":
        config.stash[_STATE] = keeper = PluginGate(config, mode)
        config.pluginmanager.register(keeper, "traceforge-gate")
        config.add_cleanup(keeper.close)
        keeper.open(project)


def has_manifest(folder: Path) -> bool:
    """Has somebody approved something here?"""
    return (folder / ".ai-snapshots" / "manifest.json").exists()


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Modules that are imported leave nothing to collect, and looking through all of pytest for it takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class SkipAssertRewrite:
    """Finds our own modules before pytest does, which would look for `assert` in every one of them, and write each
    anew where no bytecode may be kept.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:  # noqa: ANN401
        """Called by Python for every import."""
        return PathFinder.find_spec(name, path, target) if name.startswith("traceforge.") else None


def is_worker(config: pytest.Config) -> bool:
    """Is this a process that xdist has started?"""
    return hasattr(config, "workerinput")


def runs_tests(config: pytest.Config) -> bool:
    """Or does it only start others that do?"""
    others = any(config.getoption(name, None) for name in ("numprocesses", "tx"))
    return is_worker(config) or not others


class PluginGate:
    """The gate of one pytest process."""

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._config = config
        self._mode = mode
        self._suite: Suite | None = None
        self._found: list[SuiteReport] = []
        self._tests: dict[str, str] = {}
        self._lines: list[str] = []
        self._red = False
        self._open = False

    def open(self, project: str) -> None:
        """Load what is approved, and answer from it: in every process, until it is known that it runs no tests."""
        from traceforge.config import load_config
        from traceforge.errors import TraceForgeError
        from traceforge.snapshots.gate.pytest_suite import Suite

        if self._mode == "record" and os.environ.get("CI", "").lower() not in ("", "0", "false"):
            raise pytest.UsageError("--traceforge=record writes, and CI is set. Run it on your machine and commit.")
        try:
            self._suite = Suite(load_config(project), self._mode)
        except TraceForgeError as exc:
            raise pytest.UsageError(f"traceforge: {exc.code} {exc.message}\n{exc.hint}") from None
        if self._suite.gate.findings:
            from traceforge.report.text_format import finding_lines

            raise pytest.UsageError(f"the snapshots do not verify:\n{finding_lines(list(self._suite.gate.findings))}")
        self._suite.start()
        self._open = True

    def close(self) -> None:
        """Leave the process as it was; a second time changes nothing."""
        if self._open:
            self._open = False
            self._found.append(self.suite.stop())

    def stand_down(self) -> None:
        """Other processes run the tests, and import what this one has imported so far."""
        self.close()
        self._found.clear()

    @property
    def suite(self) -> Suite:
        """It is there once the gate is open."""
        assert self._suite is not None
        return self._suite

    def pytest_report_header(self) -> str:
        """One line at the top."""
        approved = len(self.suite.gate.approved_calls)
        return f"traceforge: {self._mode}, {approved} approved call{'' if approved == 1 else 's'}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A test begins, perhaps again."""
        mark = item.get_closest_marker(MARK)
        said = str(mark.args[0]) if mark is not None and mark.args else ""
        if said not in ("", "off"):
            raise pytest.UsageError(f'{item.nodeid}: @pytest.mark.{MARK} takes "off", and not {said!r}.')
        self.suite.begin(item.nodeid, said)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """A test that asked what nobody approved, or connected elsewhere, has failed, whatever it made of that."""
        outcome = yield
        report: pytest.TestReport = outcome.get_result()
        shown = self.suite.findings(item.nodeid)
        if not shown:
            return
        text = _text(shown)
        if report.failed:
            add = getattr(report.longrepr, "addsection", None)  # A section of the report itself is not in --junitxml.
            if add is not None:
                add("traceforge", text)
            else:
                report.sections.append(("traceforge", text))
        else:
            report.outcome = "failed"
            report.longrepr = text

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How a test ended: in the process that knows of all of them."""
        known = self._tests.get(report.nodeid)
        if report.failed:
            self._tests[report.nodeid] = "failed"
        elif report.skipped:
            self._tests[report.nodeid] = known if known == "failed" else "skipped"
        elif report.when == "call" and known is None:
            self._tests[report.nodeid] = "passed"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ANN401 (a class of xdist)
        """A worker has ended: what it found."""
        from traceforge.snapshots.gate.pytest_suite import SuiteReport

        told = getattr(node, "workeroutput", {}).get(WORKER_REPORT_KEY)
        if told is not None:
            self._found.append(SuiteReport.from_plain(told))
        else:
            self._fail("a worker ended without saying what it asked: nothing can be said about its calls")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """All tests have ended."""
        from traceforge.snapshots.gate.pytest_suite import merge_reports

        self.close()
        if is_worker(self._config):
            self._config.workeroutput[WORKER_REPORT_KEY] = self._found[0].to_plain()  # type: ignore[attr-defined]  # of xdist
            return
        together = merge_reports(self._found)
        if self._mode == "record":
            self._record(together)
        else:
            self._judge(together)
        if self._red and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401 (a class of pytest's insides)
        """What is to be said about the suite as a whole."""
        if self._lines and not is_worker(self._config):
            terminalreporter.section("traceforge", red=self._red, green=not self._red)
            for line in self._lines:
                terminalreporter.write_line(line)

    def _fail(self, *lines: str) -> None:
        self._red = True
        self._lines += lines

    def _judge(self, found: SuiteReport) -> None:
        from traceforge.snapshots.gate.pytest_suite import judge_outside, judge_suite

        for message in found.elsewhere:
            self._fail(f"a call outside of the tests: {message}")
        outside = judge_outside(self.suite.gate, found)
        if outside:
            self._fail(_text(outside))
        if not self._config.getoption("--traceforge-allow-unused"):
            unused = judge_suite(self.suite.gate, found, self._tests)
            if unused:
                self._fail(_text(unused))
        self._lines += list(_said(found))
        if found.uncompared and self.suite.loaded.config.match.redacted == "require":
            self._fail(f"redacted parts of {found.uncompared} calls could not be compared")
        if found.missed:
            self._lines.append("to accept what changed: pytest --traceforge=record, then traceforge approve --all")

    def _record(self, found: SuiteReport) -> None:
        from traceforge.report.gate_text import change_lines
        from traceforge.snapshots.gate.pytest_suite import record_suite

        proposal, unread = record_suite(self.suite.gate, found, self._tests)
        self._lines += [f"{found.played} calls answered from snapshots, {len(found.traces)} live"]
        self._lines += list(change_lines(proposal.changes))
        if unread:
            self._fail(f"{unread} calls could not be kept, and nothing is known about them")
        if proposal.changes:
            self._lines.append('next: traceforge diff, then traceforge approve --all --reason "…"')


def _said(found: SuiteReport) -> Iterator[str]:
    yield f"{found.played} call{'' if found.played == 1 else 's'} replayed"
    if found.request_gated:
        yield f"only the request is gated in {found.request_gated} of them"
    if found.left_alone:
        yield f"{found.left_alone} calls of tests that are marked as off were not gated"
    if found.synthesised:
        yield f"{found.synthesised} answers were made from snapshots that have no wire answer"
    if found.uncompared:
        yield f"{found.uncompared} calls were compared without their redacted parts"
    for declared, times in sorted(found.volatile.items()):
        yield f"ignored as volatile: {declared} ({times} times)"


def _text(shown: list[GateFinding]) -> str:
    from traceforge.report.gate_text import gate_finding_lines

    return "\n".join(gate_finding_lines(shown))


class ReplayedCalls:
    """What the fixture `traceforge` gives a test: its model calls, as far as they were answered from snapshots."""

    def __init__(self, keeper: PluginGate | None, scope: str) -> None:
        self._keeper = keeper
        self._scope = scope

    @property
    def active(self) -> bool:
        """Are calls answered from snapshots at all?"""
        return self._keeper is not None

    @property
    def replayed(self) -> int:
        """Calls of this test that were answered so far."""
        return self._keeper.suite.calls(self._scope) if self._keeper is not None else 0


@pytest.fixture
def traceforge(request: pytest.FixtureRequest) -> ReplayedCalls:
    """The model calls of this test."""
    return ReplayedCalls(request.config.stash.get(_STATE, None), request.node.nodeid)
