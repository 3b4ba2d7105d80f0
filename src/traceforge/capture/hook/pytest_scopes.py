"""Scopes of a pytest process outside of tests: fixtures wider than a function, imports, and its start.

A test that runs first would otherwise own the calls of a fixture that all tests share, and another one in another
order, or in another worker.

In: fixtures and collectors of pytest, as a plugin or a patch sees them. Out: the scope of a call that is made now.
Never: imports pytest, or changes what a fixture does.

    @ session fixture tests::menu                     of the folder or file that defines it
    @ module fixture tests::menu of tests/test_a.py   where it is set up once for each module
    @ import of tests/test_a.py
    @ start of pytest                                 anything else outside of tests: conftest files, plugins
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .callsite import current_test

WORKER_VARIABLE = "PYTEST_XDIST_WORKER"  # Which worker of pytest-xdist this is; its children inherit it.
PREFIX = "@ "
START = f"{PREFIX}start of pytest"
OPENED, BROKEN = "opened", "broken"  # a fixture was set up or a module imported; or it failed

ReportEvent = Callable[[str, str], object]  # called with a scope and an event
EndScope = Callable[[bool], None]  # called with whether the scope failed

_open_scopes: list[str] = []  # the innermost last
_outside_scope = ""
_worker = os.environ.get(WORKER_VARIABLE, "")


def current_scope() -> str:
    """The scope of a call that is made now: the innermost open one, else the test, else the start of pytest."""
    return _open_scopes[-1] if _open_scopes else current_test() or _outside_scope


def is_fixture_scope(scope: str) -> bool:
    """Whether the scope is a fixture that tests share."""
    return scope.startswith(PREFIX) and " fixture " in scope


def current_worker() -> str:
    """The worker of pytest-xdist that this process is, or that started it; "" outside of workers.

    A test may replace the environment, so the variable is read when the process starts, and when pytest does.
    """
    return _worker


def enter_pytest() -> None:
    """From now on, calls outside of tests belong to the start of pytest."""
    global _outside_scope, _worker  # noqa: PLW0603 (of the process, as the test that runs is)
    _outside_scope = START
    _worker = os.environ.get(WORKER_VARIABLE, "")


def leave_pytest() -> None:
    """Calls outside of tests belong to no scope."""
    global _outside_scope  # noqa: PLW0603
    _outside_scope = ""
    _open_scopes.clear()


def watch_fixture(fixturedef: Any, request: Any, report: ReportEvent) -> EndScope | None:
    """Open the scope of a fixture that is wider than a function, until the returned function is called, which takes
    whether the fixture failed. Its teardown is in the scope, too. None: it belongs to its test.
    """
    if fixturedef.scope == "function":
        return None
    scope = _name_fixture(fixturedef, request)
    depths: list[int] = []  # while it is torn down: of the open scopes before

    def begin_teardown() -> None:
        depths.append(len(_open_scopes))
        _open_scopes.append(scope)

    def end_teardown() -> None:
        if depths:
            del _open_scopes[depths.pop() :]

    def end_setup(has_failed: bool) -> None:
        del _open_scopes[depth:]
        fixturedef.addfinalizer(begin_teardown)  # The last one that is added runs first.
        report(scope, BROKEN if has_failed else OPENED)

    fixturedef.addfinalizer(end_teardown)
    depth = len(_open_scopes)
    _open_scopes.append(scope)
    return end_setup


def watch_import(collector: Any, report: ReportEvent) -> EndScope | None:
    """Open the scope of a test file that is imported, as `watch_fixture` does. None: nothing is imported."""
    if not any(base.__name__ == "File" for base in type(collector).__mro__):
        return None
    scope = f"{PREFIX}import of {collector.nodeid}"
    depth = len(_open_scopes)
    _open_scopes.append(scope)

    def end_import(has_failed: bool) -> None:
        del _open_scopes[depth:]
        report(scope, BROKEN if has_failed else OPENED)

    return end_import


def _name_fixture(fixturedef: Any, request: Any) -> str:
    """The name of a fixture's scope; the same in every worker, in every order of tests."""
    base, node = str(fixturedef.baseid).removesuffix("."), str(request.node.nodeid)
    name = f"{base}::{fixturedef.argname}" if base else str(fixturedef.argname)
    if hasattr(request, "param"):
        value = request.param
        is_plain = isinstance(value, (str, int, float)) or value is None
        name += f"[{value if is_plain else request.param_index}]"
    of_node = f" of {node}" if fixturedef.scope in ("class", "module", "package") and node != base else ""
    return f"{PREFIX}{fixturedef.scope} fixture {name}{of_node}"
