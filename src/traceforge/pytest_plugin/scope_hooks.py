"""The hooks of pytest that tell which scope a call belongs to where no test makes it, and which tests there are.

In: pytest's hooks. Out: open scopes, and events for the process of the suite. Never: changes a fixture or a test.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol

import pytest

from traceforge.capture.hook.pytest_events import is_selection
from traceforge.capture.hook.pytest_scopes import enter_pytest, watch_fixture, watch_import


class ScopeListener(Protocol):
    """Takes the events: `SuiteProcess` has the same methods."""

    def add_scope_event(self, scope: str, event: str) -> None: ...

    def add_collection(self, tests: Sequence[str], *, is_selection: bool) -> None: ...


class ScopeHooks:
    """The scopes of one pytest process."""

    def __init__(self, listener: ScopeListener) -> None:
        self._listener = listener
        self._collected: list[str] = []
        enter_pytest()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, None]:  # noqa: ANN401
        """A fixture is set up."""
        end = watch_fixture(fixturedef, request, self._listener.add_scope_event)
        outcome = yield
        if end is not None:
            end(outcome.excinfo is not None)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, None]:
        """Report when the import of a test file begins and ends."""
        end = watch_import(collector, self._listener.add_scope_event)
        outcome = yield
        if end is not None:
            end(outcome.excinfo is not None or outcome.get_result().outcome != "passed")

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """A test was found; another plugin may still deselect it."""
        self._collected.append(item.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All tests were found, and it is known which of them run."""
        self._listener.add_collection(self._collected, is_selection=is_selection(session, self._collected))
