"""Tests with approved calls that a build left out although its command asks for all of them.

In: the command that ran pytest, the tests that ran, and the approved calls. Out: a finding for each test that exists
and did not run. Never: judges on a developer's machine, a command that may choose tests itself, or a removed test,
whose snapshots are unused.

Which tests run is decided by the command, and by files that a pull request can bring: `-k` or `--deselect` in
`addopts`, `python_functions`, a `conftest.py` that drops tests. What these leave out is not compared.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from traceforge.build_environment import build_environment, is_ci
from traceforge.findings import IO, Finding
from traceforge.snapshots.gate.gate_findings import describe_calls
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots, make_run_scopes
from traceforge.snapshots.tree.run_scopes import is_test_scope

# Options of pytest and its common plugins that choose no tests. With any other option, the command may.
HARMLESS_OPTIONS = frozenset(
    {
        "-q", "-v", "-vv", "-s", "-l", "-x", "--exitfirst", "--maxfail", "--quiet", "--verbose", "--verbosity",
        "--capture", "--tb", "--color", "--no-header", "--no-summary", "--show-capture", "--showlocals",
        "--junitxml", "--junit-xml", "--durations", "--strict-markers", "--strict-config", "--import-mode",
        "--basetemp", "--cov", "--cov-report", "--cov-config", "--cov-branch", "--cov-fail-under", "--cov-append",
        "-n", "--numprocesses", "--dist", "--maxprocesses", "--timeout", "--asyncio-mode", "--traceforge",
        "--traceforge-allow-unused", "-W", "--html", "--self-contained-html", "--benchmark-disable",
    }
)  # fmt: skip
OPTIONS_WITH_VALUE = frozenset(
    {
        "--maxfail", "--verbosity", "--capture", "--tb", "--color", "--show-capture", "--junitxml", "--junit-xml",
        "--durations", "--import-mode", "--basetemp", "--cov-report", "--cov-config", "--cov-fail-under", "-n",
        "--numprocesses", "--dist", "--maxprocesses", "--timeout", "--asyncio-mode", "--traceforge", "-W", "--html",
    }
)  # fmt: skip
OPTIONS_WITH_OPTIONAL_VALUE = frozenset({"--cov"})  # The next word is their value, unless it is an option.
SHORT_OPTIONS_WITH_TEXT = ("-r", "-n", "-W")  # such as -ra and -n2
PYTEST_NAMES = frozenset({"pytest", "py.test"})

_HINT = "Run it, or list it in test.may_skip; a subset that the command itself names is not judged."


def find_unselected_tests(
    snapshots: ProjectSnapshots, tests: Mapping[str, str], words: Sequence[str]
) -> Iterator[Finding]:
    """In CI: tests with approved calls that did not run, although the command `words` chooses no tests."""
    paths = find_whole_paths(words) if is_ci() else None
    if paths is None or "failed" in tests.values():  # A failed run is red, and may have ended early.
        return
    call_counts = Counter(scope for call in snapshots.approved_calls for scope in {turn.scope for turn in call.turns})
    scopes = make_run_scopes(snapshots.loaded, {*tests})
    skipped_modules = tuple(f"{name}::" for name in tests if "::" not in name)
    for scope, calls in sorted(call_counts.items()):
        path = scopes.find_file(scope)
        if (
            is_test_scope(scope)
            and scope not in tests
            and path
            and any(os.path.join(path, "").startswith(os.path.join(folder, "")) for folder in paths)
            and not scope.startswith(skipped_modules)
            and not scopes.is_removed(scope)
            and not any(scope == name or fnmatchcase(scope, name) for name in snapshots.loaded.config.test.may_skip)
        ):
            yield Finding(scope, "", IO, f"{scope} did not run, and {describe_calls(calls)} not compared", _HINT)


def find_whole_paths(words: Sequence[str]) -> list[str] | None:
    """The files and folders that a pytest command asks for as a whole; None if it may choose tests, or runs something
    else than pytest.
    """
    index = next((place for place, word in enumerate(words) if os.path.basename(word) in PYTEST_NAMES), None)
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
            if not word.startswith(SHORT_OPTIONS_WITH_TEXT):
                return None
        elif "::" in word:
            return None
        else:
            paths.append(os.path.realpath(word))
    return paths or [os.path.realpath(os.curdir)]
