"""Fixtures for every test; also puts this folder on the path, so that tests can import `support`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support.environment_check import (
    pytest_runtest_setup,
    pytest_runtest_teardown,
    unchanged_environment,
)

if TYPE_CHECKING:
    from support.node import CanonicalOracle


__all__ = ["pytest_runtest_setup", "pytest_runtest_teardown", "unchanged_environment"]


def pytest_configure(config: pytest.Config) -> None:
    """Choose how much this run tries. Set early: a worker needs it before it imports tests."""
    from hypothesis import HealthCheck, settings

    from support.example_counts import RunLength, scale_examples

    RunLength.set_by_marks(config.option.markexpr)
    busy = [HealthCheck.too_slow]  # A machine that is busy with other tests is no fault of a property.
    settings.register_profile("length", max_examples=scale_examples(100), deadline=None, suppress_health_check=busy)
    settings.load_profile("length")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts jobs in the background so, and the commands that tests start would never see a Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the Hypothesis properties, which `make soak` runs for longer; a slow one is a longer variant already."""
    from hypothesis import is_hypothesis_test

    from support.example_counts import RunLength, fuzz_seconds, fuzz_seeds_for, repeat_with_seeds

    if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj) and not item.get_closest_marker("slow"):
        item.add_marker("fuzz")
        fuzzer = item.get_closest_marker("fuzzer")
        if fuzzer is not None and not RunLength.is_short:
            item.obj = repeat_with_seeds(item.obj, partial(fuzz_seeds_for, fuzz_seconds(fuzzer.args[0])))
        elif RunLength.is_soak:
            item.obj = repeat_with_seeds(item.obj)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long starts first: at the end, the other processes would wait for it."""
    items.sort(key=lambda item: -sum(mark.kwargs.get("seconds", 0) for mark in item.iter_markers("slow")))


def pytest_collection() -> None:
    """Keep the garbage collector from walking through ten thousand tests again and again while they are collected."""
    gc.disable()


def pytest_collection_finish() -> None:
    """And again and again while they run."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def plain_pytest() -> None:
    """The pytest processes that tests start do not load the plugins of our own tests."""
    from support.command import PLAIN_PYTEST

    os.environ |= PLAIN_PYTEST


@pytest.fixture(scope="session", autouse=True)
def developer_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests run as on the machine of a developer, who has no key yet; a test of CI sets the variable."""
    os.environ.pop("CI", None)
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def oracle() -> Iterator[CanonicalOracle]:
    """Node.js, to compare with."""
    from support.node import CanonicalOracle

    node = CanonicalOracle()
    yield node
    node.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers that tests recorded as `summary`, also in workers, and the counts of `counted` tests."""
    from support.case_counts import format_counts, tally

    passed = terminalreporter.getreports("passed")
    numbers = [str(value) for report in passed for name, value in report.user_properties if name == "summary"]
    counted = tally(passed)
    if counted:
        numbers += format_counts(counted)
    if numbers:
        terminalreporter.section("numbers")
        for line in sorted(numbers):
            terminalreporter.write_line(line)
    if terminalreporter.config.stash.get(_MISSING, None):
        terminalreporter.section("not run", red=True)
        for cell in terminalreporter.config.stash[_MISSING]:
            terminalreporter.write_line(f"no test ran for {cell}", red=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A complete run fails if no test counted for a backend, a merge strategy, a lane or purge."""
    from support.case_counts import find_missing_cells, tally

    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput") or not _is_complete_run(config):
        return
    config.stash[_MISSING] = find_missing_cells(tally(reporter.getreports("passed")))
    if config.stash[_MISSING] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_complete_run(config: pytest.Config) -> bool:
    """Whether every test was selected, except those of `make test-all`, `make soak` and `make test-model`."""
    chosen = config.option.keyword or config.option.collectonly or config.getoption("lf", default=False)
    marks = config.option.markexpr in ("", "not soak and not model", "not slow and not soak and not model")
    return marks and not chosen and config.args_source is pytest.Config.ArgsSource.TESTPATHS


_MISSING = pytest.StashKey[list[str]]()
