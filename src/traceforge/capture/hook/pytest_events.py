"""Which tests of a child process began, and how each ended.

In: pytest's own modules, as they are imported; 7 to 9, with and without xdist. Out: reports to the watcher, by the
node id that `callsite.current_test` has for the calls of a test. Never: imports pytest, or changes a test.

    _pytest.runner._update_current_test_var        a test begins, maybe once more
    _pytest.main.Session.pytest_runtest_logreport  a phase of it has ended; under xdist, in the worker and outside
    _pytest.main.Session.pytest_collectreport      a module was collected, or skipped as a whole
    _pytest.main.wrap_session                      the whole run: a process that ends within it has not run its tests
"""

from __future__ import annotations

from typing import Any

from .callsite import current_test
from .patches import Hook, Patches

BEGAN = "began"


def make_hooks(watcher: Any) -> dict[str, Hook]:
    """Hooks for the modules of pytest that know about tests."""

    def send_event(find_event: Any, *args: Any) -> None:
        try:
            scope, event = find_event(*args)
            if scope and event:
                watcher.report_test(scope, event)
        except Exception as exc:  # noqa: BLE001 (no error of the hook may reach a test)
            watcher.add_fault(exc)

    def send_suite_event(event: str) -> None:
        try:
            watcher.report_suite(event)
        except Exception as exc:  # noqa: BLE001 (no error of the hook may reach a test)
            watcher.add_fault(exc)

    def hook_runner(module: Any, patches: Patches) -> None:
        def wrap(update: Any) -> Any:
            def watched(item: Any, when: Any) -> Any:
                result = update(item, when)
                if when == "setup":
                    send_event(lambda: (current_test(), BEGAN))
                return result

            return watched

        patches.wrap(module, "_update_current_test_var", wrap)

    def hook_session(module: Any, patches: Patches) -> None:
        def wrap(log: Any) -> Any:
            def watched(self: Any, report: Any) -> Any:
                send_event(_read_outcome, report)
                return log(self, report)

            return watched

        def wrap_collection(log: Any) -> Any:
            def watched(self: Any, report: Any) -> Any:
                if report.outcome == "skipped":
                    send_event(lambda: (report.nodeid, report.outcome))
                return log(self, report)

            return watched

        def wrap_session(run: Any) -> Any:
            def watched(*args: Any) -> Any:
                send_suite_event("began")
                try:
                    return run(*args)
                finally:
                    send_suite_event("ended")

            return watched

        patches.wrap(module, "wrap_session", wrap_session)
        patches.wrap(module.Session, "pytest_runtest_logreport", wrap)
        patches.wrap(module.Session, "pytest_collectreport", wrap_collection)

    return {"_pytest.runner": hook_runner, "_pytest.main": hook_session}


def _read_outcome(report: Any) -> tuple[str, str]:
    """The test, and its outcome as far as this phase decides it; "" for a setup or teardown that passed."""
    outcome = report.outcome
    is_subtest = hasattr(report, "context")
    is_partial = report.when != "call" or is_subtest
    if outcome == "failed" or (outcome == "skipped" and not is_subtest) or (outcome == "passed" and not is_partial):
        event = outcome
    else:
        event = ""
    return report.nodeid.replace("\x00", "(null)"), event
