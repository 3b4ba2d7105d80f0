"""Fixtures for every test; also puts this folder on the path, so that tests can import `support`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from support.node import CanonicalOracle


def pytest_configure(config: pytest.Config) -> None:
    """Who leaves the long runs out has shorter ones of the others too. A worker knows before it reads the tests."""
    from support.example_counts import RunLength

    RunLength.is_short = "not slow" in config.option.markexpr


@pytest.fixture(scope="session", autouse=True)
def plain_pytest() -> None:
    """What tests start from here is a pytest without the plugins of our own tests."""
    from support.command import PLAIN_PYTEST

    os.environ |= PLAIN_PYTEST


@pytest.fixture(scope="session")
def oracle() -> Iterator[CanonicalOracle]:
    """Node.js, to ask what it reads and prints."""
    from support.node import CanonicalOracle

    judge = CanonicalOracle()
    yield judge
    judge.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers that tests have recorded as `summary`, also where workers ran them, and what was counted."""
    from support.case_counts import format_counts, tally

    passed = terminalreporter.getreports("passed")
    told = [str(value) for report in passed for name, value in report.user_properties if name == "summary"]
    counted = tally(passed)
    if counted:
        told += format_counts(counted)
    if told:
        terminalreporter.section("numbers")
        for line in sorted(told):
            terminalreporter.write_line(line)
    if terminalreporter.config.stash.get(_MISSING, None):
        terminalreporter.section("not run", red=True)
        for cell in terminalreporter.config.stash[_MISSING]:
            terminalreporter.write_line(f"no test ran for {cell}", red=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of everything in which a backend, a merge strategy, a lane or purge was left out is no success."""
    from support.case_counts import find_missing_cells, tally

    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput") or not _is_whole(config):
        return
    config.stash[_MISSING] = find_missing_cells(tally(reporter.getreports("passed")))
    if config.stash[_MISSING] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_whole(config: pytest.Config) -> bool:
    """Was every test asked for, but for those that only `make test-all` and `make test-model` run?"""
    chosen = config.option.keyword or config.option.collectonly or config.getoption("lf", default=False)
    marks = config.option.markexpr in ("", "not soak and not model", "not slow and not soak and not model")
    return marks and not chosen and config.args_source is pytest.Config.ArgsSource.TESTPATHS


_MISSING = pytest.StashKey[list[str]]()
