"""Tests with approved calls that a build left out although its command asks for all of them.

In: the command that ran pytest, what ran, and the approved calls. Out: a finding for each test, fixture or import
that did not run, for each file of tests that is gone, and for each test that failed in a run that passed. Never:
judges on a developer's machine what did not run, or a command that may choose tests itself.

Which tests run is decided by the command, and by files that a pull request can bring: `-k` or `--deselect` in
`addopts`, `python_functions`, a `conftest.py` that drops tests, a removed folder. What these leave out is not
compared.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from traceforge.build_environment import build_environment, is_ci
from traceforge.findings import IO, Finding
from traceforge.snapshots.gate.gate_findings import describe_calls
from traceforge.snapshots.gate.gate_judgement import RunObservations
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.base_commit import find_gone_files
from traceforge.snapshots.tree.call_counts import FAILED, PASSED, CountRule, find_count_rule
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots, make_run_scopes
from traceforge.snapshots.tree.run_scopes import (
    find_renamed_tests,
    find_scope_file,
    is_command_scope,
    is_shared_scope,
    is_test_scope,
)
from traceforge.snapshots.tree.suite_folders import list_subfolders
from traceforge.wildcards import names_test

# Options of pytest and its common plugins that choose no tests. With any other option, the command may.
HARMLESS_OPTIONS = frozenset(
    {
        "--exitfirst", "--maxfail", "--quiet", "--verbose", "--verbosity", "-c", "--config-file", "--rootdir",
        "--confcutdir", "--ff", "--failed-first", "--nf", "--new-first", "--log-level", "--log-cli-level",
        "--capture", "--tb", "--color", "--no-header", "--no-summary", "--show-capture", "--showlocals",
        "--junitxml", "--junit-xml", "--durations", "--strict-markers", "--strict-config", "--import-mode",
        "--basetemp", "--cov", "--cov-report", "--cov-config", "--cov-branch", "--cov-fail-under", "--cov-append",
        "-n", "--numprocesses", "--dist", "--maxprocesses", "--timeout", "--asyncio-mode", "--traceforge",
        "--traceforge-allow-unused", "-W", "--html", "--self-contained-html", "--benchmark-disable",
    }
)  # fmt: skip
OPTIONS_WITH_VALUE = frozenset(
    {
        "--maxfail", "--verbosity", "-c", "--config-file", "--rootdir", "--confcutdir", "--log-level",
        "--log-cli-level", "--capture", "--tb", "--color", "--show-capture", "--junitxml", "--junit-xml",
        "--durations", "--import-mode", "--basetemp", "--cov-report", "--cov-config", "--cov-fail-under", "-n",
        "--numprocesses", "--dist", "--maxprocesses", "--timeout", "--asyncio-mode", "--traceforge", "-W", "--html",
    }
)  # fmt: skip
OPTIONS_WITH_OPTIONAL_VALUE = frozenset({"--cov"})  # The next word is their value, unless it is an option.
SHORT_OPTIONS_WITH_TEXT = ("-r", "-n", "-W")  # such as -ra and -n2
_FLAGS = re.compile("-[qvslx]+")  # such as -vv and -xq
PYTEST_NAMES = frozenset({"pytest", "py.test"})

AskedFiles = Mapping[str, bool]  # files that a command asks for, by their names in scopes: whether each is gone

_HINT = "Run it, or list it in test.may_skip; a subset that the command itself names is not judged."
_UNKNOWN_TEST_HINT = "Does another recorder answer them? Switch it off, and record them once: each gets its test."
_GONE_HINT = 'Restore it, or remove its snapshots one by one: traceforge snapshot rm ID --reason "…"'
_SILENT_HINT = "Look for pytest_cmdline_main in a conftest.py, and for a module that is named pytest."
_FAILED_HINT = "Let the command exit with the code of pytest; a conftest.py may change it."


def find_unselected_tests(
    snapshots: ProjectSnapshots,
    tests: Mapping[str, str],
    asked_files: AskedFiles | None,
    observations: RunObservations,
    *,
    has_passed: bool = True,
    prefix: str = "",
) -> Iterator[Finding]:
    """Tests, fixtures and imports with approved calls that did not run, although the command asks for their files;
    such files that are gone, unless all their calls are made elsewhere now; and approved calls of no known test, as
    of an imported cassette, where the command asks for the whole folder and no call was replayed.

    `prefix` is what the names of the files begin with in the current folder. `has_passed`: the command exited with 0;
    a failed run is red, and may have ended early.
    """
    if asked_files is None or (not has_passed and FAILED in tests.values()):
        return
    used_ids = {name for _, name, _ in observations.uses}
    calls_by_scope = _list_calls(snapshots)
    unknown_calls = calls_by_scope.pop("", [])
    if unknown_calls and "" in asked_files and not used_ids and not observations.missed_scopes:
        subject = "an approved call" if len(unknown_calls) == 1 else f"{len(unknown_calls)} approved calls"
        message = f"no call was replayed; {subject} of no known test could not be compared"
        yield Finding("(the tests)", "", IO, message, _UNKNOWN_TEST_HINT)
    gone_names: dict[str, None] = {}
    for scope in _list_scopes_left_out(snapshots, tests, calls_by_scope, observations):
        file = find_scope_file(scope)
        if file not in asked_files:
            continue
        is_gone = asked_files[file]
        # Another test, or a fixture of another name, may make its calls now.
        may_have_moved = is_gone or is_shared_scope(scope)
        calls = [call for call in calls_by_scope[scope] if not may_have_moved or call.id not in used_ids]
        if calls and is_gone:
            gone_names[f"{prefix}{file}"] = None
        elif calls:
            message = f"{scope} did not run, and {describe_calls(len(calls))} not compared"
            yield Finding(scope, "", IO, message, _HINT)
    for name in gone_names:
        yield Finding(name, "", IO, f"{name} is gone, and its approved calls were not compared", _GONE_HINT)


def _list_scopes_left_out(
    snapshots: ProjectSnapshots,
    tests: Mapping[str, str],
    calls_by_scope: Mapping[str, Sequence[ApprovedCall]],
    observations: RunObservations,
) -> Iterator[str]:
    """The tests, fixtures and imports with approved calls that did not run, under no name, and had no leave to."""
    outcomes = observations.list_outcomes(tests)
    run_scopes = make_run_scopes(snapshots.loaded, {*tests})
    skipped_modules = tuple(f"{name}::" for name in tests if "::" not in name)
    renamed_tests = find_renamed_tests(calls_by_scope, tests)
    for scope, approved_calls in sorted(calls_by_scope.items()):
        if not (
            scope in outcomes
            or _ran_as(renamed_tests.get(scope, ""), scope, tests, approved_calls, snapshots, observations)
            or is_command_scope(scope)
            or scope.startswith(skipped_modules)
            or run_scopes.is_removed(scope)
            or names_test(snapshots.loaded.config.test.may_skip, scope)
        ):
            yield scope


def _ran_as(
    name: str,
    scope: str,
    tests: Mapping[str, str],
    approved_calls: Iterable[ApprovedCall],
    snapshots: ProjectSnapshots,
    observations: RunObservations,
) -> bool:
    """Whether a test ran whole under another name, which it has in another root of pytest, and asked what was
    approved for `scope`, as often. One that asked more often is judged by its calls.
    """
    if tests.get(name) != PASSED:
        return False
    keys, config = snapshots.player.request_keys, snapshots.loaded.config
    request_counts: Counter[str] = Counter()
    for user, call_id, times in observations.uses:
        if user == name:
            request_counts[keys.get(call_id, call_id)] += times
    approved: Counter[str] = Counter()
    for call in approved_calls:
        rule = find_count_rule(call, name, config)
        times = call.call_counts.get(scope) or 1  # 0: unknown
        approved[keys.get(call.id, call.id)] += times if rule in (CountRule.EXACT, CountRule.MAY_REPEAT) else 1
    return all(request_counts[key] >= times for key, times in approved.items())


def find_failed_tests(
    snapshots: ProjectSnapshots, tests: Mapping[str, str], broken_scopes: Iterable[str]
) -> Iterator[Finding]:
    """Tests and fixtures with approved calls that failed, in a run that passed nevertheless: their calls are not
    counted. A fixture that ends with a skip counts only where a test has failed.
    """
    failed = {scope for scope, outcome in tests.items() if outcome == FAILED}
    for scope, calls in sorted(_list_calls(snapshots).items()):
        if scope in failed or (failed and scope in broken_scopes):
            message = f"{scope} failed, the run passed, and {describe_calls(len(calls))} not compared"
            yield Finding(scope, "", IO, message, _FAILED_HINT)


def _list_calls(snapshots: ProjectSnapshots) -> dict[str, list[ApprovedCall]]:
    """The approved calls of each scope."""
    calls: dict[str, list[ApprovedCall]] = {}
    for call in snapshots.approved_calls:
        for scope in {turn.scope for turn in call.turns}:
            calls.setdefault(scope, []).append(call)
    return calls


def list_asked_files(snapshots: ProjectSnapshots, words: Sequence[str], folder: str) -> AskedFiles | None:
    """The files of scopes with approved calls that the command `words` asks for; None outside of CI, or if it may
    choose tests itself.

    To be called before the command runs in `folder`: its code can move files, and the current folder of pytest.
    """
    paths = find_whole_paths(words, folder) if is_ci() else None
    if paths is None:
        return None
    scopes = {turn.scope for call in snapshots.approved_calls for turn in call.turns}
    files = {find_scope_file(scope) for scope in scopes if not is_command_scope(scope)}
    project = snapshots.loaded.project
    places = _ScopePlaces(project, folder, find_gone_files(project, files - {""}))
    return {file: places.is_gone(file) for file in sorted(files) if places.is_below(file, paths)}


class _ScopePlaces:
    """Where the files of scopes are: node ids begin in the folder of the command, the project, or a folder below it.
    `gone_files` are those that the base of the build has and the checkout lacks.
    """

    def __init__(self, project: str, folder: str, gone_files: Collection[str]) -> None:
        self._project = os.path.realpath(project)
        self._gone_files = gone_files
        self._starts = list(dict.fromkeys([os.path.realpath(folder), self._project]))

    @cached_property
    def _folders(self) -> list[str]:
        return list(list_subfolders(self._project))

    def _find_files(self, file: str) -> list[str]:
        for starts in (self._starts, () if os.path.isabs(file) else self._folders):
            if files := [path for start in starts if os.path.exists(path := os.path.join(start, file))]:
                return files
        return []

    def is_gone(self, file: str) -> bool:
        return file in self._gone_files or not self._find_files(file)

    def is_below(self, file: str, paths: Sequence[str]) -> bool:
        """Whether the file is, or was, in one of the paths: by its name, or where links lead."""
        files = [] if file in self._gone_files else self._find_files(file)
        files = files or [os.path.join(start, file) for start in self._starts]
        return any(
            is_below(form, path) for name in files for form in (name, os.path.realpath(name)) for path in paths
        )


def is_below(file: str, folder: str) -> bool:
    """Whether a path is a folder, or in it."""
    return os.path.join(file, "").startswith(os.path.join(folder, ""))


def find_pytest(words: Sequence[str]) -> int | None:
    """Where a command names pytest; None if it does not."""
    return next((index for index, word in enumerate(words) if os.path.basename(word) in PYTEST_NAMES), None)


def find_silent_pytest(
    approved_calls: Iterable[ApprovedCall], tests: Mapping[str, str], words: Sequence[str]
) -> Iterator[Finding]:
    """A pytest that passed and reported no test, although tests have approved calls: a `conftest.py` may have kept it
    from running, or another program may have its name.
    """
    scopes = {turn.scope for call in approved_calls for turn in call.turns}
    if find_pytest(words) is not None and not tests and any(map(is_test_scope, scopes)):
        yield Finding("(the command)", "", IO, "pytest reported no test, and exited with 0", _SILENT_HINT)


def find_whole_paths(words: Sequence[str], folder: str) -> list[str] | None:
    """The files and folders that a pytest command in `folder` asks for as a whole; None if it may choose tests, or
    runs something else than pytest.
    """
    index = find_pytest(words)
    if index is None:
        return None
    paths: list[str] = []
    arguments = [*words[index + 1 :], *build_environment().get("PYTEST_ADDOPTS", "").split()]
    while arguments:
        word = arguments.pop(0)
        name, _, value = word.partition("=")
        if name == "-p":
            plugin = arguments.pop(0) if arguments else ""
            if not plugin.startswith("no:"):
                return None
        elif name in HARMLESS_OPTIONS:
            takes_next = name in OPTIONS_WITH_VALUE or (
                name in OPTIONS_WITH_OPTIONAL_VALUE and not "".join(arguments[:1]).startswith("-")
            )
            if takes_next and not value and arguments:
                arguments.pop(0)
        elif word.startswith("-"):
            if not word.startswith(SHORT_OPTIONS_WITH_TEXT) and not _FLAGS.fullmatch(word):
                return None
        elif "::" in word:
            return None
        else:
            path = os.path.join(folder, word)
            paths += [os.path.abspath(path), os.path.realpath(path)]  # A pull request can make it a link.
    return list(dict.fromkeys(paths)) or [os.path.realpath(folder)]
