"""The gate inside pytest: the edge that decides whether there is anything to do.

In: a run of pytest. Out: a `PluginGate` in a project that has approved snapshots. Never: costs anything, or is
noticed, in a project without snapshots; and stands aside where `traceforge run`, `record` or `test` started pytest.

    pytest                            replay, where there are snapshots
    pytest --traceforge=record        ask the provider; what is new or changed becomes a pending change
    pytest --traceforge=off           do nothing
    @pytest.mark.traceforge("off")    not in this test: its calls go to the provider, and are counted

Deferred imports, in CPU time measured side by side: pytest loads this module in every project, so `plugin_gate` waits
until there are snapshots (a third of what importing pytest itself takes). In `plugin_gate`, the printing of findings
waits for one (0.4 of that third), and `record_run` for `--traceforge=record` (1.3 of it).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from traceforge.pytest_plugin.plugin_gate import PluginGate

HOOK_MODULE = "_traceforge_hook.bootstrap"  # Loaded where a TraceForge command has instrumented this process.
MARK = "traceforge"
MODES = ("record", "test", "off")
GATE_KEY = pytest.StashKey["PluginGate"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("traceforge", "model calls from approved snapshots")
    group.addoption(
        "--traceforge", choices=MODES, default=None, metavar="record|test|off",
        help="test (the default where there are snapshots): answer model calls from snapshots, and fail a test that "
        "makes a call that is not approved. record: ask the provider what is new. off: do nothing.",
    )  # fmt: skip
    group.addoption(
        "--traceforge-allow-unused", action="store_true", help="Do not fail on snapshots that no test asks for."
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before the first file of the suite is imported: a `conftest.py` may make a client, or a call."""
    start_gate(early_config, early_config.known_args_namespace.traceforge or "")


def pytest_configure(config: pytest.Config) -> None:
    """Start here where a `conftest.py` names this plugin, which is too late for the hook above."""
    config.addinivalue_line("markers", f'{MARK}("off"): do not answer the model calls of this test from snapshots.')
    start_gate(config, config.getoption("--traceforge") or "")
    gate = config.stash.get(GATE_KEY, None)
    if gate is not None and not runs_tests(config):
        gate.stand_down()


def start_gate(config: pytest.Config, mode: str) -> None:
    """Start the gate, unless it runs already, is off, or the project has no snapshots.

    In CI, snapshots that the base of the build has and this tree lacks are an error; `open_gate` asks Git for them.
    """
    is_build = bool(os.environ.get("CI"))
    if mode == "off" and is_build and not is_off_on_command_line(config):
        mode = ""
    if GATE_KEY in config.stash or HOOK_MODULE in sys.modules or mode == "off":
        return
    if not mode and not is_build and find_snapshots_folder(config.rootpath) is None:
        return
    skip_rewrite = SkipAssertRewrite()
    sys.meta_path.insert(0, skip_rewrite)
    config.add_cleanup(lambda: sys.meta_path.remove(skip_rewrite))
    with pause_garbage_collection():
        from traceforge.pytest_plugin.plugin_gate import open_gate

        open_gate(config, mode)


def is_off_on_command_line(config: pytest.Config) -> bool:
    """Whether whoever started pytest switched the gate off: a file of the project, which a pull request brings, may
    not do so in CI.
    """
    words = " ".join([*config.invocation_params.args, os.environ.get("PYTEST_ADDOPTS", "")])
    return "--traceforge=off" in words or "--traceforge off" in words


def find_snapshots_folder(start: Path) -> Path | None:
    """The nearest folder upwards that has `.ai-snapshots`; the search ends at the Git repository.

    A broken or emptied tree is an error of the gate and never switches it off, nor does a configuration in between.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".ai-snapshots"):
            return folder
        if os.path.lexists(folder / ".git"):
            break
    return None


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Importing modules leaves no garbage, and searching all of pytest's objects for some takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class SkipAssertRewrite:
    """Finds our modules before pytest does, which would parse each of them to rewrite `assert` statements, and again
    in every run where no bytecode may be written.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:  # noqa: ANN401
        """Called by Python for every import."""
        return PathFinder.find_spec(name, path, target) if name.startswith("traceforge.") else None


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a process that pytest-xdist has started."""
    return hasattr(config, "workerinput")


def runs_tests(config: pytest.Config) -> bool:
    """Whether this process runs tests itself. The one that starts pytest-xdist's workers does not."""
    starts_workers = any(config.getoption(name, None) for name in ("numprocesses", "tx"))
    return is_worker(config) or not starts_workers


class ReplayedCalls:
    """What the fixture `traceforge` gives a test: its model calls, as far as they were answered from snapshots."""

    def __init__(self, gate: PluginGate | None, scope: str) -> None:
        self._gate = gate
        self._scope = scope

    @property
    def active(self) -> bool:
        """Whether calls are answered from snapshots at all."""
        return self._gate is not None

    @property
    def replayed(self) -> int:
        """Calls of this test that were answered so far."""
        return self._gate.process.count_replayed(self._scope) if self._gate is not None else 0


@pytest.fixture
def traceforge(request: pytest.FixtureRequest) -> ReplayedCalls:
    """The model calls of this test."""
    return ReplayedCalls(request.config.stash.get(GATE_KEY, None), request.node.nodeid)
