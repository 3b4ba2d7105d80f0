"""Tests of a process that was entered: which began, and how each ended.

In: pytest's own modules, as they are imported; 7 to 9, with and without xdist. Out: what the watcher is told about
tests, by the node id that `callsite.current_test` has for their calls. Never: imports pytest, or changes a test.

    _pytest.runner._update_current_test_var        a test begins, maybe once more
    _pytest.main.Session.pytest_runtest_logreport  a phase of it has ended; under xdist, in the worker and outside
"""

from __future__ import annotations

from typing import Any

from .callsite import current_test
from .patches import Hook, Patches

BEGAN = "began"


def hooks(watcher: Any) -> dict[str, Hook]:
    """The modules of pytest that know."""

    def tell(work: Any, *args: Any) -> None:
        try:
            scope, what = work(*args)
            if scope and what:
                watcher.tell_test(scope, what)
        except Exception as exc:  # noqa: BLE001 (nothing of ours may reach a test)
            watcher.fault(exc)

    def hook_runner(module: Any, patches: Patches) -> None:
        def make(update: Any) -> Any:
            def watched(item: Any, when: Any) -> Any:
                result = update(item, when)
                if when == "setup":
                    tell(lambda: (current_test(), BEGAN))
                return result

            return watched

        patches.wrap(module, "_update_current_test_var", make)

    def hook_session(module: Any, patches: Patches) -> None:
        def make(log: Any) -> Any:
            def watched(self: Any, report: Any) -> Any:
                tell(_outcome, report)
                return log(self, report)

            return watched

        patches.wrap(module.Session, "pytest_runtest_logreport", make)

    return {"_pytest.runner": hook_runner, "_pytest.main": hook_session}


def _outcome(report: Any) -> tuple[str, str]:
    """The test, and what this phase makes of it: a setup or teardown that passed says nothing yet."""
    outcome = report.outcome
    partial = report.when != "call" or hasattr(report, "context")  # a subtest has a context, and is not the test
    said = outcome if outcome in ("failed", "skipped") or (outcome == "passed" and not partial) else ""
    if said == "skipped" and hasattr(report, "context"):
        said = ""
    return report.nodeid.replace("\x00", "(null)"), said
