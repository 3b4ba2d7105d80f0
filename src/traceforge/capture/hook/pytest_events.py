"""Which tests of a child process were collected, which began, and how each ended; and the scopes outside of tests.

In: pytest's own modules, as they are imported; 7 to 9, with and without xdist. Out: reports to the watcher, by the
node id that `callsite.current_test` has for the calls of a test. Never: imports pytest, or changes how a test ends;
the traceback of a refused call is shortened.

    _pytest.runner._update_current_test_var        a test begins, maybe once more
    _pytest.main.Session.pytest_runtest_logreport  a phase of it has ended; under xdist, in the worker and outside
    _pytest.main.Session.pytest_collectreport      a module was collected, or skipped as a whole
    _pytest.main.wrap_session                      the whole run: a process that ends within it has not run its tests
    _pytest.main.Session.genitems, perform_collect tests were collected, and perhaps some deselected
    _pytest.config.Config.parse                    pytest begins, here or in a worker of xdist
    _pytest.fixtures.pytest_fixture_setup          a fixture is set up
    _pytest.runner.pytest_make_collect_report      a test file is imported
    _pytest.runner.pytest_runtest_makereport       the error of a test is written down
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .callsite import current_test
from .patches import Hook, Patches
from .pytest_scopes import OPENED, START, enter_pytest, watch_fixture, watch_import
from .short_traceback import NOTE, shorten_traceback

BEGAN = "began"


def make_hooks(watcher: Any) -> dict[str, Hook]:
    """Hooks for the modules of pytest that know about tests."""
    events = _PytestEvents(watcher)
    return {
        "_pytest.config": events.hook_config,
        "_pytest.fixtures": events.hook_fixtures,
        "_pytest.main": events.hook_session,
        "_pytest.runner": events.hook_runner,
    }


class _PytestEvents:
    """Patches that report to a watcher. No error of theirs reaches a test."""

    def __init__(self, watcher: Any) -> None:
        self._watcher = watcher
        self._collected: dict[str, None] = {}

    def hook_config(self, module: Any, patches: Patches) -> None:
        def wrap(parse: Any) -> Any:
            def watched(*args: Any, **kwargs: Any) -> Any:
                enter_pytest()
                self._send(START, OPENED)
                return parse(*args, **kwargs)

            return watched

        patches.wrap(module.Config, "parse", wrap)

    def hook_fixtures(self, module: Any, patches: Patches) -> None:
        def wrap(set_up: Any) -> Any:
            def watched(fixturedef: Any, request: Any) -> Any:
                end = self._open_scope(watch_fixture, fixturedef, request)
                has_failed = True
                try:
                    result = set_up(fixturedef, request)
                    has_failed = False
                finally:
                    end(has_failed)
                return result

            return watched

        patches.wrap(module, "pytest_fixture_setup", wrap)

    def hook_runner(self, module: Any, patches: Patches) -> None:
        def wrap(update: Any) -> Any:
            def watched(item: Any, when: Any) -> Any:
                result = update(item, when)
                if when == "setup":
                    self._send(current_test(), BEGAN)
                return result

            return watched

        def wrap_import(make_report: Any) -> Any:
            def watched(collector: Any) -> Any:
                end = self._open_scope(watch_import, collector)
                report = make_report(collector)
                end(report.outcome != "passed")
                return report

            return watched

        def wrap_report(make_report: Any) -> Any:
            def watched(item: Any, call: Any) -> Any:
                report = make_report(item, call)
                self._shorten_traceback(item, call, report)
                return report

            return watched

        patches.wrap(module, "_update_current_test_var", wrap)
        patches.wrap(module, "pytest_make_collect_report", wrap_import)
        patches.wrap(module, "pytest_runtest_makereport", wrap_report)

    def hook_session(self, module: Any, patches: Patches) -> None:
        def wrap(log: Any) -> Any:
            def watched(session: Any, report: Any) -> Any:
                self._send_outcome(report)
                return log(session, report)

            return watched

        def wrap_collection(log: Any) -> Any:
            def watched(session: Any, report: Any) -> Any:
                if report.outcome == "skipped":
                    self._send(report.nodeid, report.outcome)
                return log(session, report)

            return watched

        def wrap_items(list_items: Any) -> Any:
            def watched(session: Any, node: Any) -> Any:
                for item in list_items(session, node):
                    self._collected[item.nodeid] = None
                    yield item

            return watched

        def wrap_collect(collect: Any) -> Any:
            def watched(session: Any, *args: Any, **kwargs: Any) -> Any:
                self._collected.clear()
                result = collect(session, *args, **kwargs)
                self._send_collection(session)
                return result

            return watched

        def wrap_session(run: Any) -> Any:
            def watched(*args: Any) -> Any:
                self._send_suite_event("began")
                try:
                    return run(*args)
                finally:
                    self._send_suite_event("ended")

            return watched

        patches.wrap(module, "wrap_session", wrap_session)
        patches.wrap(module.Session, "pytest_runtest_logreport", wrap)
        patches.wrap(module.Session, "pytest_collectreport", wrap_collection)
        patches.wrap(module.Session, "genitems", wrap_items)
        patches.wrap(module.Session, "perform_collect", wrap_collect)

    def _open_scope(self, watch: Any, *args: Any) -> Any:
        """Open a scope, if there is one; returns what ends it."""
        try:
            return watch(*args, self._send) or _end_nothing
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)
            return _end_nothing

    def _shorten_traceback(self, item: Any, call: Any, report: Any) -> None:
        """Leave the lines of an SDK out of the error of a refused call. Its diff is in the report of the gate."""
        if not self._watcher.replays or call.excinfo is None or report.outcome != "failed":
            return
        try:
            short = shorten_traceback(call.excinfo, item.config, self._watcher.call_sites.is_application)
            if short is not None:
                short.addsection("traceforge", NOTE)
                report.longrepr = short
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)

    def _send(self, scope: str, event: str) -> None:
        try:
            if scope and event:
                self._watcher.report_test(scope, event)
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)

    def _send_suite_event(self, event: str) -> None:
        try:
            self._watcher.report_suite(event)
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)

    def _send_outcome(self, report: Any) -> None:
        try:
            test, event = _read_outcome(report)
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)
        else:
            self._send(test, event)

    def _send_collection(self, session: Any) -> None:
        try:
            selected = [_name_test(item) for item in session.items]
            is_partial = is_selection(session, self._collected)
            self._watcher.report_collection(list(self._collected), is_partial, selected)
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)


def _end_nothing(_: bool) -> None:
    """The end of a scope that was not opened."""


def is_selection(session: Any, collected: Iterable[str]) -> bool:
    """Whether a session runs only some of the tests that it collected, or was given the names of some."""
    if any("::" in str(word) for word in session.config.args):
        return True
    return not {*collected} <= {item.nodeid for item in session.items}


def _read_outcome(report: Any) -> tuple[str, str]:
    """The test, and its outcome as far as this phase decides it; "" for a setup or teardown that passed."""
    outcome = report.outcome
    is_subtest = hasattr(report, "context")
    is_partial = report.when != "call" or is_subtest
    if outcome == "failed" or (outcome == "skipped" and not is_subtest) or (outcome == "passed" and not is_partial):
        event = outcome
    else:
        event = ""
    return _name_test(report), event


def _name_test(source: Any) -> str:
    """The node id of a test or of a report about it, as `callsite.current_test` has it."""
    return str(source.nodeid).replace("\x00", "(null)")
