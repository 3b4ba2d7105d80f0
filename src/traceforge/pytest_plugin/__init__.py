"""The gate inside pytest: the edge that decides whether there is anything to do.

In: a run of pytest. Out: a `PluginGate` for each project that has approved snapshots and whose files are collected.
Never: costs anything, or is noticed, in a project without snapshots, except in CI: there the base of the build is
asked for snapshots that were removed, a base that cannot be read fails a project whose files show that it uses
TraceForge (`usage_signs.py`), and a project with a configuration has a gate that lets no model call out. Stands aside
where `traceforge run`, `record` or `test` started pytest.

    pytest                            replay, where there are snapshots; in CI also where there is a configuration
    pytest --traceforge=record        ask the provider; what is new or changed becomes a pending change
    pytest --traceforge=off           do nothing
    @pytest.mark.traceforge("off")    not in this test: its calls go to the provider, and are counted

Deferred imports, in CPU time measured side by side: pytest loads this module in every project, so `plugin_gate` waits
until there are snapshots (a third of what importing pytest itself takes). In `plugin_gate`, the printing of findings
waits for one (0.4 of that third), and `recorded_changes` for `--traceforge=record` (1.3 of it).
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from traceforge.build_environment import is_ci

if TYPE_CHECKING:
    from traceforge.pytest_plugin.plugin_gate import PluginGate
    from traceforge.pytest_plugin.project_gates import ProjectGates

HOOK_MODULE = "_traceforge_hook.bootstrap"  # Loaded where a TraceForge command has instrumented this process.
MARK = "traceforge"
MODES = ("record", "test", "off")
CHECKS_FOLDER, CHECK_SUFFIXES = ".ai-checks", (".yaml", ".yml")
GATES_KEY: pytest.StashKey[ProjectGates] = pytest.StashKey()
WORKER_REPORT_KEY = "traceforge"  # in what a worker of pytest-xdist sends
DIRECTORY: Any = getattr(pytest, "Directory", None)  # since pytest 8; before, each file looks for its project
LATE_CALLS_KEY = "traceforge_late_calls"  # in what a worker gets: the file for what it asks after it has reported
LATE_CALLS_FILE: pytest.StashKey[Path] = pytest.StashKey()
# Options with which pytest runs no test and exits with 0, by their names in the configuration.
OPTIONS_WITHOUT_TESTS = {
    "help": ("-h", "--help"),
    "version": ("-V", "--version"),
    "markers": ("--markers",),
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
    "cacheshow": ("--cache-show",),
    "collectonly": ("--co", "--collectonly", "--collect-only"),
    "setupplan": ("--setupplan", "--setup-plan"),
    "setuponly": ("--setupplan", "--setup-plan", "--setuponly", "--setup-only"),  # The first two set the others.
}
# As pytest was started, before a plugin or a `conftest.py` of the project runs, which could make it look like another
# build, or like none.
LOADED_ENVIRONMENT = dict(os.environ)


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
    if GATES_KEY not in config.stash:
        start_gate(config, config.getoption("--traceforge") or "")
    gates = config.stash.get(GATES_KEY, None)
    if gates is not None and not runs_tests(config):
        gates.stand_down()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """In CI, refuse a file of the project with which pytest exits with 0 and runs no test."""
    if not is_ci(LOADED_ENVIRONMENT) or is_worker(config):
        return
    words = [*map(str, config.invocation_params.args), *LOADED_ENVIRONMENT.get("PYTEST_ADDOPTS", "").split()]
    named_options = {word.partition("=")[0] for word in words} | {word[:2] for word in words if word[1:2] != "-"}
    for name, options in OPTIONS_WITHOUT_TESTS.items():
        if config.getoption(name, None) and named_options.isdisjoint(options):
            message = f"a file of the project sets {options[-1]} in addopts, and no test would run: remove it."
            raise pytest.UsageError(message)


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: pytest.Collector) -> None:
    """Start the gate of a project whose folder is about to be collected, before its `conftest.py` is imported; or
    that of a file that is about to be imported, where no gate was started before.

    A folder without tests, such as one with sample data, starts none; nor does one beside the paths that pytest was
    given, which it looks at and does not collect.
    """
    if DIRECTORY is not None and isinstance(collector, DIRECTORY):
        if find_gated_folder(collector.path, collector.config, is_nearest=True) is not None:
            names = os.listdir(collector.path)
            if any(name == "conftest.py" or name.startswith("test") for name in names):
                start_gate(collector.config, collector.config.getoption("--traceforge") or "", collector.path)
    elif isinstance(collector, pytest.File) and (DIRECTORY is None or GATES_KEY not in collector.config.stash):
        folder = find_gated_folder(collector.path.parent, collector.config)
        if folder is not None:
            start_gate(collector.config, collector.config.getoption("--traceforge") or "", folder)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A check file in a folder `.ai-checks` is a file of tests."""
    if CHECKS_FOLDER not in file_path.parts or file_path.suffix.lower() not in CHECK_SUFFIXES:
        return None
    check_items = import_module("traceforge.pytest_plugin.check_items")  # for projects with checks only
    collector: pytest.Collector = check_items.CheckFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 (a class of xdist)
    """A worker of pytest-xdist is about to start. What it calls while it exits, it can only write to a file."""
    file = node.config.stash.setdefault(
        LATE_CALLS_FILE, Path(tempfile.gettempdir(), f"traceforge-{secrets.token_hex(16)}.jsonl")
    )
    node.workerinput[LATE_CALLS_KEY] = str(file)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 (a class of xdist)
    """A worker of pytest-xdist has ended, and sent what it observed in each project; this process collects none."""
    reports = getattr(node, "workeroutput", {}).get(WORKER_REPORT_KEY, {})
    for folder in reports:
        start_gate(node.config, node.config.getoption("--traceforge") or "", Path(folder))
    gates = node.config.stash.get(GATES_KEY, None)
    if gates is not None:
        gates.take_worker_reports(reports)


def start_gate(config: pytest.Config, mode: str, folder: Path | None = None) -> None:
    """Start the gate of the project in a folder, or of all projects that the command line names, unless it is off.

    In CI, snapshots that the base of the build has and this tree lacks are an error; `open_gates` asks Git for them.
    """
    is_build = is_ci(LOADED_ENVIRONMENT)
    if mode == "off" and is_build and not is_on_command_line(config, "--traceforge=off", "--traceforge off"):
        mode = ""
    if HOOK_MODULE in sys.modules or mode == "off":
        return
    folders = [folder.resolve()] if folder is not None else find_projects(config)
    if GATES_KEY in config.stash:
        config.stash[GATES_KEY].add(*folders)
        return
    if not mode and not is_build and not folders:
        return
    skip_rewrite = SkipAssertRewrite()
    sys.meta_path.insert(0, skip_rewrite)
    config.add_cleanup(lambda: sys.meta_path.remove(skip_rewrite))
    with pause_garbage_collection():
        from traceforge.pytest_plugin.project_gates import open_gates

        open_gates(config, mode, folders)


def find_projects(config: pytest.Config) -> list[Path]:
    """The folders with a gate, upwards from the root of the suite and from each path of the command line."""
    invocation_folder = config.invocation_params.dir
    words = config.known_args_namespace.file_or_dir
    starts = [config.rootpath, *(invocation_folder / str(word).partition("::")[0] for word in words)]
    if not words:
        starts += [invocation_folder, *(config.rootpath / path for path in config.getini("testpaths"))]
    folders = [find_gated_folder(start, config) for start in starts if os.path.lexists(start)]
    return list(dict.fromkeys(folder for folder in folders if folder is not None))


def list_asked_paths(config: pytest.Config) -> list[str]:
    """The files and folders that the command line asks for, else the folder that pytest was started in. What a file
    of the project adds, as in `addopts` or `testpaths`, narrows nothing: a pull request can change it.
    """
    folder, words = config.invocation_params.dir, [*map(str, config.invocation_params.args)]
    paths = [str(word) for word in config.known_args_namespace.file_or_dir if str(word) in words]
    return [str(folder / path.partition("::")[0]) for path in paths] or [str(folder)]


def is_on_command_line(config: pytest.Config, *options: str) -> bool:
    """Whether the command line or PYTEST_ADDOPTS has one of these options: in CI, a file of the project may not
    weaken the gate, because a pull request can change it.
    """
    words = " ".join([*config.invocation_params.args, LOADED_ENVIRONMENT.get("PYTEST_ADDOPTS", "")])
    return any(option in words for option in options)


def find_gated_folder(start: Path, config: pytest.Config, *, is_nearest: bool = False) -> Path | None:
    """The nearest folder upwards that has `.ai-snapshots`; the search ends at the Git repository. In CI, where no
    folder has them: the nearest one with a configuration, as no model call goes out there unasked.

    `is_nearest`: only if it is `start` itself. A broken or emptied tree is an error of the gate and never switches it
    off, nor does a configuration in between, or a submodule below the folder that pytest was started in: a pull
    request can make one of a folder.
    """
    start, invocation_folder = start.resolve(), config.invocation_params.dir.resolve()
    is_build, configured_folder = is_ci(LOADED_ENVIRONMENT), None
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".ai-snapshots"):
            return folder if folder == start or not is_nearest else None
        if is_build and configured_folder is None and is_configured(folder):
            configured_folder = folder
        if is_nearest and configured_folder is None:
            return None
        if os.path.lexists(folder / ".git") and invocation_folder not in folder.parents:
            break
    return configured_folder


def is_configured(folder: Path) -> bool:
    """Whether a folder has a configuration of TraceForge."""
    from traceforge.pytest_plugin.usage_signs import find_configuration  # for builds only

    return bool(find_configuration(str(folder)))


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
    """Whether this process runs tests itself. The one that starts pytest-xdist's workers does not: it distributes
    tests and has processes to run them, as `-n` sets; one of the two alone (`--tx`, `--dist`) starts none.
    """
    starts_workers = config.getoption("dist", "no") != "no" and bool(config.getoption("tx", None))
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
    gates = request.config.stash.get(GATES_KEY, None)
    return ReplayedCalls(gates.current if gates is not None else None, request.node.nodeid)
